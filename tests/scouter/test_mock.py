"""The ready-made traces hold what tests ask of them: by trace assertions, as their users do."""

from collections.abc import Callable

import pytest
from pydantic import JsonValue

from scouter.evaluate.engine.execute import execute_trace_assertion_tasks
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.span_filter import SpanFilter as F
from scouter.evaluate.tasks.span_filter import SpanStatus
from scouter.evaluate.tasks.trace import AggregationType, TraceAssertion, TraceAssertionTask
from scouter.mock import (
    create_multi_service_trace,
    create_nested_trace,
    create_sequence_pattern_trace,
    create_simple_trace,
    create_trace_with_attributes,
    create_trace_with_errors,
)
from scouter.model.span import Span

A = TraceAssertion
Sum = AggregationType.Sum
GATEWAY_FIRST = A.span_sequence(["gateway", "auth_check", "data_fetch"])
API_CALL = F.by_name("api_call")


@pytest.mark.parametrize(
    ("make", "assertion", "value"),
    [
        (create_simple_trace, A.span_sequence(["root", "child_1", "child_2"]), True),
        (create_simple_trace, A.span_count(F.by_name_pattern("^child_.*")), 2),
        (create_simple_trace, A.trace_attribute("http.status_code"), 200),
        (create_simple_trace, A.span_duration(F.by_name_pattern(".")), [150, 50, 30]),
        (create_simple_trace, A.trace_service_count(), 1),
        (create_nested_trace, A.trace_max_depth(), 2),
        (create_nested_trace, A.span_set(["init", "process", "db_query", "finalize"]), True),
        (create_nested_trace, A.span_count(F.child_of(F.by_name("process"))), 2),
        (create_nested_trace, A.span_duration(F.by_name("db_query")), 100),
        (create_trace_with_errors, A.trace_error_count(), 1),
        (
            create_trace_with_errors,
            A.span_duration(F.with_status(SpanStatus.Error).and_(F.by_name("failing_operation"))),
            100,
        ),
        (create_trace_with_errors, A.span_count(F.with_status(SpanStatus.Ok)), 2),
        (create_trace_with_attributes, A.span_attribute(API_CALL, "model"), "gpt-4"),
        (
            create_trace_with_attributes,
            A.span_attribute(API_CALL, "response"),
            {"success": True, "data": {"id": 12345}},
        ),
        (create_trace_with_attributes, A.span_aggregation(API_CALL, "tokens.output", Sum), 300),
        (create_trace_with_attributes, A.span_count(F.with_duration(min_ms=80, max_ms=120)), 1),
        (create_trace_with_attributes, A.span_count(F.with_status(SpanStatus.Ok)), 2),
        (create_trace_with_attributes, A.trace_duration(), 250),
        (create_trace_with_attributes, A.trace_attribute("http.method"), "POST"),
        (create_multi_service_trace, A.trace_service_count(), 3),
        (create_multi_service_trace, A.trace_max_depth(), 1),
        (create_multi_service_trace, GATEWAY_FIRST, True),
        (create_multi_service_trace, A.span_duration(F.by_service("service_c")), 200),
        (create_sequence_pattern_trace, A.span_count(F.sequence(["call_tool", "run_agent"])), 2),
        (create_sequence_pattern_trace, A.span_count(F.by_name("call_tool")), 2),
        (create_sequence_pattern_trace, A.trace_max_depth(), 5),
        (create_sequence_pattern_trace, A.trace_duration(), 530),
    ],
)  # fmt: skip
def test_what_is_in_the_traces(
    make: Callable[[], list[Span]], assertion: TraceAssertion, value: JsonValue
) -> None:
    task = TraceAssertionTask("t", assertion, value, Op.Equals)
    result = execute_trace_assertion_tasks([task], make())["t"]
    assert result.actual == value
    assert result.passed


def test_each_call_makes_the_same_spans_anew() -> None:
    one, two = create_trace_with_attributes(), create_trace_with_attributes()
    assert one == two
    assert one is not two
    assert one[0].attributes is not two[0].attributes
