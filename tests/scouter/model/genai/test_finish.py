"""Finish reasons of providers in one word, and the attributes that tell them."""

import pytest

from collector.store.span_rows import span_row
from scouter.model.genai.reader import read_facts
from scouter.model.genai.usage import finish_word
from scouter.model.span import AttributeValue, Span, SpanEvent


@pytest.mark.parametrize(
    ("reason", "word"),
    [
        ("stop", "stop"),
        ("STOP", "stop"),
        ("FinishReason.STOP", "stop"),
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("length", "length"),
        ("MAX_TOKENS", "length"),
        ("max_output_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("tool_calls", "tool_call"),
        ("tool-calls", "tool_call"),
        ("tool_use", "tool_call"),
        ("toolUse", "tool_call"),
        ("content-filter", "content_filter"),
        ("SAFETY", "content_filter"),
        ("guardrail_intervened", "content_filter"),
        ("refusal", "content_filter"),
        ("MALFORMED_FUNCTION_CALL", "tool_call"),
        ("FinishReason.UNEXPECTED_TOOL_CALL", "tool_call"),
        ("malformed_tool_use", "tool_call"),
        ("malformed_model_output", "error"),
        ("abort", "error"),
        ("cancelled", "error"),
        ("in_progress", "error"),
        ("pause_turn", "pause_turn"),
        ("Something New", "something new"),
    ],
)
def test_one_word_for_all_providers(reason: str, word: str) -> None:
    assert finish_word(reason) == word


def model(attributes: dict[str, AttributeValue], *events: SpanEvent) -> Span:
    return Span(
        trace_id="1" * 32, span_id="2" * 16, name="chat", start_ns=1, end_ns=2, events=events,
        attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", **attributes},
    )  # fmt: skip


def stored_reason(span: Span) -> str | None:
    """The column of a stored span."""
    return span_row(span, space="s", received_ns=1, size_bytes=1, checksum=1).finish_reason


CHOICE = SpanEvent(name="gen_ai.choice", time_ns=1, attributes={"finish_reason": "tool_use"})


@pytest.mark.parametrize(
    ("span", "reasons", "word"),
    [
        (
            model({"gen_ai.response.finish_reasons": ("length", "stop")}),
            ("length", "stop"), "length",
        ),
        (model({"gen_ai.response.finish_reasons": '["tool_calls"]'}), ("tool_calls",), "tool_call"),
        (model({"gen_ai.response.finish_reason": "STOP"}), ("STOP",), "stop"),
        (model({"gen_ai.response.finish_reasons": ()}), (), None),
        (
            model({"gen_ai.response.finish_reasons": (), "llm.finish_reason": "stop"}),
            ("stop",), "stop",
        ),
        (model({"gen_ai.completion.0.finish_reason": "end_turn"}), ("end_turn",), "stop"),
        (
            model({"llm.output_messages.0.message.finish_reason": "tool_use"}),
            ("tool_use",), "tool_call",
        ),
        (model({}, CHOICE), ("tool_use",), "tool_call"),
        (model({"gen_ai.response.finish_reasons": ("stop",)}, CHOICE), ("stop",), "stop"),
        (model({}), (), None),
    ],
)  # fmt: skip
def test_what_tells_it(span: Span, reasons: tuple[str, ...], word: str | None) -> None:
    assert read_facts(span).finish_reasons == reasons
    assert stored_reason(span) == word


def test_a_part_of_a_message_that_has_a_field_of_its_own_stays_one() -> None:
    span = model({
        "gen_ai.completion.0.finish_reason": "stop", "gen_ai.completion.0.content": "hi",
    })  # fmt: skip
    messages = read_facts(span).output_messages
    assert messages is not None
    (message,) = messages
    assert isinstance(message, dict)
    assert (message["content"], message["finish_reason"]) == ("hi", "stop")


def test_only_calls_of_models_end_for_a_reason() -> None:
    attributes: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.response.finish_reasons": ("stop",),
    }  # fmt: skip
    assert stored_reason(model(attributes)) is None
