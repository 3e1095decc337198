"""Missing spans never turn an outcome, and only outcomes that they could turn are doubted."""

import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations, product
from pathlib import Path
from typing import Final, cast

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import JsonValue

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.gaps import NO_GAPS
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
from scouter.evaluate.tasks.trace import (
    AggregationType,
    AttributeFilterTask,
    MultiResponseMode,
    SpanCountAssertion,
    TraceAssertion,
    TraceAssertionTask,
)
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.otlp import decode_request, encode_request
from scouter.model.otlp_json import spans_from_otlp_json, spans_to_otlp_json
from scouter.model.record import EvalRecord
from scouter.model.span import Resource, Span, SpanEvent, StatusCode
from tests.scouter.evaluate.spans_support import TRACE, span
from tests.scouter.model.genai.test_acts import doubled, made, traces
from tests.support.components import ROOT, require
from tests.support.examples import examples

Task = TraceAssertionTask | AgentAssertionTask
LOST = "a span was refused"
by_name, A, N = SpanFilter.by_name, SpanFilter.by_name("a"), SpanFilter.with_attribute("n")
TOOL = "gen_ai.operation.name"
ARGS = "gen_ai.tool.call.arguments"


def run(task: Task, spans: Iterable[Span], lost: str = LOST) -> EvalTaskResult:
    """The result of one task on spans of which some are known to be missing."""
    tree = SpanTree(spans, lost=lost)
    return evaluate_record(compile_plan([task]), EvalRecord({}), tree).tasks[0]


def outcome_of(result: EvalTaskResult) -> str:
    return str(result.outcome) + ("" if result.reason is None else f":{result.reason}")


def trace(assertion: TraceAssertion, operator: Op, expected: JsonValue) -> TraceAssertionTask:
    return TraceAssertionTask("t", assertion, expected, operator)


def agent(assertion: AgentAssertion, operator: Op, expected: JsonValue) -> AgentAssertionTask:
    return AgentAssertionTask("t", assertion, expected, operator, source="spans")


# --- the table ------------------------------------------------------------------------------------

SEEN: Final = (
    span(1, "run", None, (0, 100), {"user": "ada"}),
    span(
        2,
        "a",
        1,
        (10, 20),
        {"n": 3, TOOL: "execute_tool", "gen_ai.tool.name": "search", ARGS: '{"z": 1}'},
    ),
    span(3, "a", 1, (30, 50), {"n": 5}, status=StatusCode.ERROR),
    span(4, "chat", 1, (60, 70), {TOOL: "chat", "gen_ai.response.model": "m-1"}),
)
"""Two spans `a` with n of 3 and 5; one tool was called; 100 ms; depth 1; one error and service."""

T, G = TraceAssertion, AgentAssertion
SMALL = AttributeFilterTask.assertion(AssertionTask("i", None, 4, Op.LessThan))


def how(kind: AggregationType, filter: SpanFilter = N) -> TraceAssertion:
    return T.span_aggregation(filter, "n", kind)


