"""Candidates: checks that good traces suggest, without a model and without a reference."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import permutations
from typing import Any, Final, TypeAlias

from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.mutate.acts import COMMON, claim_pattern, past_of, verb_of
from scouter.evaluate.mutate.faults import Corpus, Trace, draw
from scouter.evaluate.outcome import Outcome, TaskFault
from scouter.evaluate.responses.sources import unsourced_values
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.model.genai.names import bare_name

Wire: TypeAlias = Mapping[str, Any]
_STOPPED: Final = (Outcome.FAILED, Outcome.ERRORED)
"""Outcomes of a task with which a trace does not pass."""
_FEWEST: Final = 3
"""Traces that a rule has to be seen in; of fewer traces, all."""
_SHARE: Final = 0.05
"""Share of the traces that a rule has to be seen in."""
_SENTENCES: Final = {"answer_is_whole": 7, "long_answer_is_whole": 20}
"""Characters of an answer beyond which its end tells something."""
_TEXTS: Final = {"answer_in_the_language": 10, "long_answer_in_the_language": 40}
"""Characters of an answer beyond which its words tell something."""
_WORDS: Final = 12
"""Common words of which one stands in every answer."""
_PAIRS: Final = 60
"""Pairs of tools whose order is looked at, those of the most traces first."""
_ENDING: Final = r"[^\pL\pN\s,]\s*$"
_WORD: Final = re.compile(r"[^\W\d_]{2,}")


def candidates(corpus: Corpus) -> list[AgentAssertionTask]:
    """Give checks that may hold of traces, those that ask least first; none was run yet."""
    calls = Counter(name for trace in corpus.traces for name in dict.fromkeys(_names(trace)))
    fewest = min(max(_FEWEST, round(_SHARE * len(corpus.traces))), len(corpus.traces))
    tools = [name for name, count in calls.most_common() if count >= fewest]
    most = max(len(trace.work.tool_calls) for trace in corpus.traces)
    found = [
        _task("answer_not_blank", {"ResponseIsBlank": {}}, False),
        _task("no_failed_calls", {"ToolErrorCount": {}}, 0),
        *_of_all_or_each("no_repeated_calls", "RepeatedToolCallCount", tools),
        *_of_all_or_each("no_empty_results", "EmptyResultCount", tools),
        *_of_arguments(corpus, max(fewest, len(corpus.traces) // 10)),
        _task("numbers_have_sources", {"UnsourcedNumberCount": {}}, 0),
        _task(_WITH_TEXT, {"ResponseIsBlank": {}}, False, _when(_CONTENT, "IsNotEmpty", True)),
        *_of_claims(corpus),
        *_of_texts(corpus),
        *_of_order(corpus, tools),
        _task("cites_result", {"ResponseCitesResult": {}}, True),
        _task("few_repeated_calls", {"RepeatedToolCallCount": {}}, 5, operator="LessThanOrEqual"),
        _task(
            "calls_within_reason",
            {"ToolCallCount": {}},
            max(2 * most, most + 5),
            operator="LessThanOrEqual",
        ),
    ]
    return list({task.id: task for task in found}.values())  # names may differ in marks alone


def _names(trace: Trace) -> list[str]:
    return [bare_name(call.name) for call in trace.work.tool_calls if call.name]


_CONTENT: Final[Wire] = {"ResponseContent": {}}
_SOURCED: Final = "arguments_have_sources"
_WITH_TEXT: Final = "answer_has_text"
"""Task that does not apply where an answer has no text, and so does no task that depends on it."""


def _task(
    id: str,
    assertion: Wire,
    expected: object,
    when: Wire | None = None,
    *,
    operator: str = "Equals",
    **more: object,
) -> AgentAssertionTask:
    wire = {"id": re.sub(r"\W+", "_", id), "when": when, **_when(assertion, operator, expected)}
    return AgentAssertionTask.model_validate({**wire, **more})


def _on_text(
    id: str, assertion: Wire, expected: object, when: Wire, operator: str = "Equals"
) -> AgentAssertionTask:
    return _task(id, assertion, expected, when, operator=operator, depends_on=[_WITH_TEXT])


def _when(assertion: Wire, operator: str, expected: object) -> dict[str, object]:
    return {
        "assertion": assertion, "source": "spans", "operator": operator, "expected_value": expected,
    }  # fmt: skip


def _of_all_or_each(id: str, kind: str, tools: Sequence[str]) -> Iterator[AgentAssertionTask]:
    yield _task(id, {kind: {}}, 0)
    for name in tools:
        yield _task(f"{id}_{name}", {kind: {"name": name}}, 0)


def _of_arguments(corpus: Corpus, fewest: int) -> Iterator[AgentAssertionTask]:
    """Names of arguments whose values always come from somewhere."""
    seen: Counter[str] = Counter()
    unsourced: set[str] = set()
    for trace in corpus.traces:
        try:
            found = list(unsourced_values(trace.tree))
        except TaskFault:  # the check errs on this trace, and so is not proposed
            return
        seen.update({name for name, _, __ in found})
        unsourced |= {name for name, _, is_missing in found if is_missing}
    keys = sorted(name for name, count in seen.items() if count >= fewest and name)
    if keys := [name for name in keys if name not in unsourced]:
        yield _task(_SOURCED, {"UnsourcedArgumentCount": {"keys": keys}}, 0)


def _of_order(corpus: Corpus, tools: Sequence[str]) -> Iterator[AgentAssertionTask]:
    """Tools that are always called, and those before which another one always is."""
    for name in tools:
        yield _task(f"calls_{name}", {"ToolCalled": {"name": name}}, True)
    called = [_names(trace) for trace in corpus.traces]
    pairs: Counter[tuple[str, str]] = Counter()
    for first, then in permutations(tools, 2):
        with_then = [each for each in called if then in each]
        if all(first in each[: each.index(then)] for each in with_then):
            pairs[first, then] = len(with_then)
    for names, _ in pairs.most_common(_PAIRS):
        when = _when({"ToolCalled": {"name": names[1]}}, "Equals", True)
        yield _task("_before_".join(names), {"ToolCallSequence": {"names": names}}, True, when)


def _of_claims(corpus: Corpus) -> Iterator[AgentAssertionTask]:
    """Claims of acts: those of a tool need its call; those of no tool are wrong."""
    acts: dict[str, list[str]] = {}
    for tool in corpus.tools:
        if verb := verb_of(tool):
            acts.setdefault(verb, []).append(tool)
    for verb, tools in acts.items():
        if len(tools) == 1:
            called = {"ToolCalled": {"name": tools[0]}}
            yield _on_text(f"{verb}_is_called", called, True, _claims([verb]))
    said = " ".join(trace.work.content or "" for trace in corpus.traces).lower()
    unknown = [verb for verb in COMMON if verb not in acts and past_of(verb)[0] not in said]
    if unknown:  # wherever one is claimed, this fails: the answer is not blank then
        yield _on_text("no_act_without_a_tool", {"ResponseIsBlank": {}}, True, _claims(unknown))


def _claims(verbs: Sequence[str]) -> Wire:
    return _when(_CONTENT, "Matches", claim_pattern(verbs))


def _of_texts(corpus: Corpus) -> Iterator[AgentAssertionTask]:
    """The end of answers, and the words of their language, or its letters."""
    for id, least in _SENTENCES.items():
        when = _when(_CONTENT, "HasLengthGreaterThan", least)
        yield _on_text(id, _CONTENT, _ENDING, when, "Matches")
    for id, least in _TEXTS.items():
        texts = [text for trace in corpus.traces if len(text := trace.work.content or "") > least]
        shares = Counter(word for text in texts for word in dict.fromkeys(_of_language(text)))
        if words := sorted(word for word, _ in shares.most_common(_WORDS)):
            letters = "".join(word for word in words if len(word) == 1)
            pattern = rf"(?i)(?:^|\PL)(?:{'|'.join(words)})(?:\PL|$)"
            pattern += f"|[{letters}]" if letters else ""
            when = _when(_CONTENT, "HasLengthGreaterThan", least)
            yield _on_text(id, _CONTENT, pattern, when, "Matches")


def _of_language(text: str) -> list[str]:
    """Words that are no names, which have capitals; without these, letters."""
    words = [word for word in _WORD.findall(text) if word.islower()]
    return words or [each for each in text if each.isalpha() and not each.isascii()]


def holding(corpus: Corpus) -> list[AgentAssertionTask]:
    """Give the candidates that fail no good trace, nor one that they were not drawn from.

    What half of the traces suggests is tried on the other half; a check that fails there would fail
    good traces to come.
    """
    drawn = sorted(corpus.traces, key=lambda each: draw(each.tree.trace_ids))
    halves = [Corpus(traces=drawn[at::2]) for at in range(2)]
    failing: set[str] = set()
    if all(len(each.traces) >= _FEWEST for each in halves):
        for one, other in (halves, halves[::-1]):
            for stopped in stopped_by(candidates(one), other.traces):
                failing |= stopped - {_SOURCED}
    found = candidates(corpus)
    for stopped in stopped_by(found, corpus.traces):
        failing |= stopped
    return [task for task in found if task.id not in failing]


def stopped_by(tasks: Sequence[Task], traces: Iterable[Trace]) -> list[set[str]]:
    """Run tasks over traces; gives, for each trace, the ids of those that it fails."""
    plan = compile_plan(tasks)
    return [
        {
            task.task_id
            for task in evaluate_record(plan, each.record, each.tree).tasks
            if task.outcome in _STOPPED
        }
        for each in traces
    ]
