"""Rows of spans: their columns stand in the order of the table, and hold what the span tells."""

from collector.store.schema import COLUMNS
from collector.store.span_rows import BodyRow, SpanRow, span_row
from scouter.model.attributes import PROCESS_ID
from scouter.model.log_event import EVENT_SCOPE
from scouter.model.span import Resource, Span, SpanKind, StatusCode


def span(**fields: object) -> Span:
    return Span(trace_id="1" * 32, span_id="2" * 16, name="chat m", start_ns=5, end_ns=9, **fields)  # type: ignore[arg-type]


def row(each: Span) -> dict[str, object]:
    made = span_row(each, space="s", received_ns=7, size_bytes=100, checksum=3)
    return made._asdict()


def test_fields_are_the_columns_in_their_order() -> None:
    assert list(SpanRow._fields) == [name for name, _ in COLUMNS["spans"]][1:]
    ours = [name for name, _ in COLUMNS["bodies"]][1:]
    derived = ("trace_hash", "size_bytes")
    assert [name for name in ours if name not in derived] == list(BodyRow._fields)


def test_a_model_call_tells_its_facts() -> None:
    found = row(
        span(
            parent_span_id="3" * 16,
            kind=SpanKind.CLIENT,
            status=StatusCode.ERROR,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": "openai",
                "gen_ai.request.model": "m",
                "gen_ai.usage.input_tokens": 12,
                "session.id": "ann",
            },
            resource=Resource(
                attributes={
                    "service.name": "desk", "service.version": "2",
                    "deployment.environment.name": "prod", PROCESS_ID: "p",
                }
            ),
        )
    )  # fmt: skip
    expected = {
        "space": "s", "received_ns": 7, "parent_span_id": "3" * 16, "kind": 3, "status": 2,
        "start_ns": 5, "end_ns": 9, "service_name": "desk", "service_version": "2",
        "environment": "prod", "process": "p", "is_event": 0, "size_bytes": 100, "checksum": 3,
        "operation": "chat", "provider": "openai", "request_model": "m", "genai_kind": "model",
        "input_tokens": 12, "output_tokens": None, "session_id": "ann",
    }  # fmt: skip
    assert {name: found[name] for name in expected} == expected


def test_a_log_event_tells_its_session_alone() -> None:
    event = span(
        scope=EVENT_SCOPE,
        parent_span_id="3" * 16,
        attributes={"session.id": "ann", "gen_ai.operation.name": "chat"},
    )
    found = row(event)
    assert (found["is_event"], found["session_id"], found["operation"]) == (1, "ann", None)


def test_a_count_that_nobody_can_have_counted_is_none() -> None:
    call = {"gen_ai.operation.name": "chat", "gen_ai.usage.input_tokens": 2**32}
    assert row(span(attributes=call))["input_tokens"] is None