PASS, FAIL, OPEN = "passed", "failed", "errored:incomplete"
ROWS: Final[list[tuple[Task, str]]] = [
    # Rise only.
    *[
        (trace(assertion, operator, value + more), outcome)
        for assertion, value in (
            (T.span_count(A), 2),
            (how(AggregationType.Count), 2),
            (how(AggregationType.Max), 5),
            (how(AggregationType.Sum), 8),
            (T.trace_duration(), 100),
            (T.trace_span_count(), 4),
            (T.trace_error_count(), 1),
            (T.trace_service_count(), 1),
            (T.trace_max_depth(), 1),
        )
        for operator, more, outcome in (
            (Op.GreaterThan, -1, PASS),
            (Op.GreaterThan, 0, OPEN),
            (Op.GreaterThanOrEqual, 0, PASS),
            (Op.GreaterThanOrEqual, 1, OPEN),
            (Op.LessThan, 0, FAIL),
            (Op.LessThan, 1, OPEN),
            (Op.LessThanOrEqual, -1, FAIL),
            (Op.LessThanOrEqual, 0, OPEN),
            (Op.Equals, -1, FAIL),
            (Op.Equals, 0, OPEN),
            (Op.Equals, 1, OPEN),
            (Op.NotEqual, -1, PASS),
            (Op.NotEqual, 0, OPEN),
            (Op.NotEqual, 1, OPEN),
        )
    ],
    (trace(T.span_count(A), Op.InRange, [0, 1]), FAIL),
    (trace(T.span_count(A), Op.InRange, [0, 2]), OPEN),
    (trace(T.span_count(A), Op.InRange, [3, 9]), OPEN),
    (trace(T.span_count(A), Op.IsPositive, True), PASS),
    (trace(T.span_count(A), Op.Equals, 2.5), FAIL),
    (trace(T.span_exists(A), Op.Equals, True), PASS),
    (trace(T.span_exists(A), Op.Equals, False), FAIL),
    (trace(T.span_exists(by_name("b")), Op.Equals, False), OPEN),
    (trace(T.span_exists(by_name("b")), Op.Equals, True), OPEN),
    (trace(T.span_set(["a", "chat"]), Op.Equals, True), PASS),
    (trace(T.span_set(["a", "b"]), Op.Equals, True), OPEN),
    (trace(T.attribute_filter("n", SMALL, MultiResponseMode.Any), Op.Equals, True), PASS),
    (trace(T.attribute_filter("n", SMALL, MultiResponseMode.All), Op.Equals, True), FAIL),
    (agent(G.tool_called("search"), Op.Equals, True), PASS),
    (agent(G.tool_called("pay"), Op.Equals, False), OPEN),
    (agent(G.tool_called_with_args("search", {"q": 1}), Op.Equals, False), OPEN),
    (agent(G.tool_call_sequence(["search"]), Op.Equals, True), PASS),
    (agent(G.tool_call_sequence(["search", "pay"]), Op.Equals, True), OPEN),
    (agent(G.tool_call_count(), Op.LessThan, 1), FAIL),
    (agent(G.tool_call_count(), Op.LessThan, 2), OPEN),
    # Fall only.
    (trace(how(AggregationType.Min), Op.LessThan, 4), PASS),
    (trace(how(AggregationType.Min), Op.GreaterThan, 3), FAIL),
    (trace(how(AggregationType.Min), Op.GreaterThan, 2), OPEN),
    (trace(how(AggregationType.Min), Op.Equals, 4), FAIL),
    (trace(how(AggregationType.Min), Op.Equals, 3), OPEN),
    (agent(G.tool_not_called("search"), Op.Equals, True), FAIL),
    (agent(G.tool_not_called("pay"), Op.Equals, True), OPEN),
    # Either way.
    (trace(T.span_count(SpanFilter.sequence(["a", "a"])), Op.GreaterThanOrEqual, 1), OPEN),
    (trace(T.span_exists(SpanFilter.sequence(["a", "a"])), Op.Equals, True), OPEN),
    (trace(T.span_count(SpanFilter.parent_of(by_name("b")).not_()), Op.LessThan, 4), OPEN),
    # Nothing comes above a span whose ancestors are here up to a root.
    (trace(T.span_exists(SpanFilter.child_of(by_name("b")).not_()), Op.Equals, True), PASS),
    (trace(T.span_count(SpanFilter.descendant_of(by_name("b")).not_()), Op.LessThan, 4), FAIL),
    (trace(T.span_count(SpanFilter.descendant_of(by_name("b")).not_()), Op.LessThan, 5), OPEN),
    (trace(T.span_exists(A.not_()), Op.Equals, True), PASS),
    (trace(T.span_attribute(by_name("run"), "user"), Op.Equals, "ada"), OPEN),
    (trace(T.span_duration(by_name("run")), Op.LessThan, 200), OPEN),
    (trace(T.span_duration(by_name("run")), Op.LessThan, 50), FAIL),
    (trace(how(AggregationType.Average), Op.LessThan, 10), OPEN),
    (trace(how(AggregationType.First), Op.Equals, 3), OPEN),
    (trace(how(AggregationType.Last), Op.Equals, 5), OPEN),
    (trace(T.trace_attribute("user"), Op.Equals, "ada"), OPEN),
    (agent(G.response_model(), Op.Equals, "m-1"), OPEN),
    # Exactly these spans.
    (trace(T.span_sequence(["run", "a", "a", "chat"]), Op.Equals, True), OPEN),
    (trace(T.span_sequence(["run", "a", "a", "b", "chat"]), Op.Equals, True), OPEN),
    (trace(T.span_sequence(["run", "chat", "a"]), Op.Equals, True), FAIL),
]


