"""From production to release checks: stored traffic as scenarios, and their files."""

import hashlib
import heapq
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent
from typing import TYPE_CHECKING, Any, Final

from pydantic import JsonValue

from scouter.client.errors import ApiError
from scouter.client.expectation import Conversation, carry, expected_answer, read_conversation
from scouter.client.models.evaluations import Evaluation
from scouter.client.request import Moment
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.files.json_text import is_longer
from scouter.evaluate.files.read import MAX_YAML_BYTES
from scouter.evaluate.files.scenario_text import (
    check_scenario_path,
    dump_yaml,
    remark,
    too_large,
    write_scenario_text,
)
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.scenario import EvalScenario
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertionTask, ToolCallSequenceAssertion
from scouter.evaluate.tasks.task import Task
from scouter.model.agent_work import ToolCall
from scouter.model.otlp_json import spans_from_otlp_json
from scouter.model.score import is_score_uid
from scouter.model.span import Span

if TYPE_CHECKING:  # a collector harvests from its own store
    from scouter.client.client import ScouterClient

NOT_PASSED: Final = (Outcome.FAILED, Outcome.ERRORED)
EXPECTED_TOOLS: Final = "expected_tools"
"""Id of the task that wants the tools that were called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Filter that chooses the evaluations that become scenarios.

    Args:
        failed: True takes only records that failed or errored.
        profile: Alias, name, uid or digest of the profile.
        session_id: Session of the record.
        since: Earliest time of the evaluation.
        until: Time before which the evaluation was made.
        limit: Most scenarios.
        is_sample: True chooses among all, by a digest of their keys, so that the same records give
            the same choice; else the newest are taken.
        whole_sessions: True makes one scenario of each session that has such a record, with all
            of its records; `limit` counts sessions. A record without a session stays one scenario.
    """

    failed: bool = False
    profile: str | None = None
    session_id: str | None = None
    since: Moment | None = None
    until: Moment | None = None
    limit: int = 100
    is_sample: bool = False
    whole_sessions: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Harvested:
    """A scenario, and what a person should know who corrects it."""

    scenario: EvalScenario
    evaluation: Evaluation
    draft: tuple[Task, ...]
    """Tasks that want what the agent did. It may have been wrong, so nobody runs them yet."""
    tool_calls: tuple[ToolCall, ...] = ()
    """Tool calls of the agent, with their results and errors."""
    earlier: tuple[Evaluation, ...] = ()
    """Evaluations of the session's earlier records, where the scenario is of a whole session."""


@dataclass(slots=True)
class Harvest:
    """Records read from a collector, on their way to become scenarios."""

    items: list[Harvested] = field(default_factory=list[Harvested])
    """Sorted by the time of the record, then by its key."""
    silent: list[Evaluation] = field(default_factory=list[Evaluation])
    """Records of which nobody knows what the user said."""
    profiles: dict[str, AgentEvalProfile] = field(default_factory=dict[str, AgentEvalProfile])
    """Profiles that judged the records, by their digest."""
    unknown_profiles: set[str] = field(default_factory=set[str])
    """Digests of profiles whose content the collector does not give."""


def harvest(
    client: "ScouterClient", wanted: Wanted, known: Iterable[AgentEvalProfile] = ()
) -> Harvest:
    """Make scenarios of stored records.

    A scenario has the question of the user, and the expected answer that the record or a task
    names. It has the tasks of the profile that did not pass, where they mean the same without the
    record (see `scouter.client.expectation`). The agent's answer and calls were observed, and are
    marked so: they are no expectation of the scenario.

    Args:
        client: Asks the collector; needs the scope read.
        wanted: Selects the records.
        known: Profiles that may have evaluated them; others are read from the collector.

    Raises:
        ScouterError: The collector refused, or cannot be reached.

    Cost: two or three requests per scenario; the memory of the scenarios.
    """
    found = Harvest()
    at_hand = {profile.digest: profile for profile in known}
    chosen = _choose(_evaluations(client, wanted), wanted)
    for evaluation in sorted(chosen, key=lambda each: (each.created_at, each.uid)):
        records = _session_of(client, evaluation) if wanted.whole_sessions else [evaluation]
        turns: list[tuple[Evaluation, Conversation]] = []
        context: JsonValue = None
        for each in records:
            context = _context_of(client, each)
            conversation = read_conversation(_spans_of(client, each), context)
            if conversation is None:
                found.silent.append(each)
            else:
                turns.append((each, conversation))
        if len(turns) < len(records):
            continue  # a conversation without some of the user's words would be another one
        profile = _profile_of(client, records[-1], at_hand, found)
        found.items.append(harvested(turns, context, profile))
    return found


