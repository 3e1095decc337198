"""Arguments in one form, and the hash of those that a span tells."""

import json
from collections.abc import Mapping
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import JsonValue

from collector.store.span_rows import span_row
from scouter.model.genai.names import arguments_text
from scouter.model.span import AttributeValue, Span, SpanEvent

NAME = "gen_ai.tool.call.arguments"


@pytest.mark.parametrize(
    ("left", "right", "is_same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": [1, {"c": 1, "b": 2}]}, {"a": [1.0, {"b": 2, "c": 1}]}, True),
        (1e16, 10**16, True),
        (1e22, 10**22, True),
        (-0.0, 0, True),
        (0.5, 0.25, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": "1.0"}, {"a": "1"}, False),
        ({}, None, False),
        ([1, 2], [2, 1], False),
        (10**40, 10**40 + 1, False),
    ],
)
def test_equal_json_is_equal_text(left: JsonValue, right: JsonValue, is_same: bool) -> None:
    assert (arguments_text(left) == arguments_text(right)) is is_same


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.floats(allow_nan=False),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def turned(value: JsonValue) -> JsonValue:
    """The same value with the keys of its objects the other way round."""
    if isinstance(value, dict):
        return {key: turned(value[key]) for key in reversed(value)}
    return [turned(item) for item in value] if isinstance(value, list) else value


@given(JSON.filter(lambda value: "inf" not in repr(value)))
def test_the_text_says_all_but_the_order_of_keys(value: JsonValue) -> None:
    text = arguments_text(value)
    assert arguments_text(turned(value)) == text
    assert json.loads(text) == value


def tool(attributes: Mapping[str, AttributeValue], *events: SpanEvent) -> Span:
    return Span(
        trace_id="1" * 32, span_id="2" * 16, name="pay", start_ns=1, end_ns=2, events=events,
        attributes={"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "pay",
                    **attributes},
    )  # fmt: skip


def arguments_hash(span: Span) -> int | None:
    """The column of a stored span."""
    row = span_row(span, space="s", received_ns=1, size_bytes=1, checksum=1)
    return row.arguments_hash


EXPECTED = crc32(b'{"days":2,"to":"Rome"}')


@pytest.mark.parametrize(
    "span",
    [
        pytest.param(tool({NAME: '{"to": "Rome", "days": 2}'}), id="as-a-text"),
        pytest.param(tool({NAME: {"to": "Rome", "days": 2}}), id="as-an-object"),
        pytest.param(tool({NAME: "{'days': 2, 'to': 'Rome'}"}), id="as-python-writes-it"),
        pytest.param(
            tool({"input.value": '{"kwargs": {"to": "Rome", "days": 2}}'}), id="in-a-wrapper"
        ),
        pytest.param(
            tool({"input.value": "Rome", NAME: '{"to": "Rome", "days": 2}'}), id="the-preferred"
        ),
        pytest.param(
            tool({"code.function.parameters.to": "Rome", "code.function.parameters.days": 2}),
            id="one-attribute-each",
        ),
        pytest.param(
            tool({}, SpanEvent(name="gen_ai.tool.message", time_ns=1,
                               attributes={"content": '{"to": "Rome", "days": 2}'})),
            id="in-an-event",
        ),
    ],
)  # fmt: skip
def test_the_hash_is_of_what_a_span_tells(span: Span) -> None:
    assert arguments_hash(span) == EXPECTED


def test_no_arguments_are_not_empty_arguments() -> None:
    assert arguments_hash(tool({})) is None
    assert arguments_hash(tool({NAME: "{}"})) == crc32(b"{}")
    # Logfire's `input` counts beside its own attributes only.
    assert arguments_hash(tool({"input": "{}"})) is None
    assert arguments_hash(tool({"input": "{}", "logfire.msg": "pay"})) == crc32(b"{}")
