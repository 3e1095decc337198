"""Lists as attributes: from any span, over any way, to the engine and back."""

from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from pydantic import JsonValue

from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.filters import attribute_json
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.otlp import decode_request
from scouter.model.otlp_json import spans_from_otlp_json, spans_to_flat_json
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.tracing.span import ScouterSpan
from scouter.transport.otlp import write_request


class Finished(SpanProcessor):
    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


def sent(value: object, *, is_ours: bool) -> Span:
    """A span with the attribute, as it arrives over protobuf and in JSON alike."""
    finished = Finished()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(finished)
    made: Any = provider.get_tracer("t").start_span("retrieve")
    span = ScouterSpan(made) if is_ours else made
    span.set_attribute("doc_ids", value)
    span.end()
    data, lost = write_request(finished.spans)
    (arrived,) = decode_request(ExportTraceServiceRequest.FromString(data)).spans
    assert lost == 0
    assert spans_from_otlp_json(spans_to_flat_json([arrived])).spans == [arrived]
    return arrived


def ask(span: Span, operator: Op, expected: JsonValue = True) -> EvalTaskResult:
    assertion = TraceAssertion.span_attribute(SpanFilter.by_name("retrieve"), "doc_ids")
    task = TraceAssertionTask("t", assertion, expected, operator)
    return evaluate_record(compile_plan([task]), EvalRecord({}), SpanTree([span])).tasks[0]


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "opentelemetry"])
@pytest.mark.parametrize(
    ("value", "found"),
    [
        ([], []),
        ((), []),
        ([1, 0.5], [1, 0.5]),
        (["a", None], ["a", None]),
        ([None, None], [None, None]),
        ([True, "a", 2], [True, "a", 2]),
        ([""], [""]),
    ],
)
def test_a_list_is_read_back_as_a_list(value: object, found: list[Any], is_ours: bool) -> None:
    span = sent(value, is_ours=is_ours)

    assert attribute_json(span.attributes["doc_ids"]) == found
    assert ask(span, Op.DeepEquals, found).passed
    assert ask(span, Op.IsArray).passed
    assert ask(span, Op.HasLengthEqual, len(found)).passed
    assert ask(span, Op.IsNotEmpty).passed is (len(found) > 0)
    assert ask(span, Op.IsEmpty).passed is (len(found) == 0)


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "opentelemetry"])
def test_none_is_no_attribute(is_ours: bool) -> None:
    span = sent(None, is_ours=is_ours)

    assert "doc_ids" not in span.attributes
    result = ask(span, Op.IsNotEmpty)
    assert (result.outcome, result.reason) == (Outcome.ERRORED, Reason.MISSING_PATH)


def test_a_null_of_another_sender_is_no_attribute() -> None:
    """OTLP can say that a value is there and holds nothing."""
    raw: dict[str, Any] = {
        "traceId": "a" * 32,
        "spanId": "b" * 16,
        "name": "retrieve",
        "attributes": [{"key": "doc_ids", "value": {}}],
    }
    (span,) = spans_from_otlp_json([raw]).spans
    assert ask(span, Op.IsNull).reason is Reason.MISSING_PATH
    for filter in (
        SpanFilter.with_attribute("doc_ids"),
        SpanFilter.with_attribute_value("doc_ids", None),
    ):
        task = TraceAssertionTask("t", TraceAssertion.span_count(filter), 0, Op.Equals)
        (found,) = evaluate_record(compile_plan([task]), EvalRecord({}), SpanTree([span])).tasks
        assert (found.actual, found.reason) == (0, Reason.NOT_TOLD)


@pytest.mark.parametrize("is_ours", [True, False], ids=["ours", "opentelemetry"])
def test_an_empty_object_is_empty(is_ours: bool) -> None:
    assert ask(sent({}, is_ours=is_ours), Op.IsEmpty).passed