def _session_of(client: "ScouterClient", evaluation: Evaluation) -> list[Evaluation]:
    """The latest evaluation of each record of a session, in the order in which they were made.

    Several profiles may have a record of one trace: there, those of the evaluation's own count.
    """
    if not evaluation.session_id:
        return [evaluation]
    wanted = Wanted(session_id=evaluation.session_id, whole_sessions=True)
    latest = list(_evaluations(client, wanted)) or [evaluation]
    own = {each.trace_id for each in latest if each.profile == evaluation.profile}
    records = [
        each
        for each in latest
        if each.profile == evaluation.profile or each.trace_id not in own - {None}
    ]
    return sorted(records, key=lambda each: (each.created_at, each.uid))


def _evaluations(client: "ScouterClient", wanted: Wanted) -> Iterator[Evaluation]:
    """The latest evaluation on each record, newest first.

    The lists do not begin at one moment, so that a record which failed in the first may have
    errored in the second.
    """
    lists = [
        client.evaluations(
            profile=wanted.profile,
            session_id=wanted.session_id,
            outcome=outcome,
            since=wanted.since,
            until=wanted.until,
        )
        for outcome in (NOT_PASSED if wanted.failed else (None,))
    ]
    merged = heapq.merge(*lists, key=lambda each: each.evaluated_at, reverse=True)
    seen: set[str] = set()
    for each in merged:
        is_pending = each.outcome is Outcome.PENDING and not wanted.whole_sessions
        is_record = each.scope == "record" and not is_score_uid(each.uid)
        if not is_record or is_pending or each.uid in seen:
            continue  # what is pending, nobody knows yet; but the words of a session are known
        seen.add(each.uid)
        yield each


def _choose(evaluations: Iterator[Evaluation], wanted: Wanted) -> Iterable[Evaluation]:
    if wanted.whole_sessions:
        evaluations = _one_of_each_session(evaluations)
    if not wanted.is_sample:
        return itertools.islice(evaluations, wanted.limit)
    return heapq.nsmallest(wanted.limit, evaluations, key=lambda each: _digest(each.uid))


def _one_of_each_session(evaluations: Iterator[Evaluation]) -> Iterator[Evaluation]:
    seen: set[str] = set()
    for each in evaluations:
        if not each.session_id or each.session_id not in seen:
            seen.add(each.session_id)
            yield each


def _digest(uid: str) -> bytes:
    return hashlib.sha256(uid.encode("utf-8", "surrogatepass")).digest()


def _context_of(client: "ScouterClient", evaluation: Evaluation) -> JsonValue:
    try:
        return client.record(evaluation.uid).context
    except ApiError as error:
        return _none_if_gone(error)


def _spans_of(client: "ScouterClient", evaluation: Evaluation) -> Sequence[Span]:
    if evaluation.trace_id is None:
        return ()
    try:
        trace = client.trace(evaluation.trace_id)
    except ApiError as error:
        _none_if_gone(error)
        return ()
    return SpanTree(spans_from_otlp_json(list(trace.spans)).spans).spans


def _none_if_gone(error: ApiError) -> None:
    """Pass over what retention or an erasure took since the evaluation."""
    if error.status != 404:
        raise error


def _profile_of(
    client: "ScouterClient",
    evaluation: Evaluation,
    at_hand: Mapping[str, AgentEvalProfile],
    found: Harvest,
) -> AgentEvalProfile | None:
    digest = evaluation.profile_version
    if digest not in found.profiles and digest not in found.unknown_profiles:
        profile = at_hand.get(digest) or _find_profile(client, evaluation)
        if profile is None:
            found.unknown_profiles.add(digest)
        else:
            found.profiles[digest] = profile
    return found.profiles.get(digest)