@pytest.mark.parametrize(("task", "outcome"), ROWS)
def test_the_table(task: Task, outcome: str) -> None:
    result = run(task, SEEN)
    assert outcome_of(result) == outcome
    assert outcome != OPEN or LOST in result.message
    assert run(task, SEEN, lost="").outcome is not Outcome.ERRORED


def test_a_sum_with_a_negative_term_may_fall() -> None:
    task = trace(how(AggregationType.Sum), Op.GreaterThan, 1)
    debit = span(5, "a", 1, (70, 80), {"n": -2})
    assert run(task, SEEN).outcome is Outcome.PASSED
    assert run(task, [*SEEN, debit]).reason is Reason.INCOMPLETE


def test_a_call_that_was_requested_stays_whatever_comes() -> None:
    """Its execution may come, with other arguments and later than what was executed since."""
    messages = (
        '[{"role":"assistant","parts":[{"type":"tool_call","name":"pay","id":"1",'
        '"arguments":{"q":1}}]}]'
    )
    chat = span(9, "chat", None, (0, 9), {TOOL: "chat", "gen_ai.output.messages": messages})
    other = span(8, "t", 9, (1, 2), {TOOL: "execute_tool", "gen_ai.tool.name": "search"})
    paid = {
        TOOL: "execute_tool", "gen_ai.tool.name": "pay", "gen_ai.tool.call.id": "1",
        "gen_ai.tool.call.arguments": '{"q": 2}',
    }  # fmt: skip
    late = span(7, "t", 9, (3, 4), paid)
    for assertion, alone, with_all in (
        (G.tool_called("pay"), PASS, PASS),
        (G.tool_not_called("pay"), FAIL, FAIL),
        (G.tool_called_with_args("pay", {"q": 1}), OPEN, FAIL),
        (G.tool_call_sequence(["pay", "search"]), OPEN, FAIL),
        (G.tool_call_count(), OPEN, FAIL),
    ):
        expected = 3 if assertion.kind == "ToolCallCount" else True
        task = agent(assertion, Op.Equals, expected)
        assert outcome_of(run(task, [chat, other])) == alone
        assert outcome_of(run(task, [chat, other, late], lost="")) == with_all


def test_executions_without_arguments_leave_a_call_open() -> None:
    """A message has the arguments that are requested; the other call was executed without any."""
    messages = (
        '[{"role":"assistant","parts":[{"type":"tool_call","name":"pay","id":"1",'
        '"arguments":{"q":1}}]}]'
    )
    paid = {TOOL: "execute_tool", "gen_ai.tool.name": "pay", "gen_ai.tool.call.id": "2"}
    spans = [
        span(8, "t", 9, (1, 2), paid),
        span(9, "chat", None, (5, 9), {TOOL: "chat", "gen_ai.output.messages": messages}),
    ]
    task = agent(G.tool_called_with_args("pay", {"q": 1}), Op.Equals, True)
    assert outcome_of(run(task, spans, lost="")) == PASS
    assert outcome_of(run(task, spans)) == OPEN


AT_LEAST_ONE: Final = TraceAssertionTask(
    "n", T.span_count(A), 1, Op.GreaterThanOrEqual, condition=True
)
CALLED: Final = AgentAssertionTask(
    "n", G.tool_call_count(), 1, Op.GreaterThanOrEqual, source="spans"
)


def assertion(path: str | None, expected: JsonValue, operator: Op) -> AssertionTask:
    return AssertionTask("t", path, expected, operator, depends_on=["n"])


