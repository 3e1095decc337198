"""Missing evidence is no evidence: an outcome that missing spans could turn is none."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.engine.compiled_task import CompiledTask, OpenValue, Run
from scouter.evaluate.engine.more_spans import (
    Fixed,
    Longer,
    MissingParts,
    Numbers,
    Reach,
    ReachOf,
    ReadsPart,
    looks_at_attributes,
    more_calls_reach,
    name_cut,
    reach_of,
    reach_of_cut,
    reads_part,
)
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.compiled import Check, Comparison, Number, is_number, want_flag
from scouter.evaluate.operators.show import show
from scouter.evaluate.operators.table import compile_comparison
from scouter.evaluate.outcome import Outcome, Reason, TaskFault
from scouter.evaluate.responses.read import compile_work, why_open
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.about import Find
from scouter.evaluate.spans.filters import compile_missing
from scouter.evaluate.spans.gaps import NO_GAPS
from scouter.evaluate.spans.measures import compile_lacking, compile_unstated
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertionTask, ResponseFieldAssertion
from scouter.evaluate.tasks.trace import (
    ModelCostAssertion,
    ModelTokensAssertion,
    SpanAggregationAssertion,
    SpanCountAssertion,
    SpanExistsAssertion,
    TraceAssertionTask,
)
from scouter.model.agent_work import CallsToldBy, why_unreported
from scouter.model.genai.wrappers import is_hidden

_OF_NUMBERS: Final = frozenset({
    Op.Equals, Op.NotEqual, Op.DeepEquals, Op.GreaterThan, Op.GreaterThanOrEqual, Op.LessThan,
    Op.LessThanOrEqual, Op.InRange, Op.NotInRange, Op.IsPositive, Op.IsNegative, Op.IsZero,
    Op.ApproximatelyEquals, Op.WithinAbsoluteTolerance, Op.WithinRelativeTolerance,
})  # fmt: skip
"""Operators that say the same of all numbers between two neighbours of those expected."""
_OF_TYPES: Final = frozenset({
    Op.IsNumeric, Op.IsString, Op.IsBoolean, Op.IsNull, Op.IsArray, Op.IsObject, Op.IsEmpty,
    Op.IsNotEmpty,
})  # fmt: skip
"""Operators that say the same of all numbers, and of all lists that are not empty."""
_LENGTHS: Final = "HasLength"
_MORE_KEEPS_PASS: Final = frozenset({Op.Contains, Op.ContainsAll, Op.ContainsAny})
_MORE_KEEPS_FAIL: Final = frozenset({Op.NotContains, Op.ContainsNone})
_NO_SPANS: Final = SpanTree()
WhyOpen: TypeAlias = Callable[["SpanTree | None", JsonValue], str]
"""Function from the record's spans and the task's own context to the reason, in words, that more
evidence may be missing; the empty text for none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Motion:
    """Ranges of values that a task on spans can still take while parts of the trace are missing."""

    by_spans: ReachOf
    by_attributes: ReachOf | None
    """Range while parts of present spans are missing; None if the task reads no attributes."""
    by_cut: Reach
    """Range where a value that the task reads was cut."""
    reads: ReadsPart


def on_spans(
    compiled: CompiledTask, task: TraceAssertionTask | AgentAssertionTask, find: Find
) -> CompiledTask:
    """Let the results of a task on spans name these; see `on_moving_spans`."""
    assertion = task.assertion
    motion = Motion(
        by_spans=reach_of(assertion, MissingParts.SPANS),
        by_attributes=reach_of(assertion, MissingParts.ATTRIBUTES)
        if looks_at_attributes(assertion)
        else None,
        by_cut=reach_of_cut(assertion),
        reads=reads_part(assertion),
    )
    return on_moving_spans(compiled, task.operator, motion, find)


