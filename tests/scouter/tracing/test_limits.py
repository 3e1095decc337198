"""Kind: what a limit took away from a span is said, so that the rest is not judged as the whole."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk._logs import LoggerProvider, LogRecordLimits
from opentelemetry.sdk.trace import ReadableSpan, SpanLimits, TracerProvider
from opentelemetry.sdk.trace import Span as SdkSpan
from opentelemetry.trace import SpanContext

from scouter.evaluate import (
    AgentAssertion,
    AgentAssertionTask,
    ComparisonOperator,
    SpanFilter,
    TraceAssertion,
    TraceAssertionTask,
)
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.attributes import TRUNCATED
from scouter.model.otlp import decode_request
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.queue.redaction import Redaction, RedactionRule
from scouter.tracing.capture import CAPTURE
from scouter.tracing.exporters import TestSpanExporter
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.propagation import scenario_scope
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import ScouterTracerProvider, init_tracer
from scouter.transport.config import MockConfig, TransportConfig
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.otlp import write_request
from scouter.transport.port import RecordItem, Transport
from tests.scouter.tracing.conftest import AppExporter, Captured

LENGTH_LIMIT = "OTEL_ATTRIBUTE_VALUE_LENGTH_LIMIT"
SECRET = "x" * 20 + " the password is 1234"
LINKED = SpanContext(7, 8, is_remote=True)


class Stored:
    """A transport that writes its spans as they go on the wire, and reads them again."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        raise AssertionError((items, dropped))

    def send_spans(self, spans: Sequence[ReadableSpan], dropped: Dropped = NONE_DROPPED) -> int:
        del dropped
        data, lost = write_request(spans)
        self.spans += decode_request(ExportTraceServiceRequest.FromString(data)).spans
        return lost

    def close(self) -> None:
        pass


class StoredConfig(TransportConfig):
    stored: Any

    def open(self) -> Transport:
        return self.stored


def limited(**limits: int) -> TracerProvider:
    """An application's own provider, with Scouter's processor on it."""
    provider = TracerProvider(span_limits=SpanLimits(**limits), shutdown_on_exit=False)
    ScouterInstrumentor().instrument(tracer_provider=provider)
    return provider


def text(span: SdkSpan) -> None:
    span.set_attribute("text", SECRET)


def texts(span: SdkSpan) -> None:
    span.set_attribute("said", ["short", SECRET])


def mapping(span: SdkSpan) -> None:
    span.set_attribute("args", {"note": SECRET, "n": 1})


def event(span: SdkSpan) -> None:
    span.add_event("said", {"text": SECRET, "n": 1})


def link(span: SdkSpan) -> None:
    span.add_link(LINKED, {"why": SECRET})


def message(span: SdkSpan) -> None:
    span.set_attribute("gen_ai.operation.name", "chat")
    span.set_attribute("llm.output_messages.0.message.content", SECRET)


def raised(span: SdkSpan) -> None:
    span.record_exception(ValueError(SECRET))


def short(span: SdkSpan) -> None:
    span.set_attributes({"text": "x" * 19, "n": 10**30, "said": ["x" * 19, None]})


CUTS = [
    pytest.param(text, ("text",), id="text"),
    pytest.param(texts, ("said",), id="list"),
    pytest.param(mapping, ("args",), id="mapping"),
    pytest.param(event, ("events.said.text",), id="event"),
    pytest.param(link, ("links.why",), id="link"),
    pytest.param(message, ("llm.output_messages.0.message.content",), id="openinference-message"),
    pytest.param(short, None, id="shorter-than-the-limit"),
]