@pytest.mark.parametrize(
    ("before", "task", "outcome"),
    [
        (AT_LEAST_ONE, assertion("n", 9, Op.LessThan), "errored:incomplete"),
        (AT_LEAST_ONE, assertion("$.n", 9, Op.LessThan), "errored:incomplete"),
        (AT_LEAST_ONE, assertion("x", "${n}", Op.Equals), "errored:incomplete"),
        (AT_LEAST_ONE, assertion(None, {"x": 2}, Op.NotEqual), "errored:incomplete"),
        (AT_LEAST_ONE, assertion("x", 2, Op.Equals), PASS),
        (CALLED, assertion("n", 9, Op.LessThan), "errored:incomplete"),
        (
            AT_LEAST_ONE,
            trace(T.span_count(by_name("run")), Op.LessThanOrEqual, "${n}").model_copy(
                update={"depends_on": ["n"]}
            ),
            "errored:incomplete",
        ),
        (
            TraceAssertionTask("n", T.span_exists(A), True, Op.Equals),
            assertion("n", True, Op.Equals),
            PASS,
        ),
    ],
)
def test_a_value_that_may_change_is_read_by_nobody(
    before: Task, task: Task | AssertionTask, outcome: str
) -> None:
    """The count of 2 passed for good as `>= 1`; whether it is below 9 nobody knows."""
    plan = compile_plan([before, task])
    found = evaluate_record(plan, EvalRecord({"x": 2}), SpanTree(SEEN, lost=LOST)).tasks
    assert [outcome_of(each) for each in found] == [PASS, outcome]
    assert outcome == PASS or "the value of 'n', which it reads, may be another" in found[1].message
    whole = evaluate_record(plan, EvalRecord({"x": 2}), SpanTree(SEEN)).tasks
    assert all(each.outcome is not Outcome.ERRORED for each in whole)


# --- what is known --------------------------------------------------------------------------------

COUNT = trace(T.span_exists(by_name("b")), Op.Equals, False)


def child(is_remote: bool | None, parent: int = 7, id: int = 2) -> Span:
    return replace(span(id, "a", parent, (1, 2)), parent_is_remote=is_remote)


RUN = span(1, "run", None, (0, 9))


@pytest.mark.parametrize(
    ("spans", "is_known"),
    [
        pytest.param([RUN, child(False, 1)], False, id="whole"),
        pytest.param([child(True)], False, id="a-remote-parent"),
        pytest.param([RUN, child(True)], False, id="a-remote-parent-beside-a-root"),
        pytest.param([child(False)], True, id="a-parent-of-the-same-process"),
        pytest.param([child(None)], False, id="unflagged-without-a-root"),
        pytest.param([child(None), child(None, id=3)], False, id="unflagged-siblings"),
        pytest.param([child(None), child(None, 8, id=3)], True, id="unflagged-two-parents"),
        pytest.param([child(None), child(True, 8, id=3)], True, id="another-remote-parent"),
        pytest.param([RUN, child(None)], True, id="unflagged-beside-a-root"),
    ],
)
def test_missing_parents(spans: Sequence[Span], is_known: bool) -> None:
    assert bool(SpanTree(spans).gaps.spans) is is_known
    result = run(COUNT, spans, lost="")
    assert (result.reason is Reason.INCOMPLETE) is is_known
    if is_known:
        assert "parent of 'a', is not here" in result.message


@pytest.mark.parametrize(("stamp", "is_known"), [(2, False), (3, True), (0, False)])
def test_a_process_that_delivered_less_than_it_stamped(stamp: int, is_known: bool) -> None:
    process = Resource(attributes={PROCESS_ID: "p-1"})
    attributes = {PROCESS_SPAN_COUNT: stamp} if stamp else {}
    root = replace(RUN, resource=process, attributes=attributes)
    result = run(COUNT, [root, replace(child(False, 1), resource=process)], lost="")
    assert (result.reason is Reason.INCOMPLETE) is is_known
    assert not is_known or "2 of the 3 spans came" in result.message


def test_each_trace_of_a_session_counts() -> None:
    """The spans of another trace make up for nothing."""
    other = replace(RUN, trace_id="f" * 32)
    assert SpanTree([RUN, other]).gaps is NO_GAPS
    assert SpanTree([other, RUN, child(None)]).gaps.spans
    assert SpanTree([other, child(None)]).gaps is NO_GAPS
    records = [EvalRecord({}, session_id="s", trace_id=each) for each in (TRACE, "f" * 32)]
    task = trace(T.span_exists(by_name("b")), Op.Equals, False)
    of_session = task.model_copy(update={"scope": "session"})
    results = EvalDataset(records, [of_session], [other, RUN, child(None)]).evaluate()
    assert results.sessions[0].tasks[0].reason is Reason.INCOMPLETE


CUT = replace(SEEN[0], dropped_count=2)


