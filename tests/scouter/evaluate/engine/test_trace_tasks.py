"""Trace assertions: all kinds and all filters on one small trace, worked out by hand."""

from collections.abc import Callable

import pytest
from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
from scouter.evaluate.tasks.task import parse_task, task_adapter
from scouter.evaluate.tasks.trace import (
    AggregationType,
    AttributeFilterTask,
    MultiResponseMode,
    TraceAssertion,
    TraceAssertionTask,
)
from scouter.model.record import EvalRecord
from tests.scouter.evaluate.spans_support import agent_trace, span

by_name, ALL = SpanFilter.by_name, SpanFilter.with_duration(min_ms=0)
CHAT, SIZED = by_name("chat"), SpanFilter.with_attribute("size")


def measure(
    assertion: TraceAssertion, expected: JsonValue = None, tree: SpanTree | None = None
) -> EvalTaskResult:
    task = TraceAssertionTask("t", assertion, expected, Op.Equals)
    assert (
        parse_task(task_adapter().dump_python(task, mode="json")) == task
    )  # the wire form loses nothing
    spans = agent_trace() if tree is None else tree
    return evaluate_record(compile_plan([task]), EvalRecord({"n": 6}), spans).tasks[0]


@pytest.mark.parametrize(
    ("assertion", "value"),
    [
        (TraceAssertion.span_sequence(["run", "chat", "search", "fetch", "chat", "save"]), True),
        (TraceAssertion.span_sequence(["run", "chat", "search"]), False),
        (TraceAssertion.span_set(["save", "run", "chat", "search", "fetch"]), True),
        (TraceAssertion.span_set(["save", "run"]), True),
        (TraceAssertion.span_set(["save", "save"]), True),
        (TraceAssertion.span_set(["save", "run", "other"]), False),
        (TraceAssertion.span_count(CHAT), 2),
        (TraceAssertion.span_count(by_name("none")), 0),
        (TraceAssertion.span_exists(CHAT), True),
        (TraceAssertion.span_exists(by_name("none")), False),
        (TraceAssertion.span_attribute(by_name("fetch"), "size"), 2),
        (TraceAssertion.span_attribute(by_name("fetch"), "tags"), ["a", "b"]),
        (TraceAssertion.span_attribute(CHAT, "tokens"), [100, 50]),
        (TraceAssertion.span_attribute(ALL, "tokens"), [100, 50]),
        (TraceAssertion.span_duration(by_name("fetch")), 40),
        (TraceAssertion.span_duration(CHAT), [50, 80]),
        (TraceAssertion.span_duration(by_name("run")), 250),
        (TraceAssertion.span_aggregation(ALL, "size", AggregationType.Count), 3),
        (TraceAssertion.span_aggregation(ALL, "size", AggregationType.Sum), 6),
        (TraceAssertion.span_aggregation(ALL, "size", AggregationType.Average), 2),
        (TraceAssertion.span_aggregation(ALL, "size", AggregationType.Min), 1),
        (TraceAssertion.span_aggregation(ALL, "size", AggregationType.Max), 3),
        (TraceAssertion.span_aggregation(ALL, "model", AggregationType.First), "m-1"),
        (TraceAssertion.span_aggregation(ALL, "model", AggregationType.Last), "m-2"),
        (TraceAssertion.span_aggregation(by_name("none"), "x", AggregationType.Count), 0),
        (TraceAssertion.trace_duration(), 250),
        (TraceAssertion.trace_span_count(), 6),
        (TraceAssertion.trace_error_count(), 1),
        (TraceAssertion.trace_service_count(), 2),
        (TraceAssertion.trace_max_depth(), 2),
        (TraceAssertion.trace_attribute("user"), "ada"),
    ],
)
def test_measured(assertion: TraceAssertion, value: JsonValue) -> None:
    result = measure(assertion, value)
    assert result.actual == value
    assert result.passed
    assert not measure(assertion, "something else").passed