def on_moving_spans(
    compiled: CompiledTask, operator: Op, motion: Motion, find: Find
) -> CompiledTask:
    """Let a task's results name their spans, and be errored where missing spans could turn them.

    A task that was stopped for its cost calls its judge no more.

    Args:
        compiled: The task, which knows nothing of missing spans.
        operator: Operator of the task.
        motion: Values that the task's value can become.
        find: Finds the spans that the task is about.

    Cost: of `find`; where the tree has gaps, one more comparison for each of a few values.
    """
    run, limit = compiled.run, Reason.LIMIT

    def run_on_spans(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        result = run(scope, spans, base)
        if spans is None or spans.unread or not spans.spans:
            return result
        if spans.gaps is not NO_GAPS and result.reason in (None, Reason.NOT_TOLD):
            result = doubt(result, spans)
        if result.reason is not limit:
            result.span_ids = find(spans)
        return result

    def doubt(result: EvalTaskResult, spans: SpanTree) -> EvalTaskResult:
        gaps, value = spans.gaps, result.actual
        if gaps.spans and could_turn(motion.by_spans(spans, value), operator, result):
            return _incomplete(result, f"spans are missing that could turn this: {gaps.spans}")
        by_attributes = motion.by_attributes
        if (
            gaps.attributes
            and by_attributes is not None
            and could_turn(by_attributes(spans, value), operator, result)
        ):
            return _incomplete(result, f"what is missing could turn this: {gaps.attributes}")
        cut = name_cut(gaps.cut, motion.reads) if gaps.cut else ""
        if cut and could_turn(motion.by_cut, operator, result):
            return _incomplete(result, f"the rest of a value that was cut could turn this: {cut}")
        return result

    return CompiledTask(cast(Run, run_on_spans), compiled.spec, _open_value(motion))


def _open_value(motion: Motion) -> OpenValue:
    def open_value(result: EvalTaskResult, spans: SpanTree | None) -> TaskFault | None:
        if spans is None or spans.gaps is NO_GAPS:
            return None
        gaps, value = spans.gaps, result.actual
        missing = ""
        if gaps.spans and not _is_settled(motion.by_spans(spans, value)):
            missing = gaps.spans
        elif gaps.attributes and not _is_settled(
            motion.by_attributes(spans, value) if motion.by_attributes else Fixed.SAME
        ):
            missing = gaps.attributes
        elif gaps.cut and not _is_settled(motion.by_cut):
            missing = name_cut(gaps.cut, motion.reads)
        return TaskFault(Reason.INCOMPLETE, missing) if missing else None

    return open_value


def _is_settled(reach: Reach) -> bool:
    """Tell whether a value can become no other one."""
    return reach is Fixed.SAME or (isinstance(reach, Numbers) and reach.low == reach.high)


def doubting_growth(
    compiled: CompiledTask, is_settled: Callable[[EvalTaskResult], bool]
) -> CompiledTask:
    """Let a task be errored where anything is missing, unless no more evidence could turn it.

    Args:
        compiled: The task, which knows nothing of missing spans.
        is_settled: Tells of a result whether it stands whatever else comes.
    """
    run = compiled.run

    def run_doubting(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        result = run(scope, spans, base)
        if not spans or spans.unread or result.reason is not None or is_settled(result):
            return result
        gaps = spans.gaps
        missing = gaps.spans or gaps.attributes or next(iter(gaps.cut.values()), "")
        if missing:
            return _incomplete(result, f"what is missing could turn this: {missing}")
        why = why_unreported(spans.agent_work)
        return doubted(result, Reason.NOT_TOLD, why) if why else result

    return CompiledTask(cast(Run, run_doubting), compiled.spec)


def refuse_missing(spans: SpanTree, by: CallsToldBy | None = None) -> None:
    """Refuse spans that may not tell of every call: nobody knows what the others would change.

    Args:
        spans: Those of the record.
        by: Where calls are reported, if the task says so.

    Raises:
        TaskFault: Something is missing; names it.
    """
    gaps = spans.gaps
    missing = gaps.spans or gaps.attributes or name_cut(gaps.cut, lambda _: True)
    if missing:
        raise TaskFault(Reason.INCOMPLETE, f"what is missing could change the outcome: {missing}")
    if why := why_unreported(spans.agent_work, by):
        raise TaskFault(Reason.NOT_TOLD, f"calls that nobody tells of could change it: {why}")


def doubting_work(compiled: CompiledTask, task: AgentAssertionTask) -> CompiledTask:
    """Let an assertion on an agent's work doubt what nobody tells; see `doubting_motion`."""
    assertion = task.assertion
    if isinstance(assertion, ResponseFieldAssertion):
        return compiled
    why, work = why_open(assertion, task.calls_told_by), compile_work(task)
    reach = more_calls_reach(assertion)
    return doubting_motion(
        compiled, task.operator, reach, lambda spans, base: why(work(spans, base))
    )


def doubting_absence(
    compiled: CompiledTask, operator: Op, assertion: SpanCountAssertion | SpanExistsAssertion
) -> CompiledTask:
    """Let a task not pass because no span has an attribute that its filter looks for.

    The sender may write it under another name: `0 <= 4` says nothing then.
    """
    run, missing = compiled.run, compile_missing(assertion.filter)
    reach = reach_of(assertion, MissingParts.ATTRIBUTES)

    def run_doubting(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        result = run(scope, spans, base)
        if result.outcome is not Outcome.PASSED or not spans or not (why := missing(spans)):
            return result
        if could_turn(reach(spans, result.actual), operator, result):
            return doubted(
                result, Reason.NOT_TOLD, f"is {show(result.actual)} as far as is reported; {why}"
            )
        return result

    return CompiledTask(cast(Run, run_doubting), compiled.spec, compiled.open_value)


def doubting_masks(compiled: CompiledTask) -> CompiledTask:
    """Let a task on an attribute be errored where a mask stands in the place of its value.

    A task that expects the mask, or a part of it, says that it is about it.
    """
    run = compiled.run

    def run_doubting(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        result = run(scope, spans, base)
        values = result.actual if isinstance(result.actual, list) else [result.actual]
        mask = next((value for value in values if is_hidden(value)), None)
        if mask is None or result.reason is not None or _expects(result.expected, str(mask)):
            return result
        message = f"is not reported: {show(mask)} stands in its place"
        return doubted(result, Reason.NOT_TOLD, message)

    return CompiledTask(cast(Run, run_doubting), compiled.spec, compiled.open_value)


def _expects(expected: JsonValue, mask: str) -> bool:
    words = expected if isinstance(expected, list) else [expected]
    return any(isinstance(word, str) and word and word in mask for word in words)


def doubting_aggregate(
    compiled: CompiledTask,
    operator: Op,
    assertion: SpanAggregationAssertion | ModelTokensAssertion | ModelCostAssertion,
) -> CompiledTask:
    """Let a task on an aggregate doubt it where a span lacks its value; see `doubting_motion`."""
    reach = reach_of(assertion, MissingParts.SPANS)
    if isinstance(assertion, SpanAggregationAssertion):
        lacking = compile_lacking(assertion)
    else:
        lacking = compile_unstated(assertion)
    return doubting_motion(
        compiled, operator, reach, lambda spans, _: lacking(spans) if spans else ""
    )


def doubting_motion(
    compiled: CompiledTask, operator: Op, reach: ReachOf, why_open: WhyOpen
) -> CompiledTask:
    """Let a task be errored where evidence that nobody tells could turn it.

    Args:
        compiled: The task.
        operator: Operator of the task.
        reach: Values that the task's value can become with more evidence.
        why_open: Says why there may be more.

    Cost: where something is not reported, one more comparison for each of a few values.
    """
    run = compiled.run

    def run_doubting(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> EvalTaskResult:
        result = run(scope, spans, base)
        if result.reason is not None or not (why := why_open(spans, base)):
            return result
        # Of what may be either way nothing is known, whatever the operator says of both.
        found = reach(spans or _NO_SPANS, result.actual)
        if found is Fixed.EITHER or could_turn(found, operator, result):
            return doubted(
                result, Reason.NOT_TOLD, f"is {show(result.actual)} as far as is reported; {why}"
            )
        return result

    open_value = _or_unreported(compiled, reach, why_open)
    return CompiledTask(cast(Run, run_doubting), compiled.spec, open_value)


def _or_unreported(compiled: CompiledTask, reach: ReachOf, why_open: WhyOpen) -> OpenValue | None:
    before = compiled.open_value
    if before is None:  # it reads no spans
        return None

    def open_value(result: EvalTaskResult, spans: SpanTree | None) -> TaskFault | None:
        fault = before(result, spans)
        if fault is not None or not spans:
            return fault
        why = why_open(spans, None)
        is_open = why and not _is_settled(reach(spans, result.actual))
        return TaskFault(Reason.NOT_TOLD, why) if is_open else None

    return open_value


def _incomplete(result: EvalTaskResult, why: str) -> EvalTaskResult:
    return doubted(
        result, Reason.INCOMPLETE, f"is {show(result.actual)} on the spans that are here; {why}"
    )


def doubted(result: EvalTaskResult, reason: Reason, words: str) -> EvalTaskResult:
    """Make a result errored that missing evidence could turn; the words follow the task's label."""
    return EvalTaskResult(
        result.spec, Outcome.ERRORED, reason, result.expected, result.actual,
        f"{result.spec.label} {words}", result.span_ids,
    )  # fmt: skip


def could_turn(reach: Reach, operator: Op, result: EvalTaskResult) -> bool:
    """Tell whether another value could turn a pass into a fail, or a fail into a pass.

    Args:
        reach: Values that the value can become.
        operator: Operator of the task.
        result: Passed or failed, on the value as it is.
    """
    is_passed = result.outcome is Outcome.PASSED
    if reach is Fixed.SAME:
        return False
    if reach is Fixed.ANYTHING:
        return True
    if reach is Fixed.LONGER:
        return operator not in (_MORE_KEEPS_PASS if is_passed else _MORE_KEEPS_FAIL)
    comparison = compile_comparison(operator, result.expected)
    if reach is Fixed.EITHER:
        return _differs(comparison.check, [not result.actual], is_passed)
    if isinstance(reach, Longer):
        return _turns_list(reach, operator, comparison, result)
    return _turns_number(reach, operator, comparison.check, result.expected, is_passed)


def _differs(check: Check, values: Iterable[JsonValue], passed: bool) -> bool:
    """Tell whether any of the values is evaluated otherwise; a fault turns nothing."""
    for value in values:
        try:
            if check(value) is not passed:
                return True
        except TaskFault:
            continue
    return False


def _turns_number(
    reach: Numbers, operator: Op, check: Check, expected: JsonValue, passed: bool
) -> bool:
    if operator in _OF_TYPES:
        return False
    return operator not in _OF_NUMBERS or _differs(check, _samples(reach, expected), passed)


def _turns_list(
    reach: Longer, operator: Op, comparison: Comparison, result: EvalTaskResult
) -> bool:
    passed = result.outcome is Outcome.PASSED
    if comparison.item is not None:  # one item that fails lets the list fail
        if reach.items is None or not passed:
            return passed
        return _turns_number(reach.items, operator, comparison.item, result.expected, passed)
    if not reach.is_list:
        return True
    if operator.startswith(_LENGTHS) and is_number(result.actual):
        length = Numbers(low=cast(Number, result.actual), is_whole=True)
        return _differs(comparison.check, _samples(length, result.expected), passed)
    if operator in _MORE_KEEPS_PASS or operator in _MORE_KEEPS_FAIL:
        return passed is (operator in _MORE_KEEPS_FAIL)
    if operator is Op.HasUniqueItems:
        return passed is want_flag(result.expected)
    return operator not in _OF_TYPES


def _samples(reach: Numbers, expected: JsonValue) -> Iterator[Number]:
    """Numbers of a range, at least one between any two at which a comparison can change."""
    points = [Fraction(0), *_points(expected)]
    points += [Fraction(bound) for bound in (reach.low, reach.high) if math.isfinite(bound)]
    points += [min(points) - 1, max(points) + 1]
    for point in points:
        near: list[Number] = [math.floor(point) + step for step in (-1, 0, 1, 2)]
        if not reach.is_whole:
            near += _floats_near(point)
        yield from (number for number in near if reach.low <= number <= reach.high)


def _floats_near(point: Fraction) -> list[Number]:
    try:
        number = float(point)
    except OverflowError:  # beyond all floats, and so are its neighbours
        return []
    return [number, math.nextafter(number, -math.inf), math.nextafter(number, math.inf)]


def _points(expected: JsonValue) -> list[Fraction]:
    """The numbers at which a comparison can change, by its expected value."""
    if isinstance(expected, str):
        return _number_in(expected)
    if is_number(expected):
        number = cast(Number, expected)
        return [Fraction(number)] if math.isfinite(number) else []
    if not isinstance(expected, list) or len(expected) != 2:  # a pair of numbers, or no number
        return []
    found = [_points(each) for each in expected]
    if not all(found):
        return found[0] + found[1]
    (first,), (second,) = found
    scale = abs(first)
    return [first, second, first - second, first + second,
            first - second * scale, first + second * scale]  # fmt: skip


def _number_in(text: str) -> list[Fraction]:
    """The number that a text is, with which Equals compares."""
    try:
        return [Fraction(int(text))]
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        return []
    return [Fraction(number)] if math.isfinite(number) else []