@pytest.mark.parametrize(
    ("task", "outcome"),
    [
        (trace(T.span_count(A), Op.Equals, 2), PASS),
        (trace(T.trace_span_count(), Op.Equals, 4), PASS),
        (trace(T.span_count(A.and_(N)), Op.Equals, 2), OPEN),
        (trace(T.span_exists(SpanFilter.with_event("exception")), Op.Equals, False), OPEN),
        (trace(T.span_exists(N.not_()), Op.Equals, True), OPEN),
        (trace(T.span_exists(SpanFilter.child_of(by_name("b")).not_()), Op.Equals, True), PASS),
        (trace(how(AggregationType.Max), Op.GreaterThan, 4), PASS),
        (trace(how(AggregationType.Max), Op.LessThan, 6), OPEN),
        (agent(G.tool_not_called("pay"), Op.Equals, True), OPEN),
        (agent(G.tool_called("search"), Op.Equals, True), PASS),
    ],
)
def test_attributes_that_a_sender_dropped(task: Task, outcome: str) -> None:
    """Only tasks that read attributes or events doubt; of the spans themselves all are here."""
    result = run(task, [CUT, *SEEN[1:]], lost="")
    assert outcome_of(result) == outcome
    assert outcome != OPEN or "lost 2 attributes or events" in result.message


NAMELESS: Final = replace(
    span(5, "pay", 1, (80, 90), {"openinference.span.kind": "TOOL", "output.value": "x"}),
    dropped_count=1,
)
"""Lost its attribute `tool.name`, so that the span's own name stands for the tool."""


@pytest.mark.parametrize(
    ("task", "outcome"),
    [
        (agent(G.tool_called("pay"), Op.Equals, True), OPEN),
        (agent(G.tool_not_called("pay"), Op.Equals, True), OPEN),
        (agent(G.tool_called("search"), Op.Equals, True), PASS),
        (agent(G.tool_call_count("pay"), Op.GreaterThan, 0), OPEN),
        (agent(G.tool_call_count(), Op.GreaterThan, 0), PASS),
        (agent(G.tool_call_sequence(["search", "pay"]), Op.Equals, True), OPEN),
    ],
)
def test_a_tool_whose_name_was_dropped(task: Task, outcome: str) -> None:
    assert outcome_of(run(task, [*SEEN, NAMELESS], lost="")) == outcome


def test_dropped_counts_survive_every_form() -> None:
    events = (SpanEvent(name="e", time_ns=1),)
    given = replace(RUN, dropped_count=7, events=events)
    assert decode_request(encode_request([given])).spans == [given]
    assert spans_from_otlp_json(spans_to_otlp_json([given])).spans == [given]
    request = encode_request([replace(given, dropped_count=0)])
    proto = request.resource_spans[0].scope_spans[0].spans[0]
    proto.dropped_events_count, proto.events[0].dropped_attributes_count = 2, 3
    assert decode_request(request).spans[0].dropped_count == 5


# --- properties -----------------------------------------------------------------------------------

FILTERS: Final = st.recursive(
    st.sampled_from(
        [A, by_name("b"), N, SpanFilter.with_status(SpanStatus.Error),
         SpanFilter.with_duration(max_ms=3)]
    ),
    lambda inner: st.one_of(
        inner.map(SpanFilter.not_),
        inner.map(SpanFilter.child_of),
        inner.map(SpanFilter.parent_of),
        inner.map(SpanFilter.descendant_of),
        inner.map(SpanFilter.ancestor_of),
        st.tuples(inner, inner).map(lambda pair: pair[0].and_(pair[1])),
        st.tuples(inner, inner).map(lambda pair: pair[0].or_(pair[1])),
    ),
    max_leaves=3,
)  # fmt: skip
NAMES = st.lists(st.sampled_from("abc"), min_size=1, max_size=3)
SELECTED = st.one_of(FILTERS, NAMES.map(SpanFilter.sequence))
NUMBERS = st.sampled_from([Op.GreaterThan, Op.GreaterThanOrEqual, Op.LessThan, Op.LessThanOrEqual])
ANY_NUMBER: Final = st.one_of(
    st.tuples(
        st.one_of(NUMBERS, st.sampled_from([Op.Equals, Op.NotEqual, Op.DeepEquals])),
        st.integers(0, 6),
    ),
    st.tuples(
        st.sampled_from([Op.InRange, Op.NotInRange, Op.ApproximatelyEquals,
                         Op.WithinRelativeTolerance]),
        st.tuples(st.integers(0, 3), st.integers(3, 6)).map(list),
    ),
    st.tuples(st.sampled_from([Op.IsPositive, Op.IsZero, Op.IsNumeric]), st.booleans()),
)  # fmt: skip
FLAG: Final = st.tuples(st.sampled_from([Op.Equals, Op.NotEqual, Op.IsBoolean]), st.booleans())
HOW: Final = st.sampled_from([each for each in AggregationType])
MODES: Final = st.sampled_from(list(MultiResponseMode))

