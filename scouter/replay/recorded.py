"""Evaluation of recorded traces, like a replay: a conversation is a scenario, a trace a record."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from scouter.agent.calibration.rates import Calibrations
from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError, FileFormatError
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.checks import Checks, difference_of
from scouter.evaluate.results.run import Loss, lost_of
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.spans.derived import derive_record
from scouter.evaluate.spans.files import SpanFilesError
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.attributes import SCENARIO_ID, SCENARIO_ID_MAX_CHARS
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.model.visible import one_line
from scouter.replay.collected import trace_test
from scouter.replay.loading import read_profiles
from scouter.replay.named_run import NamedJudging, NamedRun, answering_judge, with_rates
from scouter.replay.runner import EvalRunner

_NAME_CHARS: Final = SCENARIO_ID_MAX_CHARS - 12
"""Most characters of a question that becomes a name; a number may follow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRun(NamedJudging):
    """Attempts that were made before, with the profiles and the judge for them.

    Args:
        concurrency: Most questions to the judge at a time.
        baseline: Earlier results, which the new ones will be compared with.
        accept_changed: Ids of what changed since and a person looked at; others are refused before
            the judge is called.
    """

    concurrency: int = 8
    baseline: ScenarioEvalResults | None = None
    accept_changed: Sequence[str] = ()
    agent_version: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun(StoredRun):
    """Recorded traces to evaluate.

    Args:
        spans: Of any number of traces, in any order.
        faults: Places that could not be read: their content is lost.
        since_ns: Traces that began before, in ns since 1970, are not judged.
        every_trace: True: also traces that no profile's `watch` selects, and those without a
            question, an answer and a call of an agent's own.
    """

    spans: Iterable[Span]
    faults: Sequence[FileFormatError] = ()
    since_ns: int = 0
    every_trace: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """Results of recorded traces, with the traces and places that were left out."""

    results: ScenarioEvalResults
    left_out: int
    """Traces that no profile judges: see `RecordedRun.every_trace`."""


def judge_recorded(run: RecordedRun) -> Recorded:
    """Judge recorded traces by profiles.

    From each trace a record is derived for each profile that judges it: by its `watch`, of which
    the shares are for traffic, or any trace of an agent. Traces of one conversation are one
    scenario, in order of time; one without is a scenario of its own. Scenarios and records are
    called by their question, so that another recording of the same questions can be compared.

    Raises:
        ConfigError: A profile, the judge or an accepted id is wrong, or there is no trace to judge.
        SpanFilesError: Nothing could be read.

    Cost: that of the evaluation.
    """
    profiles = read_profiles(run.profiles)
    if not profiles:
        raise ConfigError("nothing judges the traces; give a profile with --profile")
    traces = list(map(SpanTree, _by_trace(run.spans)))
    if run.faults and not traces:
        raise SpanFilesError(tuple(run.faults))
    recent = [each for each in traces if each.start_ns >= run.since_ns]
    tests = {
        alias: _test(profile, every_trace=run.every_trace) for alias, profile in profiles.items()
    }
    turns = [
        _turn(tree, aliases)
        for tree in recent
        if (aliases := [alias for alias, is_judged in tests.items() if is_judged(tree)])
    ]
    if not turns:
        raise ConfigError(_nothing(len(traces), len(recent)))
    items = _conversations(turns)
    scenarios = EvalScenarios(
        [EvalScenario(name, id=name) for name in distinct_names(item[0].name for item in items)]
    )

    def collect(runner: EvalRunner) -> None:
        runner.add_spans(span for each in turns for span in each.tree.spans)
        runner.lost = lost_of({Loss.UNREADABLE: len(run.faults)})
        for scenario, conversation in zip(scenarios, items, strict=True):
            _collect(runner, scenario, conversation)

    results = judge_stored(scenarios, run, collect)
    return Recorded(results=results, left_out=len(recent) - len(turns))


def _test(profile: AgentEvalProfile, *, every_trace: bool) -> Callable[[SpanTree], bool]:
    """Make a function that tells whether a profile judges a trace."""
    if every_trace:
        return lambda tree: True
    return trace_test(profile) if profile.watch else lambda tree: tree.has_agent


