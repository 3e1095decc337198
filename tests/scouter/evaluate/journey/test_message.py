"""Messages of any form become one form: documented ones, chat messages, spans, replayed turns."""

import json
from typing import Any

import pytest

from scouter.errors import DataError
from scouter.evaluate.journey.evaluate import evaluate_journey
from scouter.evaluate.journey.message import (
    messages_of_spans,
    messages_of_turns,
    read_messages,
    to_documented,
)
from scouter.model.span import Span
from tests.scouter.evaluate.spans_support import MS, span
from tests.support.journeys import ANSWER, ASSIGNMENT, GOOD, SCHEDULE, hr, says, user


def openai_call(*requested: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": f"x{at}", "type": "function",
             "function": {"name": name, "arguments": json.dumps(args)}}
            for at, (name, args) in enumerate(requested)
        ],
    }  # fmt: skip


def tool_span(id: int, call: tuple[str, dict[str, Any]], at: tuple[float, float]) -> Span:
    return span(
        id, f"execute_tool {call[0]}", 1, at,
        {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call[0],
            "gen_ai.tool.call.arguments": json.dumps(call[1]), "gen_ai.tool.call.result": "ok",
        },
    )  # fmt: skip


def test_openai_messages_count_as_documented_ones() -> None:
    chat = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "I want to know my time off schedule"},
        openai_call(ASSIGNMENT, SCHEDULE),
        {"role": "tool", "tool_call_id": "x0", "content": "15778303"},
        {"role": "tool", "tool_call_id": "x1", "content": "Error: no such month"},
        {"role": "assistant", "content": ANSWER},
    ]
    result = evaluate_journey(hr(), chat)
    assert (result.success, result.precision, result.parameter_f1) == (True, 1.0, 1.0)
    assert [message.type for message in result.messages] == [
        "text", "text", "tool_call", "tool_response", "tool_response", "text",
    ]  # fmt: skip
    reasons = [reason and reason["reason"] for reason in result.reasons]
    assert reasons == [None, None, None, None, "runtime error", None]


def test_anthropic_messages_too() -> None:
    chat = [
        user("hi"),
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I look it up."},
                {"type": "tool_use", "id": "t", "name": ASSIGNMENT[0], "input": ASSIGNMENT[1]},
            ],
        },
    ]
    _, said, request = read_messages(chat)
    assert (said.text, said.type) == ("I look it up.", "text")
    assert request.calls is not None
    assert (request.calls[0].name, request.calls[0].arguments) == ASSIGNMENT


def test_a_call_that_only_the_content_tells_of_counts() -> None:
    content = json.dumps({"type": "tool_call", "name": ASSIGNMENT[0], "args": ASSIGNMENT[1]})
    old = {"role": "assistant", "type": "tool_call", "content": content}
    assert evaluate_journey(hr(), [GOOD[0], old, *GOOD[2:]]).success is True
    assert evaluate_journey(hr(), [GOOD[0], old, *GOOD[2:]], compat="wxo-1.6.9").recall == 0.5


def test_what_is_written_is_read_again() -> None:
    shown = {
        "role": "assistant", "type": "interaction", "content": "?", "response_time": 1.5,
        "interaction": {"payload": {"title": "Choose"}},
    }  # fmt: skip
    found = {"role": "assistant", "type": "conversational_search", "content": "15 days",
             "conversational_search_metadata": {"tool_call_id": "kb"}}  # fmt: skip
    messages = read_messages([*GOOD, shown, found])
    assert read_messages(map(to_documented, messages)) == messages


def test_spans_tell_of_calls_and_of_the_answer() -> None:
    chat = {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.messages": json.dumps(
            [{"role": "assistant", "parts": [{"type": "text", "content": ANSWER}]}]
        ),
    }
    spans = [
        span(9, "chat m", 1, (60, 70), chat),
        tool_span(3, SCHEDULE, (30, 40)),
        tool_span(2, ASSIGNMENT, (10, 20)),
        span(1, "run", None, (0, 100)),
    ]
    assert evaluate_journey(hr(), messages_of_spans(spans)).success is True
    assert evaluate_journey(hr(), spans).success is True
    late = [tool_span(2, ASSIGNMENT, (50, 55)), *spans[:2]]
    assert evaluate_journey(hr(), messages_of_spans(late)).success is False


def test_calls_belong_to_the_turn_in_which_they_began() -> None:
    turns = [{"user": "hi", "agent": ANSWER}, {"user": "and?", "agent": "Done."}]
    spans = [tool_span(2, ASSIGNMENT, (10, 20)), tool_span(3, SCHEDULE, (110, 120))]
    early = messages_of_turns(turns, spans, [(0, 130 * MS), (140 * MS, 150 * MS)])
    call = ["tool_call", "tool_response"]
    assert [m.type for m in early] == ["text", *call, *call, "text", "text", "text"]
    assert evaluate_journey(hr(), early).success is True
    premature = messages_of_turns(turns, spans, [(0, 100 * MS), (105 * MS, 130 * MS)])
    assert evaluate_journey(hr(), premature).success is False
    times = [m.response_time_s for m in premature if m.response_time_s is not None]
    assert times == [0.1, 0.025]


def test_a_call_of_a_turn_that_never_ended_comes_last() -> None:
    """The agent raised in its second turn, of which nothing but the call is known."""
    spans = [tool_span(2, ASSIGNMENT, (10, 20)), tool_span(3, SCHEDULE, (110, 120))]
    found = messages_of_turns([{"user": "hi", "agent": ANSWER}], spans, [(0, 100 * MS)])
    call = ["tool_call", "tool_response"]
    assert [m.type for m in found] == ["text", *call, "text", *call]


def test_an_answer_of_messages_tells_of_its_calls_where_no_span_does() -> None:
    turns = [{"user": "hi", "agent": {"messages": [openai_call(ASSIGNMENT), openai_call(SCHEDULE),
                                                   says(ANSWER)]}}]  # fmt: skip
    assert evaluate_journey(hr(), messages_of_turns(turns)).success is True
    spans = [tool_span(2, ASSIGNMENT, (10, 20))]
    both = messages_of_turns(turns, spans)
    assert [m.type for m in both] == ["text", "tool_call", "tool_response", "text"]
    twice = messages_of_turns([*turns, *turns], spans, [(0, 30 * MS), (40 * MS, 50 * MS)])
    assert [m.type for m in twice] == ["text", "tool_call", "tool_response", "text", "text", "text"]


def test_what_is_no_message_is_named() -> None:
    with pytest.raises(DataError, match=r"messages\[1\]: 'hello' is no message"):
        evaluate_journey(hr(), [GOOD[0], "hello"])  # pyright: ignore[reportArgumentType] on purpose