MEASURES: Final = st.one_of(
    st.tuples(SELECTED.map(T.span_count), ANY_NUMBER),
    st.tuples(
        st.sampled_from([T.trace_duration(), T.trace_span_count(), T.trace_error_count(),
                         T.trace_service_count(), T.trace_max_depth()]),
        ANY_NUMBER,
    ),
    st.tuples(
        st.tuples(FILTERS, HOW).map(lambda pair: T.span_aggregation(pair[0], "n", pair[1])),
        ANY_NUMBER,
    ),
    st.tuples(FILTERS.map(T.span_duration), ANY_NUMBER),
    st.tuples(FILTERS.map(lambda each: T.span_attribute(each, "n")), ANY_NUMBER),
    st.tuples(
        FILTERS.map(lambda each: T.span_attribute(each, "n")),
        st.tuples(st.sampled_from([Op.HasLengthEqual, Op.HasLengthGreaterThan]), st.integers(1, 4)),
    ),
    st.tuples(
        FILTERS.map(lambda each: T.span_attribute(each, "n")),
        st.tuples(st.sampled_from([Op.Contains, Op.NotContains]), st.integers(0, 4)),
    ),
    st.tuples(
        FILTERS.map(lambda each: T.span_attribute(each, "n")),
        st.tuples(st.sampled_from([Op.HasUniqueItems, Op.IsArray]), st.booleans()),
    ),
    st.tuples(st.just(T.trace_attribute("n")), ANY_NUMBER),
    st.tuples(SELECTED.map(T.span_exists), FLAG),
    st.tuples(NAMES.map(T.span_set), FLAG),
    st.tuples(NAMES.map(T.span_sequence), FLAG),
    st.tuples(MODES.map(lambda mode: T.attribute_filter("n", SMALL, mode)), FLAG),
).map(lambda pair: trace(pair[0], *pair[1]))  # fmt: skip
WORK: Final = st.one_of(
    st.tuples(st.sampled_from("abc").map(G.tool_called), FLAG),
    st.tuples(st.sampled_from("abc").map(G.tool_not_called), FLAG),
    st.tuples(st.just(G.tool_called_with_args("a", {"q": 1})), FLAG),
    st.tuples(NAMES.map(G.tool_call_sequence), FLAG),
    st.tuples(st.sampled_from([None, "a"]).map(G.tool_call_count), ANY_NUMBER),
    st.tuples(st.just(G.tool_argument("a", "q")), ANY_NUMBER),
    st.tuples(st.just(G.response_input_tokens()), ANY_NUMBER),
).map(lambda pair: agent(pair[0], *pair[1]))
TASKS: Final = st.one_of(MEASURES, WORK)

ASKED = '[{"role":"assistant","parts":[{"type":"tool_call","name":"%s","id":"1"}]}]'


@st.composite
def spans(draw: st.DrawFn, most: int, *, with_ties: bool = True) -> list[Span]:
    """A tree of spans with names, numbers, errors, tools and answers; some start together."""
    found: list[Span] = []
    starts = draw(
        st.lists(st.integers(0, 9), min_size=1, max_size=most, unique=not with_ties).map(sorted)
    )
    for at, start in enumerate(starts):
        name, kind = draw(st.sampled_from("abc")), draw(st.integers(0, 3))
        attributes: dict[str, str | int] = {}
        if draw(st.booleans()):
            attributes["n"] = draw(st.integers(0, 4))
        if kind == 1:
            arguments = draw(st.sampled_from(['{"q": 1}', '{"q": 2}']))
            attributes |= {
                TOOL: "execute_tool", "gen_ai.tool.name": name,
                "gen_ai.tool.call.arguments": arguments,
            }  # fmt: skip
        elif kind == 2:
            attributes |= {
                TOOL: "chat", "gen_ai.usage.input_tokens": draw(st.integers(0, 3)),
                "gen_ai.output.messages": ASKED % name,
            }  # fmt: skip
        parent = draw(st.integers(0, at - 1)) + 1 if at else None
        status = draw(st.sampled_from([StatusCode.UNSET, StatusCode.ERROR]))
        found.append(
            span(
                at + 1,
                name,
                parent,
                (start, start + draw(st.integers(0, 9))),
                attributes,
                status=status,
                service=draw(st.sampled_from(["s1", "s2"])),
            )
        )
    return found


