"""The spans that a task is about, so that who reads its result finds them."""

from collections.abc import Callable, Iterable, Sequence
from itertools import chain, compress, islice
from operator import attrgetter
from typing import Final, TypeAlias

from scouter.evaluate.results.task_result import MOST_SPAN_IDS
from scouter.evaluate.spans.filters import mask_key
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks import agent, trace
from scouter.evaluate.tasks.agent import AgentAssertion
from scouter.evaluate.tasks.span_filter import SequenceFilter, SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion
from scouter.model.genai.names import is_called


def sequence_names(filter: SpanFilter) -> tuple[str, ...] | None:
    """The names of a sequence filter; None for filters of single spans."""
    return tuple(filter.names) if isinstance(filter, SequenceFilter) else None


def count_runs(wanted: Sequence[str], found: Sequence[str]) -> int:
    """Count the places where the wanted names follow each other in what was found.

    Runs may overlap: `[a, a]` is found twice in `a a a`.

    Args:
        wanted: At least one name.
        found: The names of all spans in time order.

    Cost: linear in both lengths.
    Source: Knuth, Morris and Pratt 1977, doi:10.1137/0206024.
    """
    back = _borders(wanted)
    count = matched = 0
    for name in found:
        while matched and (matched == len(wanted) or name != wanted[matched]):
            matched = back[matched - 1]
        if name == wanted[matched]:
            matched += 1
        count += matched == len(wanted)
    return count


def _borders(wanted: Sequence[str]) -> list[int]:
    """Give the length of the longest proper prefix that is also a suffix, for each prefix."""
    borders = [0]
    for at in range(1, len(wanted)):
        length = borders[-1]
        while length and wanted[at] != wanted[length]:
            length = borders[length - 1]
        borders.append(length + (wanted[at] == wanted[length]))
    return borders


Find: TypeAlias = Callable[[SpanTree], tuple[str, ...]]
"""Function from a tree with spans to at most `MOST_SPAN_IDS` ids of spans, in time order.

Loops are the interpreter's own where they can be: this runs for every result.
"""

_id_of = attrgetter("span_id")
_LAST_ANSWER: Final = frozenset(
    {
        "UnsourcedNumberCount",
        "ResponseContent",
        "ResponseIsBlank",
        "ResponseModel",
        "ResponseFinishReason",
    }
)


def compile_find(assertion: TraceAssertion) -> Find:
    """Prepare to find the spans of a trace assertion, which `compile_measure` has taken.

    Cost: of what is returned, linear in the spans at most. A filter is not applied again: what it
        selected is in the tree, once the task has run.
    """
    match assertion:
        case (
            trace.SpanSequenceAssertion(span_names=names) | trace.SpanSetAssertion(span_names=names)
        ):
            return _named(names)
        case (
            trace.SpanCountAssertion(filter=filter)
            | trace.SpanExistsAssertion(filter=filter)
            | trace.SpanDurationAssertion(filter=filter)
            | trace.SpanAttributeAssertion(filter=filter)
            | trace.SpanAggregationAssertion(filter=filter)
        ):
            return _selected(filter)
        case trace.AttributeFilterAssertion(key=key):
            return lambda tree: _first(
                compress(tree.span_ids, [key in span.attributes for span in tree.spans])
            )
        case _:
            return _of_trace(assertion.kind)


def compile_find_work(assertion: AgentAssertion) -> Find:
    """Prepare to find the spans of a question about an agent's work: of its tools or answers.

    A call that no span executes is the model's span that requested it. Where none is executed, all
    the models' spans are named.
    """
    match assertion:
        case (
            agent.ToolCalledAssertion(name=name)
            | agent.ToolNotCalledAssertion(name=name)
            | agent.ToolCalledWithArgsAssertion(name=name)
            | agent.ToolArgumentAssertion(name=name)
            | agent.ToolResultAssertion(name=name)
            | agent.ToolErrorAssertion(name=name)
            | agent.ToolCallCountAssertion(name=name)
            | agent.RepeatedToolCallCountAssertion(name=name)
            | agent.ResponseCitesResultAssertion(name=name)
            | agent.EmptyResultCountAssertion(name=name)
        ):
            return _calls(None if name is None else (name,))
        case agent.ToolCallSequenceAssertion(names=names):
            return _calls(names)
        case (
            agent.ToolErrorCountAssertion(name=name)
            | agent.UnrecoveredToolErrorCountAssertion(name=name)
        ):
            return _calls(None if name is None else (name,), failed=True)
        case (
            agent.GuardrailVerdictAssertion(name=name)
            | agent.GuardrailActionAssertion(name=name)
            | agent.GuardrailCountAssertion(name=name)
        ):
            return _guardrails(name)
        case agent.UnsourcedArgumentCountAssertion():
            return _calls(None)
        case _:
            return _last_answer if assertion.kind in _LAST_ANSWER else _model_calls


def _first(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(islice(ids, MOST_SPAN_IDS))


def _selected(filter: SpanFilter) -> Find:
    names = sequence_names(filter)
    if names is not None:
        return _named(names)
    key, most = mask_key(filter), MOST_SPAN_IDS
    # Written out and not by `_first`: it runs for every result.
    return lambda tree: tuple(islice(compress(tree.span_ids, tree.masks.get(key, b"")), most))


def _named(names: Iterable[str]) -> Find:
    wanted = frozenset(names)
    return lambda tree: _first(compress(tree.span_ids, map(wanted.__contains__, tree.names)))


def _of_trace(kind: str) -> Find:
    match kind:
        case "TraceErrorCount":
            return _errors
        case "ModelCallCount" | "ModelTokens" | "ModelCost":
            return _model_calls
        case "TraceMaxDepth":
            return lambda tree: (tree.span_ids[tree.depths.index(tree.depth)],)
        case "TraceAttribute":
            return lambda tree: tree.true_root_ids[:1]
        case _:
            return lambda tree: tree.true_root_ids[:MOST_SPAN_IDS]


def _errors(tree: SpanTree) -> tuple[str, ...]:
    return _first(compress(tree.span_ids, tree.errors))


def _calls(names: Sequence[str] | None, *, failed: bool = False) -> Find:
    def find(tree: SpanTree) -> tuple[str, ...]:
        calls = tree.agent_work.tool_calls
        if not failed and not any(call.is_executed for call in calls):
            return _model_calls(tree)
        found = (
            call.span_ids
            for call in calls
            if names is None or any(is_called(call.name, name) for name in names)
            if call.error or not failed
        )
        return _first(dict.fromkeys(chain.from_iterable(found)))

    return find


find_calls: Final = _calls(None)
"""The spans of all calls of tools."""


def _guardrails(name: str | None) -> Find:
    def find(tree: SpanTree) -> tuple[str, ...]:
        runs = tree.agent_work.guardrails
        return _first(chain.from_iterable(run.span_ids for run in runs if name in (None, run.name)))

    return find


def _model_calls(tree: SpanTree) -> tuple[str, ...]:
    return _first(map(_id_of, tree.model_calls))


def _last_answer(tree: SpanTree) -> tuple[str, ...]:
    return tuple(filter(None, (tree.agent_work.answer_span_id,)))