def judge_stored(
    scenarios: EvalScenarios, run: StoredRun | NamedRun, collect: Callable[[EvalRunner], None]
) -> ScenarioEvalResults:
    """Judge attempts that were made before.

    Args:
        scenarios: The scenarios; their own tasks judge the attempts.
        run: Its profiles judge the records.
        collect: Gives a runner the attempts.

    Raises:
        ConfigError: A profile, the judge or an accepted id is wrong.
    """
    profiles = read_profiles(run.profiles)
    calibrations, judge = Calibrations.read(run.calibrations), run.own_judge()
    runner = EvalRunner(scenarios, profiles, ())
    if (before := run.baseline) is not None:
        checks = Checks(before.provenance, before.scenarios), runner.checks(run.judge_name)
        difference_of(*checks).check_accepted(run.accept_changed)
    collect(runner)
    with answering_judge(run, profiles, scenarios, judge) as answering:
        results = runner.evaluate(judge=answering, concurrency=run.concurrency)
    results = with_rates(results, profiles, [*scenarios], calibrations, run.judge_name)
    update = {"agent_version": run.agent_version, "named_aliases": tuple(profiles)}
    provenance = results.provenance.model_copy(update=update)
    return results.model_copy(update={"provenance": provenance})


class _Turn(NamedTuple):
    """A trace, what it is called and which aliases judge it."""

    tree: SpanTree
    record: EvalRecord
    """That it tells of, whoever judges it."""
    name: str
    aliases: Sequence[str]


def _turn(tree: SpanTree, aliases: Sequence[str]) -> _Turn:
    record = derive_record(tree)
    return _Turn(tree, record, _name_of(record), aliases)


def _by_trace(spans: Iterable[Span]) -> list[list[Span]]:
    """The traces by their start, without the marks of a replay, which are about another run."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.trace_id, []).append(_unmarked(span))
    return sorted(found.values(), key=lambda each: min(span.start_ns for span in each))


def _unmarked(span: Span) -> Span:
    if SCENARIO_ID not in span.attributes:
        return span
    retained = {key: value for key, value in span.attributes.items() if key != SCENARIO_ID}
    return replace(span, attributes=retained)


def _conversations(turns: Iterable[_Turn]) -> list[list[_Turn]]:
    found: dict[str, list[_Turn]] = {}
    for turn in turns:
        record = turn.record
        key = record.session_id if record.names_session else record.uid
        found.setdefault(key, []).append(turn)
    return list(found.values())


def _name_of(record: EvalRecord) -> str:
    """The question on one line; without one the trace id, which nothing else is called by."""
    said = record.context
    question = said.get("question") if isinstance(said, dict) else None
    name = one_line(question)[:_NAME_CHARS].strip() if isinstance(question, str) else ""
    return name or f"trace {record.trace_id}"


def distinct_names(names: Iterable[str]) -> list[str]:
    """Make names unique: those that are there again with a number behind them."""
    seen: Counter[str] = Counter()
    found: dict[str, None] = {}
    for name in names:
        free = name
        while free in found:
            seen[name] += 1
            free = f"{name} ({seen[name] + 1})"
        found[free] = None
    return list(found)


def _collect(
    runner: EvalRunner,
    scenario: EvalScenario,
    conversation: Sequence[_Turn],
) -> None:
    names = distinct_names(turn.name for turn in conversation)
    records: dict[str, list[EvalRecord]] = {alias: [] for alias in runner.profiles}
    turns: list[dict[str, object]] = []
    for turn, name in zip(conversation, names, strict=True):
        for alias in turn.aliases:
            record = derive_record(turn.tree, profile=alias)
            record.record_id = name
            records[alias].append(record)
        said = turn.record.context
        context = said if isinstance(said, dict) else {}
        turns.append({"user": context.get("question") or name, "agent": context.get("answer")})
    every = [span for turn in conversation for span in turn.tree.spans]
    runner.collect_scenario_data(
        records,
        turns[-1]["agent"],
        scenario,
        turns=turns,
        duration_ns=SpanTree(every).duration_ns,
    )


def _nothing(traces: int, recent: int) -> str:
    if not traces:
        return "there is no span to judge"
    if not recent:
        return f"none of the {traces} traces began since then; give an earlier --since"
    return (
        f"no profile judges any of the {recent} traces: none tells of a question, an answer or a "
        "call of an agent's own, or the watch of the profile selects none; --every-trace judges "
        "them all the same"
    )