def _find_profile(client: "ScouterClient", evaluation: Evaluation) -> AgentEvalProfile | None:
    for each in client.profiles():
        if each.profile_version == evaluation.profile_version and each.alias == evaluation.profile:
            try:
                return AgentEvalProfile.model_validate(client.profile(each.uid).body)
            except ApiError as error:
                _none_if_gone(error)
            except (ConfigError, ValueError):  # a task of a later version of Scouter
                return None
    return None


def harvested(
    turns: Sequence[tuple[Evaluation, Conversation]],
    context: JsonValue,
    profile: AgentEvalProfile | None,
) -> Harvested:
    """Make a scenario of one record, or of all the records of a session.

    The tasks are those of the last record: a scenario's tasks run once, at its end.

    Args:
        turns: Of each record, in order, the latest evaluation and the messages of user and agent;
            at least one.
        context: Context of the last record.
        profile: Profile of its evaluation; None where nobody knows it.
    """
    evaluation, conversation = turns[-1]
    failed = [task for task in evaluation.tasks if task.outcome in NOT_PASSED]
    carried: list[Task] = []
    if profile is not None:
        wanted = [task.task_id for task in failed]
        carried = carry(profile.tasks, wanted, context, conversation.answer)
    was_right = all(each.outcome is Outcome.PASSED for each, _ in turns)
    of_traces = {each.trace_id or each.uid: exchange for each, exchange in turns}
    calls = tuple(call for exchange in of_traces.values() for call in exchange.tool_calls)
    tools = _expected_tools(calls, {task.id for task in carried})
    tasks = () if profile is None else profile.tasks
    in_file = {task.id for task in carried}
    # Records of one trace read the same words there.
    words = dict.fromkeys(
        (each.trace_id or each.uid, exchange.questions) for each, exchange in turns
    )
    questions = _words_of_all([each for _, each in words])
    metadata: dict[str, JsonValue] = {
        "record_id": evaluation.record_id,
        "session_id": evaluation.session_id,
        "trace_id": evaluation.trace_id,
        "profile": evaluation.profile,
        "profile_version": evaluation.profile_version,
        "outcome": evaluation.outcome.value,
        "failed_tasks": [
            {
                "task_id": task.task_id,
                "outcome": task.outcome.value,
                "message": task.message,
                "judged_by": "scenario" if task.task_id in in_file else "profile",
            }
            for task in failed
        ],
        "observed_answer": conversation.answer,
        "tool_calls": [{"tool_name": call.name, "tool_input": call.arguments} for call in calls],
    }
    if len(turns) > 1:
        metadata["earlier_records"] = [
            {
                "uid": each.uid,
                "trace_id": each.trace_id,
                "outcome": each.outcome.value,
                "observed_answer": exchange.answer,
            }
            for each, exchange in turns[:-1]
        ]
    scenario = EvalScenario(
        id=evaluation.uid,
        initial_query=questions[0],
        predefined_turns=questions[1:],
        expected_outcome=expected_answer(tasks, context, conversation.answer),
        tasks=[*carried, *(tools if was_right else ())],
        metadata=metadata,
    )
    return Harvested(
        scenario=scenario,
        evaluation=evaluation,
        draft=() if was_right else tuple(tools),
        tool_calls=calls,
        earlier=tuple(each for each, _ in turns[:-1]),
    )


def _words_of_all(questions: Sequence[Sequence[str]]) -> list[str]:
    """The user's words in a session, from those that each record has.

    Most agents send the conversation so far with each question, some its last messages, and some
    the question alone. So what a record repeats of the words before it is left out, but for its
    last message: who says the same twice has said it twice.
    """
    words: list[str] = []
    for each in questions:
        longest = min(len(words), len(each) - 1)
        again = next((n for n in range(longest, 0, -1) if words[-n:] == list(each[:n])), 0)
        words += each[again:]
    return words


def _expected_tools(calls: Iterable[ToolCall], taken: set[str]) -> list[Task]:
    """A task that wants the tools that were called; none where none was."""
    names = [call.name for call in calls if call.name]
    if not names:
        return []
    task_id = EXPECTED_TOOLS
    while task_id in taken:
        task_id += "_"
    assertion = ToolCallSequenceAssertion(names=names)
    return [
        AgentAssertionTask(
            task_id,
            assertion,
            True,
            ComparisonOperator.Equals,
            description="Observed: the tools that the record called.",
            source="spans",
        )
    ]