@given(TASKS, spans(7), st.data())
@settings(max_examples=examples(150), suppress_health_check=[HealthCheck.too_slow])
def test_what_was_removed_turns_no_outcome(
    task: Task, all_spans: list[Span], data: st.DataObject
) -> None:
    seen = data.draw(st.lists(st.sampled_from(all_spans), unique_by=lambda each: each.span_id))
    whole, part = run(task, all_spans, lost=""), run(task, seen)
    decided = {Outcome.PASSED, Outcome.FAILED}
    if whole.outcome in decided and part.outcome in decided:
        assert part.outcome is whole.outcome


TOLD_WORK: Final = st.one_of(
    st.tuples(st.sampled_from("xy").map(G.tool_called), FLAG),
    st.tuples(st.sampled_from("xy").map(G.tool_not_called), FLAG),
    st.tuples(st.just(G.tool_called_with_args("x", {"q": 1})), FLAG),
    st.tuples(st.sampled_from([["x", "y"], ["x", "x"]]).map(G.tool_call_sequence), FLAG),
    st.tuples(st.sampled_from([None, "x"]).map(G.tool_call_count), ANY_NUMBER),
    st.tuples(st.sampled_from([None, "x"]).map(G.tool_error_count), ANY_NUMBER),
    st.tuples(st.just(G.tool_error("x")), st.just((Op.IsNull, True))),
    st.tuples(st.just(G.response_output_tokens()), ANY_NUMBER),
).map(lambda pair: agent(pair[0], *pair[1]))


@given(TOLD_WORK, traces(), st.data())
@settings(max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_removed_layers_and_messages_turn_no_outcome(
    task: Task, reports: list[Span], data: st.DataObject
) -> None:
    """Calls are in spans of two instrumentors and in messages, all of which may be missing."""
    whole_trace = doubled(data, reports) if data.draw(st.booleans()) else reports
    requests = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from("xy"),
                st.sampled_from([None, {"q": 1}, {"q": 2}]),
                st.sampled_from(["", "c2", "c3", "c4"]),
                st.integers(0, 900),
            ),
            max_size=3,
        )
    )
    for at, (name, arguments, call_id, start) in enumerate(requests):
        part = {"type": "tool_call", "name": name, "id": call_id, "arguments": arguments}
        output = json.dumps([{"role": "assistant", "parts": [part]}])
        whole_trace.append(
            made(500 + at, "model", "z", 1, (start, start + 1), "a", output_messages=output)
        )
    seen = data.draw(st.lists(st.sampled_from(whole_trace), unique_by=lambda each: each.span_id))
    whole, part_of_it = run(task, whole_trace, lost=""), run(task, seen)
    decided = {Outcome.PASSED, Outcome.FAILED}
    if whole.outcome in decided and part_of_it.outcome in decided:
        assert part_of_it.outcome is whole.outcome


def completions(seen: Sequence[Span], gone: Sequence[Span], number: int) -> Iterable[list[Span]]:
    """Traces with one or two more spans of a pool: of any name and place, and the removed ones."""
    pool = list(gone)
    # A parent that is known to be missing may be any of them.
    named = {each.parent_span_id for each in seen} - {each.span_id for each in seen} - {None}
    ids = [int(each, 16) for each in sorted(named, key=str) if each is not None]
    spot = 1000
    for name, start, (length, status) in product(
        "abc", (-0.5, 4.5, 200), ((0, StatusCode.UNSET), (500, StatusCode.ERROR))
    ):
        for value in (0, number, 90):
            spot += 1
            tool = {TOOL: "execute_tool", "gen_ai.tool.name": name}
            arguments = '{"q": 1}' if value else '{"q": 90}'
            attributes = {"n": value, **tool, "gen_ai.tool.call.arguments": arguments}
            service = f"s{spot}" if status else "s1"
            id = ids.pop() if ids and value == 90 else spot
            parent = int(seen[-1].span_id, 16) if value == number and seen else None
            at = (start, start + length)
            pool.append(span(id, name, parent, at, attributes, status=status, service=service))
    known = {each.span_id for each in seen}
    pool = list({each.span_id: each for each in pool if each.span_id not in known}.values())
    for count in (1, 2):
        for added in combinations(pool, count):
            yield [*seen, *added]