@pytest.mark.parametrize("is_captured", [True, False], ids=["captured", "sent"])
@pytest.mark.parametrize(("make", "cut"), CUTS)
def test_a_value_as_long_as_its_limit_is_marked(
    make: Callable[[SdkSpan], None], cut: tuple[str, ...] | None, is_captured: bool
) -> None:
    """In a provider of the application, whoever makes the span, on both ways."""
    stored = Stored()
    RUNTIME.configure(transport_config=StoredConfig(stored=stored))
    tracer = limited(max_attribute_length=20).get_tracer("lib")
    if is_captured:
        CAPTURE.enable()
    span: Any = tracer.start_span("answer")
    make(span)
    span.end()
    assert RUNTIME.flush(20)

    (found,) = CAPTURE.drain() if is_captured else stored.spans
    assert found.attributes.get(TRUNCATED) == cut


def test_marks_of_several_cuts_stand_together() -> None:
    CAPTURE.enable()
    tracer = limited(max_attribute_length=20).get_tracer("lib")
    span: Any = tracer.start_span("answer", attributes={TRUNCATED: ["earlier"]}, links=[])
    message(span)
    event(span)
    span.end()

    assert CAPTURE.drain()[0].attributes[TRUNCATED] == (
        "earlier", "llm.output_messages.0.message.content", "events.said.text",
    )  # fmt: skip


def outcome(spans: list[Span], task: Any) -> tuple[str, str]:
    found = evaluate_record(compile_plan([task]), EvalRecord({}), SpanTree(spans)).tasks[0]
    return str(found.outcome), str(found.reason)


def filter_task(key: str, operator: ComparisonOperator, expected: str) -> TraceAssertionTask:
    assertion = TraceAssertion.span_attribute(SpanFilter.by_name("answer"), key)
    return TraceAssertionTask("t", assertion, expected, operator)


def test_the_rest_of_a_cut_text_is_not_judged_as_the_whole() -> None:
    CAPTURE.enable()
    span: Any = limited(max_span_attribute_length=20).get_tracer("lib").start_span("answer")
    text(span)
    span.end()
    spans = CAPTURE.drain()

    absent = filter_task("text", ComparisonOperator.NotContains, "password")
    assert outcome(spans, absent) == ("errored", "incomplete")
    there = filter_task("text", ComparisonOperator.Contains, "xxx")
    assert outcome(spans, there)[0] == "passed", "more text cannot change it"


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(message, ("errored", "not_told"), id="the-answer-itself"),
        pytest.param(text, ("passed", "None"), id="an-attribute-that-no-convention-reads"),
        pytest.param(raised, ("passed", "None"), id="the-text-of-an-exception"),
    ],
)
def test_agent_tasks_doubt_what_they_read(
    make: Callable[[SdkSpan], None], expected: tuple[str, str]
) -> None:
    """A cut statement of a database flips no answer; a cut answer does."""
    CAPTURE.enable()
    span: Any = limited(max_attribute_length=20).get_tracer("lib").start_span("chat")
    span.set_attribute("gen_ai.operation.name", "chat")
    span.set_attribute("gen_ai.completion.0.content", "Oslo")
    span.set_attribute("gen_ai.completion.0.role", "assistant")
    make(span)
    span.end()

    said = AgentAssertionTask(
        "t", AgentAssertion.response_content(), "password", ComparisonOperator.NotContains,
        source="spans",
    )  # fmt: skip
    assert outcome(CAPTURE.drain(), said) == expected