@pytest.mark.parametrize(
    ("filter", "names"),
    [
        (SpanFilter.by_name_pattern("^s"), ["search", "save"]),
        (SpanFilter.by_name_pattern("a"), ["chat", "search", "chat", "save"]),
        (SpanFilter.with_attribute_value("size", 2.0), ["fetch"]),
        (SpanFilter.with_attribute_value("tags", ["a", "b"]), ["fetch"]),
        (SpanFilter.with_attribute_value("size", "2"), []),
        (SpanFilter.with_attribute_value("ok", 1), []),
        (SpanFilter.with_status(SpanStatus.Error), ["save"]),
        (SpanFilter.with_status(SpanStatus.Ok), ["fetch"]),
        (SpanFilter.with_duration(min_ms=60), ["run", "search", "chat"]),
        (SpanFilter.with_duration(max_ms=40), ["fetch", "save"]),
        (SpanFilter.with_duration(min_ms=50, max_ms=60), ["chat", "search"]),
        (CHAT.and_(SpanFilter.with_attribute_value("tokens", 50)), ["chat"]),
        (CHAT.or_(by_name("run")).or_(by_name("save")), ["run", "chat", "chat", "save"]),
        (SIZED.and_(SpanFilter.with_status(SpanStatus.Error).not_()), ["search", "fetch"]),
        (SpanFilter.by_kind("Client"), ["chat", "chat"]),
        (SpanFilter.child_of(by_name("search")), ["fetch"]),
        (SpanFilter.child_of(by_name("run")), ["chat", "search", "chat", "save"]),
        (SpanFilter.descendant_of(by_name("run")), ["chat", "search", "fetch", "chat", "save"]),
        (SpanFilter.descendant_of(by_name("fetch")), []),
        (SpanFilter.descendant_of(by_name("run")).and_(SIZED), ["search", "fetch", "save"]),
    ],
)
def test_filtered(filter: SpanFilter, names: list[str]) -> None:
    """The count, and the names by way of how long those spans took."""
    durations = {"run": 250, "search": 60, "fetch": 40, "save": 40}
    counted = measure(TraceAssertion.span_count(filter))
    assert counted.actual == len(names)
    if names:
        took = measure(TraceAssertion.span_duration(filter)).actual
        found = took if isinstance(took, list) else [took]
        assert [durations.get(n) for n in names if n != "chat"] == [
            t for t, n in zip(found, names, strict=True) if n != "chat"
        ]


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (["chat", "search"], 1),
        (["chat"], 2),
        (["search", "chat"], 0),
        (["run", "chat", "search", "fetch", "chat", "save"], 1),
        (["run", "chat", "search", "fetch", "chat", "save", "x"], 0),
    ],
)
def test_sequences_are_counted_as_runs(names: list[str], count: int) -> None:
    assert measure(TraceAssertion.span_count(SpanFilter.sequence(names))).actual == count
    assert measure(TraceAssertion.span_exists(SpanFilter.sequence(names))).actual is (count > 0)


def test_overlapping_runs_all_count() -> None:
    tree = SpanTree([span(i, "a", None, (i, i + 1)) for i in range(3)])
    found = measure(TraceAssertion.span_count(SpanFilter.sequence(["a", "a"])), tree=tree)
    assert found.actual == 2


@pytest.mark.parametrize(
    "make",
    [
        lambda: TraceAssertion.span_duration(SpanFilter.sequence(["a"])),
        lambda: TraceAssertion.span_attribute(SpanFilter.sequence(["a"]), "x"),
        lambda: TraceAssertion.span_count(SpanFilter.sequence(["a"]).and_(CHAT)),
        lambda: TraceAssertion.span_count(SpanFilter.by_name_pattern("(")),
    ],
)
def test_what_can_never_work_is_refused_when_built(make: Callable[[], TraceAssertion]) -> None:
    with pytest.raises(ConfigError, match="'t'"):
        compile_plan([TraceAssertionTask("t", make(), 1, Op.Equals)])