CERTAIN: Final = st.one_of(
    st.tuples(
        st.sampled_from([A, by_name("b"), A.not_(), A.or_(by_name("c"))]).map(T.span_count),
        st.tuples(
            st.sampled_from([*map(Op, ("GreaterThan", "GreaterThanOrEqual", "LessThan",
                                       "LessThanOrEqual", "Equals", "NotEqual"))]),
            st.integers(0, 3),
        ),
    ),
    st.tuples(
        st.sampled_from([how(AggregationType.Max), how(AggregationType.Min),
                         how(AggregationType.Sum)]),
        st.tuples(NUMBERS, st.integers(0, 6)),
    ),
    st.tuples(st.sampled_from([A, by_name("b"), A.not_()]).map(T.span_exists), FLAG),
    st.tuples(st.sampled_from([T.span_duration(A), T.span_duration(by_name("b"))]),
              st.tuples(NUMBERS, st.integers(0, 6))),
    st.tuples(st.sampled_from([["a"], ["a", "b"], ["c"]]).map(T.span_set), FLAG),
    st.tuples(MODES.map(lambda mode: T.attribute_filter("n", SMALL, mode)), FLAG),
).map(lambda pair: trace(pair[0], *pair[1]))  # fmt: skip
CERTAIN_WORK: Final = st.one_of(
    st.tuples(st.sampled_from("abc").map(G.tool_called), FLAG),
    st.tuples(st.sampled_from("abc").map(G.tool_not_called), FLAG),
    st.tuples(st.sampled_from([["a"], ["a", "b"]]).map(G.tool_call_sequence), FLAG),
).map(lambda pair: agent(pair[0], *pair[1]))


@given(st.one_of(CERTAIN, CERTAIN_WORK), spans(3, with_ties=False), st.data())
@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_where_all_completions_agree_nothing_is_doubted(
    task: Task, all_spans: list[Span], data: st.DataObject
) -> None:
    """Brute force: one or two more spans of a pool that holds every kind the tasks can tell."""
    seen = data.draw(st.lists(st.sampled_from(all_spans), unique_by=lambda each: each.span_id))
    part, on_seen = run(task, seen), run(task, seen, lost="")
    if on_seen.outcome is Outcome.ERRORED:
        assert part.reason is on_seen.reason  # what could not be decided keeps its reason
        return
    gone = [each for each in all_spans if each not in seen]
    plan, record = compile_plan([task]), EvalRecord({})
    number = task.expected_value if isinstance(task.expected_value, int) else 1
    if isinstance(getattr(task, "assertion", None), SpanCountAssertion):
        assume(number <= cast(int, on_seen.actual) + 1)  # two more spans go beyond it
    outcomes = {on_seen.outcome} | {
        evaluate_record(plan, record, SpanTree(each)).tasks[0].outcome
        for each in completions(seen, gone, int(number))
    }
    outcomes.discard(Outcome.ERRORED)
    if len(outcomes) == 1:
        assert part.outcome is on_seen.outcome
    else:
        assert part.reason is Reason.INCOMPLETE


# --- real traffic ---------------------------------------------------------------------------------

TRAFFIC: Final = Path(
    os.environ.get("SCOUTER_AGENT_TRACES") or ROOT.parent / "shared" / "data" / "agent-traces"
)


def test_the_traffic_of_real_clients_is_complete() -> None:
    """Every one of them sends the parents of its spans, and drops no attribute."""
    files = [each for each in sorted(TRAFFIC.glob("*.binpb")) if ".logs." not in each.name]
    require("agent-traces", present=bool(files), detail="no recorded traffic here")
    known: dict[str, str] = {}
    for file in files:
        request = ExportTraceServiceRequest.FromString(file.read_bytes())
        gaps = SpanTree(decode_request(request).spans).gaps
        if gaps is not NO_GAPS:
            known[file.name] = gaps.spans or gaps.attributes
    assert known == {}
