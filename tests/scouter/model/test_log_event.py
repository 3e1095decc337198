"""Log events and the spans that they belong to."""

import json
from dataclasses import replace

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from scouter.errors import DataError
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.log_event import EVENT_SCOPE, attach_events, is_genai_event
from scouter.model.otlp_logs import event_name, event_of_log, json_event_name
from scouter.model.span import Span, SpanEvent
from tests.scouter.evaluate.spans_support import TRACE, span


def event(span_id: int, text: str, at_ns: int, trace: str = TRACE) -> Span:
    """A log event with a text as its body."""
    log = LogRecord(
        time_unix_nano=at_ns,
        trace_id=bytes.fromhex(trace),
        span_id=span_id.to_bytes(8, "big"),
        body=AnyValue(string_value=text),
    )
    found = event_of_log(log, "gen_ai.choice")
    assert found is not None
    return found


OWN = SpanEvent(name="exception", time_ns=15)
ROOT = span(1, "agent", at=(0, 9))
CHAT = replace(span(2, "chat", parent=1, at=(1, 8)), events=(OWN,))
EVENTS = [event(2, "late", 20), event(2, "early", 10), event(1, "root", 10), event(2, "same", 20)]


@pytest.mark.parametrize(
    ("name", "is_one"),
    [
        ("gen_ai.choice", True),
        ("gen_ai.client.inference.operation.details", True),
        ("gen_ai.tool.message", True),
        ("gen_ai.evaluation.result", True),
        ("claude_code.assistant_response", True),
        ("claude_code.api_request", False),
        ("assistant_response", False),
        ("scouter.eval_record", False),
        ("", False),
        (None, False),
    ],
)
def test_which_logs_are_genai_events(name: object, is_one: bool) -> None:
    """Those of the conventions."""
    assert is_genai_event(name) is is_one


@given(
    st.permutations([ROOT, CHAT, *EVENTS]),
    st.lists(st.sampled_from([ROOT, CHAT, *EVENTS]), max_size=8),
)
def test_any_order_and_repetition_gives_the_same_tree(first: list[Span], more: list[Span]) -> None:
    """Events are in order of time, once each; of two at one time the order is one order."""
    tree = SpanTree([*first, *more])

    assert [each.name for each in tree.spans] == ["agent", "chat"]
    assert tree.gaps.spans == ""
    chat = tree.spans[1].events
    assert [each.time_ns for each in chat] == [10, 15, 20, 20]
    assert [each.attributes.get("body") for each in chat[:2]] == ["early", None]
    assert sorted(str(each.attributes["body"]) for each in chat[2:]) == ["late", "same"]
    assert chat == SpanTree([ROOT, CHAT, *EVENTS]).spans[1].events
    assert [each.attributes["body"] for each in tree.spans[0].events] == ["root"]


def test_an_event_without_its_span_is_a_missing_span_and_no_span() -> None:
    """It is no span that a task could count, and says that one more exists."""
    tree = SpanTree([ROOT, event(7, "hello", 3)])
    assert [each.name for each in tree.spans] == ["agent"]
    assert "0000000000000007" in tree.gaps.spans
    assert "gen_ai.choice" in tree.gaps.spans


def test_an_event_of_another_trace_goes_to_no_span_of_the_same_id() -> None:
    """Span ids are of their trace."""
    spans, strays = attach_events([ROOT, event(1, "x", 3, trace="1" * 32)])
    assert spans == [ROOT]
    assert len(strays) == 1


def test_the_same_log_is_the_same_event_and_another_is_not() -> None:
    """By everything that it says: its span, its time, its name and its content."""
    log = LogRecord(
        time_unix_nano=5,
        trace_id=bytes.fromhex(TRACE),
        span_id=(1).to_bytes(8, "big"),
        attributes=[KeyValue(key="index", value=AnyValue(int_value=0))],
    )
    first = event_of_log(log, "gen_ai.choice")
    again = event_of_log(LogRecord.FromString(log.SerializeToString()), "gen_ai.choice")
    assert first == again
    assert first is not None
    assert first.scope is EVENT_SCOPE
    changed = [LogRecord.FromString(log.SerializeToString()) for _ in range(3)]
    changed[0].time_unix_nano = 6
    changed[1].attributes[0].value.int_value = 1
    changed[2].span_id = bytes([1] * 8)
    others = [event_of_log(each, "gen_ai.choice") for each in changed]
    others.append(event_of_log(log, "gen_ai.user.message"))
    assert len({each.span_id for each in others if each} | {first.span_id}) == 5