@pytest.mark.parametrize(
    ("assertion", "reason", "words"),
    [
        (TraceAssertion.span_duration(by_name("none")), Reason.NO_SPANS, "'chat', 'fetch'"),
        (TraceAssertion.span_attribute(by_name("none"), "x"), Reason.NO_SPANS, "6 spans"),
        (TraceAssertion.span_attribute(CHAT, "size"), Reason.MISSING_PATH, "'model', 'tokens'"),
        (TraceAssertion.span_attribute(by_name("fetch"), "x"), Reason.MISSING_PATH, "'fetch'"),
        (TraceAssertion.trace_attribute("nope"), Reason.MISSING_PATH, "'ok', 'user'"),
        (
            TraceAssertion.span_aggregation(ALL, "model", AggregationType.Sum),
            Reason.TYPE,
            "'model' is a text",
        ),
        (
            TraceAssertion.span_aggregation(by_name("run"), "ok", AggregationType.Max),
            Reason.TYPE,
            "a boolean",
        ),
        (
            TraceAssertion.span_aggregation(ALL, "nope", AggregationType.Sum),
            Reason.MISSING_PATH,
            "'nope'",
        ),
    ],
)
def test_nothing_passes_for_want_of_spans(
    assertion: TraceAssertion, reason: Reason, words: str
) -> None:
    """An absent span keeps no latency promise."""
    task = TraceAssertionTask("t", assertion, 10, Op.LessThan)
    result = evaluate_record(compile_plan([task]), EvalRecord(), agent_trace()).tasks[0]
    assert (result.outcome, result.reason) == (Outcome.ERRORED, reason)
    assert words in result.message


@pytest.mark.parametrize("tree", [None, SpanTree()])
def test_without_a_trace_every_trace_task_is_errored(tree: SpanTree | None) -> None:
    task = TraceAssertionTask("t", TraceAssertion.trace_error_count(), 0, Op.Equals)
    result = evaluate_record(compile_plan([task]), EvalRecord(), tree).tasks[0]
    assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.NO_SPANS)


def attribute_filter(
    key: str, operator: Op, expected: object, mode: MultiResponseMode, path: str | None = None
) -> EvalTaskResult:
    inner = AttributeFilterTask.assertion(AssertionTask("inner", path, expected, operator))
    return measure(TraceAssertion.attribute_filter(key, inner, mode), True)


def test_attribute_filter() -> None:
    any_of, all_of = MultiResponseMode.Any, MultiResponseMode.All

    assert attribute_filter("size", Op.GreaterThan, 2, any_of).actual is True
    assert attribute_filter("size", Op.GreaterThan, 2, all_of).actual is False
    assert attribute_filter("size", Op.GreaterThan, 0, all_of).actual is True
    assert attribute_filter("size", Op.GreaterThan, 9, any_of).actual is False
    assert attribute_filter("payload", Op.Contains, 2, all_of, "hits").actual is True


def test_attribute_filter_decides_nothing_from_errors() -> None:
    any_of, all_of = MultiResponseMode.Any, MultiResponseMode.All
    mixed = SpanTree([span(1, "a", None, (0, 1), {"v": 5}), span(2, "b", None, (1, 2), {"v": "x"})])

    def run(mode: MultiResponseMode, limit: int) -> EvalTaskResult:
        inner = AttributeFilterTask.assertion(AssertionTask("i", None, limit, Op.GreaterThan))
        return measure(TraceAssertion.attribute_filter("v", inner, mode), True, mixed)

    assert run(any_of, 1).actual is True  # one passes, whatever the other is
    assert run(all_of, 9).actual is False  # one fails, whatever the other is
    assert run(any_of, 9).reason is Reason.TYPE
    assert run(all_of, 1).reason is Reason.TYPE
    absent = attribute_filter("nope", Op.GreaterThan, 0, all_of)
    assert (absent.outcome, absent.reason) == (Outcome.ERRORED, Reason.MISSING_PATH)


def test_attribute_filter_with_an_agent_assertion() -> None:
    response = '{"choices": [{"message": {"tool_calls": [{"function": {"name": "search"}}]}}]}'
    tree = SpanTree([span(1, "a", None, (0, 1), {"response": response})])
    inner = AttributeFilterTask.agent_assertion(
        AgentAssertionTask("i", AgentAssertion.tool_called("search"), True, Op.Equals)
    )
    assertion = TraceAssertion.attribute_filter("response", inner, MultiResponseMode.Any)
    assert measure(assertion, True, tree).passed


def test_templates_read_the_record() -> None:
    task = TraceAssertionTask("t", TraceAssertion.trace_span_count(), "${n}", Op.Equals)
    result = evaluate_record(compile_plan([task]), EvalRecord({"n": 6}), agent_trace()).tasks[0]
    assert (result.outcome, result.expected, result.actual) == ("passed", 6, 6)