def test_own_tracers_keep_what_the_environment_limits_for_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second backend gets texts as long as it takes them, Scouter gets the whole."""
    monkeypatch.setenv(LENGTH_LIMIT, "20")
    other = TestSpanExporter(batch_export=False)
    stored = Stored()
    tracer = init_tracer("shop", exporter=other, transport_config=StoredConfig(stored=stored))
    with tracer.start_as_current_span("answer") as span:
        span.set_attributes({"text": SECRET, "said": ["a", SECRET]})
        span.add_event("said", {"text": SECRET})
        span.add_link(LINKED, {"why": SECRET})
    assert RUNTIME.flush(20)

    (whole,) = stored.spans
    assert whole.attributes["text"] == whole.events[0].attributes["text"] == SECRET
    assert TRUNCATED not in whole.attributes
    (cut,) = other.spans
    assert cut.attributes == {"text": "x" * 20, "said": ("a", "x" * 20)}
    assert cut.events[0].attributes == {"text": "x" * 20}
    assert cut.links[0].attributes == {"why": "x" * 20}


def test_processors_beside_ours_see_the_environments_lengths(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also on the global provider that Scouter made, where an application adds its exporter."""
    monkeypatch.setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "20")
    provider, other = RUNTIME.make_provider("shop", ScouterTracerProvider), AppExporter()
    provider.add_span_processor(other)
    ScouterInstrumentor().instrument(tracer_provider=provider)
    CAPTURE.enable()
    with provider.get_tracer("lib").start_as_current_span("answer", attributes={"text": SECRET}):
        pass

    assert [dict(span.attributes or {}) for span in other.spans] == [{"text": "x" * 20}]
    assert CAPTURE.drain()[0].attributes == {"text": SECRET}