def test_ids_that_are_none() -> None:
    """Without a span an event is no log event; with a broken id it is refused."""
    assert event_of_log(LogRecord(trace_id=bytes(16), span_id=bytes(8)), "gen_ai.choice") is None
    assert event_of_log(LogRecord(), "gen_ai.choice") is None
    with pytest.raises(DataError, match="trace id"):
        event_of_log(LogRecord(trace_id=b"\1" * 3, span_id=b"\1" * 8), "gen_ai.choice")
    with pytest.raises(DataError, match="span id"):
        event_of_log(LogRecord(trace_id=b"\1" * 16, span_id=b"\1"), "gen_ai.choice")
    with pytest.raises(DataError, match="time"):
        event_of_log(
            LogRecord(trace_id=b"\1" * 16, span_id=b"\1" * 8, time_unix_nano=2**63), "gen_ai.choice"
        )


def test_body_items_become_attributes_and_give_way_to_them() -> None:
    """`event.name` is the name and no attribute."""
    log = LogRecord(
        trace_id=b"\1" * 16,
        span_id=b"\1" * 8,
        attributes=[
            KeyValue(key="event.name", value=AnyValue(string_value="gen_ai.choice")),
            KeyValue(key="role", value=AnyValue(string_value="attribute")),
        ],
    )
    pair = log.body.kvlist_value.values.add(key="role")
    pair.value.string_value = "body"
    log.body.kvlist_value.values.add(key="index").value.int_value = 2
    found = event_of_log(log, "gen_ai.choice")
    assert found is not None
    assert found.attributes == {"role": "attribute", "index": 2}


def test_a_result_of_an_evaluator_is_no_evidence() -> None:
    """It is an event of its span; without the span nothing is missing. Ours is known already."""
    log = LogRecord(trace_id=bytes.fromhex(TRACE), span_id=(7).to_bytes(8, "big"))
    result = event_of_log(log, "gen_ai.evaluation.result")
    assert result is not None
    tree = SpanTree([ROOT, result])
    assert (tree.gaps.spans, len(tree.strays)) == ("", 1)
    (seven,) = SpanTree([span(7, "chat"), result]).spans
    assert [each.name for each in seven.events] == ["gen_ai.evaluation.result"]
    log.attributes.add(key="scouter.evaluation.id").value.string_value = "e"
    assert event_of_log(log, "gen_ai.evaluation.result") is None


def test_attributes_that_the_sender_dropped_are_known_to_be_missing() -> None:
    """As those of a span's own events are."""
    log = LogRecord(
        trace_id=bytes.fromhex(TRACE), span_id=(2).to_bytes(8, "big"), dropped_attributes_count=3
    )
    dropped = event_of_log(log, "gen_ai.choice")
    assert dropped is not None
    tree = SpanTree([ROOT, CHAT, dropped])
    assert tree.spans[1].dropped_count == 3
    assert "3 attributes" in tree.gaps.attributes


@pytest.mark.parametrize(
    ("attribute", "body", "name"),
    [
        ("user_prompt", "claude_code.user_prompt", "claude_code.user_prompt"),
        ("user_prompt", "claude_code.other", "user_prompt"),
        ("user_prompt", "", "user_prompt"),
        ("gen_ai.choice", "text", "gen_ai.choice"),
    ],
)
def test_claude_code_names_an_event_by_its_body(attribute: str, body: str, name: str) -> None:
    """In both forms of OTLP; the attribute has the name without its first part."""
    log = LogRecord(
        body=AnyValue(string_value=body),
        attributes=[KeyValue(key="event.name", value=AnyValue(string_value=attribute))],
    )
    assert event_name(log) == name
    assert json_event_name(json.loads(json_format.MessageToJson(log))) == name