_HEAD: Final = """\
# Scenarios made from stored traffic by `scouter scenarios harvest`. `expected_outcome` is what the
# record, or a task on it, says was expected; what was merely observed is marked so. Before they
# decide over a release, a person should look at each: what should the agent have answered, and are
# the tools those that it should have called?
"""


def write_scenarios(path: Path, items: Sequence[Harvested]) -> None:
    """Write scenarios; the same ones give the same bytes.

    Args:
        path: `.yaml` or `.yml` has remarks, `.jsonl` has none.
        items: At least one.

    Raises:
        ConfigError: The file would be larger than YAML files may be, or cannot be written.
    """
    is_plain = check_scenario_path(path) == ".jsonl"
    written: list[JsonValue] = [
        item.scenario.model_dump(mode="json", exclude_defaults=True) for item in items
    ]
    if not is_plain and is_longer(written, MAX_YAML_BYTES):  # to write it takes half a minute
        raise too_large(path)
    write_scenario_text(path, _json_lines(items) if is_plain else scenario_yaml(path.stem, items))


def _json_lines(items: Sequence[Harvested]) -> str:
    return "".join(f"{item.scenario.model_dump_json(exclude_defaults=True)}\n" for item in items)


def scenario_yaml(name: str, items: Sequence[Harvested]) -> str:
    """Write scenarios as YAML.

    Args:
        name: Of the collection.
        items: At least one.
    """
    head = f"{_HEAD}{dump_yaml({'collection_id': name})}scenarios:\n"
    return head + "".join(_scenario(item) for item in items)


def _scenario(item: Harvested) -> str:
    return "  - " + indent("".join(_fields(item)), "    ").lstrip()


def _fields(item: Harvested) -> Iterator[str]:
    scenario, evaluation = item.scenario, item.evaluation
    yield dump_yaml({"id": scenario.id})
    name = f"{evaluation.record_id or evaluation.uid}: {evaluation.outcome}"
    wrong = [task["task_id"] for task in _failed(item)]
    yield remark(f"Record {name}" + (f" in {', '.join(wrong)}." if wrong else "."))
    for each in item.earlier:
        yield remark(f"Before it in the session: {each.record_id or each.uid}: {each.outcome}.")
    yield dump_yaml({"initial_query": scenario.initial_query})
    if scenario.predefined_turns:
        yield dump_yaml({"predefined_turns": scenario.predefined_turns})
    if scenario.expected_outcome is not None:
        yield remark("Expected: the record, or a task on it, says so.")
        yield dump_yaml({"expected_outcome": scenario.expected_outcome})
    elif _observed(item) is None:
        yield remark("Nothing says what was expected, or what was answered.")
    elif evaluation.outcome is Outcome.PASSED:
        yield remark("Observed, not expected. If the answer was right, remove the mark:")
        yield indent(dump_yaml({"expected_outcome": _observed(item)}), "# ", lambda _: True)
    else:
        yield remark(
            "Nothing says what was expected, and the answer was observed in a record that "
            f"{evaluation.outcome}: see observed_answer in the metadata, and write "
            "expected_outcome."
        )
    if scenario.tasks:
        yield dump_yaml({"tasks": [_wire(task) for task in scenario.tasks]})
    if item.draft:
        yield remark(
            "Observed, not expected: the tools that were called. Correct them, and make it a task "
            "by removing the marks:"
        )
        body = dump_yaml([_wire(task) for task in item.draft])
        yield indent(body if scenario.tasks else f"tasks:\n{body}", "# ", lambda _: True)
    left = [task["task_id"] for task in _failed(item) if task["judged_by"] == "profile"]
    if left:
        yield remark(
            f"Read the record that the agent leaves, so they need --profile: {', '.join(left)}"
        )
    yield dump_yaml({"metadata": scenario.metadata})


def _observed(item: Harvested) -> JsonValue:
    return (item.scenario.metadata or {}).get("observed_answer")


def _failed(item: Harvested) -> list[dict[str, str]]:
    metadata: dict[str, Any] = item.scenario.metadata or {}
    return metadata["failed_tasks"]


def _wire(task: Task) -> dict[str, Any]:
    wire = task.model_dump(mode="json", exclude_none=True)
    wire["expected_value"] = task.expected_value  # None is a value there
    return {
        name: value
        for name, value in wire.items()
        if value not in ([], False) or name == "expected_value"
    }