@pytest.mark.parametrize(
    ("variable", "sizes"),
    [
        pytest.param(None, (432, 300, 300), id="as-the-collector-takes"),
        pytest.param("OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", (100, 300, 300), id="attributes-limited"),
        pytest.param("OTEL_ATTRIBUTE_COUNT_LIMIT", (100, 300, 300), id="all-attributes-limited"),
        pytest.param("OTEL_SPAN_EVENT_COUNT_LIMIT", (432, 100, 300), id="events-limited"),
        pytest.param("OTEL_SPAN_LINK_COUNT_LIMIT", (432, 300, 100), id="links-limited"),
    ],
)
def test_long_conversations_fit(
    variable: str | None,
    sizes: tuple[int, int, int],
    captured: Captured,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """OpenInference writes 432 attributes for 121 messages; a set limit holds and is reported."""
    if variable is not None:
        monkeypatch.setenv(variable, "100")
    with init_tracer("shop").start_as_current_span("chat") as span:
        span.set_attributes({f"llm.input_messages.{i}": i for i in range(432)})
        for _ in range(300):
            span.add_event("token")
            span.add_link(LINKED)

    found = captured["chat"]
    assert (len(found.attributes), len(found.events), len(found.links)) == sizes
    assert found.dropped_count == 732 - sum(sizes[:2])
    assert ("did not fit" in caplog.text) == (variable is not None)


def many_attributes(span: SdkSpan) -> None:
    span.set_attributes({str(i): i for i in range(200)})


def many_events(span: SdkSpan) -> None:
    for _ in range(200):
        span.add_event("e")


def many_links(span: SdkSpan) -> None:
    for _ in range(200):
        span.add_link(LINKED)


def a_large_event(span: SdkSpan) -> None:
    span.add_event("e", {str(i): i for i in range(200)})


@pytest.mark.parametrize(
    ("fill", "variable"),
    [
        pytest.param(many_attributes, "OTEL_SPAN_ATTRIBUTE_COUNT_LIMIT", id="attributes"),
        pytest.param(many_events, "OTEL_SPAN_EVENT_COUNT_LIMIT", id="events"),
        pytest.param(many_links, "OTEL_SPAN_LINK_COUNT_LIMIT", id="links"),
        pytest.param(a_large_event, "OTEL_EVENT_ATTRIBUTE_COUNT_LIMIT", id="event-attributes"),
    ],
)
def test_the_log_names_the_setting_that_lost_something(
    fill: Callable[[SdkSpan], None], variable: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a provider that the application made; once in a process, with the number and the span."""
    CAPTURE.enable()
    tracer = limited().get_tracer("lib")
    for _ in range(2):
        span: Any = tracer.start_span("chat")
        fill(span)
        span.end()

    (line,) = [each.getMessage() for each in caplog.records if each.name == "scouter"]
    assert (variable in line, "72 " in line, "'chat'" in line) == (True, True, True)
    assert caplog.records[-1].levelno == logging.WARNING


@pytest.mark.parametrize("is_redacted", [False, True], ids=["plain", "redacted"])
def test_the_number_of_what_was_dropped_stays(is_redacted: bool) -> None:
    """Redaction copies a span; the copy has lost as much."""
    if is_redacted:
        RUNTIME.configure(redaction=Redaction(rules=(RedactionRule(action="mask", pattern="z"),)))
    CAPTURE.enable()
    span: Any = limited(max_events=2, max_event_attributes=1).get_tracer("lib").start_span("chat")
    for _ in range(5):
        span.add_event("e", {"a": 1, "b": 2})
    span.end()

    (found,) = CAPTURE.drain()
    assert found.dropped_count == 3 + 2, "three events, and an attribute of each that is left"


def test_own_cuts_are_marked(captured: Captured) -> None:
    """Inputs, outputs, streams and texts of exceptions that Scouter itself shortens."""
    tracer = init_tracer("shop", transport_config=MockConfig())

    @tracer.span(name="long", max_length=20)
    def long(question: str) -> str:
        return question

    @tracer.span(name="short", max_length=20)
    def brief(question: str) -> str:
        return question

    @tracer.span(name="stream", max_length=20, join_stream_items=True)
    def stream() -> Any:
        yield SECRET

    @tracer.span(name="items")
    def items() -> Any:
        yield from range(1001)

    long(SECRET)
    brief("x" * 20)
    list(stream())
    list(items())
    with pytest.raises(ValueError, match="x"), tracer.start_as_current_span("error"):
        raise ValueError("x" * 10_000)

    both = ("scouter.tracing.input", "scouter.tracing.output")
    marks = {name: captured[name].attributes.get(TRUNCATED) for name in captured.names()}
    assert marks == {
        "long": both,
        "short": None,
        "stream": both[1:],
        "items": both[1:],
        "error": (
            "events.exception.exception.message", "events.exception.exception.stacktrace",
        ),
    }  # fmt: skip
    absent = filter_task("scouter.tracing.output", ComparisonOperator.NotContains, "password")
    one = Span(trace_id="1" * 32, span_id="1" * 16, name="answer", start_ns=1, end_ns=2,
               attributes=captured["long"].attributes)  # fmt: skip
    assert outcome([one], absent) == ("errored", "incomplete")


def test_attributes_of_log_events_are_marked() -> None:
    loggers = LoggerProvider(
        shutdown_on_exit=False,
        log_record_limits=LogRecordLimits(max_attribute_length=20),
    )
    provider = TracerProvider(shutdown_on_exit=False)
    ScouterInstrumentor().instrument(tracer_provider=provider, logger_provider=loggers)
    CAPTURE.enable()
    with provider.get_tracer("lib").start_as_current_span("chat"):
        said = LogRecord(event_name="gen_ai.choice", attributes={"gen_ai.event.content": SECRET})
        loggers.get_logger("lib").emit(said)

    (chat,) = SpanTree(CAPTURE.drain()).spans
    assert chat.events[0].attributes[TRUNCATED] == ("gen_ai.event.content",)


@pytest.mark.parametrize("attributes", [0, 20], ids=["within-the-limit", "beyond-it"])
def test_a_span_that_lost_attributes_stays_its_scenarios(attributes: int) -> None:
    """A limit drops the oldest attributes first: those that name the scenario are the oldest."""
    tracer = limited(max_span_attributes=10).get_tracer("lib")
    CAPTURE.enable()
    with scenario_scope("refund", attempt=2, try_key="t"):
        span = tracer.start_span("execute_tool")
        span.set_attributes({str(i): i for i in range(attributes)})
        span.end()

    (found,) = CAPTURE.spans_of_scenario("refund")
    assert found.attributes["scouter.eval.attempt"] == 2
    assert found.attributes["scouter.eval.try"] == found.attributes["gen_ai.conversation.id"] == "t"
    assert found.dropped_count == (14 if attributes else 0)
    assert CAPTURE.open_of("t") == 0
