"""Trajectories of spans: a call that is told twice is one, and two equal calls are two."""

import json
from typing import Any

from scouter.evaluate.trajectory.spans import trajectory_from_spans
from scouter.model.span import Span
from tests.scouter.model.genai.test_acts import made

OSLO = {"city": "Oslo"}
CALL = {"tool_name": "search", "tool_input": OSLO}


def asks(*ids: str | None) -> Span:
    """A model's call whose message asks for the tool, once for each id."""
    parts: list[dict[str, Any]] = [
        {"type": "tool_call", "name": "search", "arguments": OSLO, **({"id": id} if id else {})}
        for id in ids
    ]
    message = [{"role": "assistant", "parts": parts, "finish_reason": "tool_call"}]
    return made(1, "model", "m", at=(0, 9), output_messages=json.dumps(message))


def executes(number: int, call: str | None = None) -> Span:
    at = (number * 10, number * 10 + 5)
    return made(number, "tool", "search", at=at, args=json.dumps(OSLO), call=call)  # type: ignore[arg-type]  # None is left out


def test_a_message_and_a_span_tell_of_one_call() -> None:
    assert trajectory_from_spans([asks("c-1"), executes(2, "c-1")]) == [CALL]
    assert trajectory_from_spans([asks(None), executes(2)]) == [CALL]


def test_equal_calls_without_ids_are_two() -> None:
    assert trajectory_from_spans([asks(None, None), executes(2), executes(3)]) == [CALL, CALL]
    assert trajectory_from_spans([executes(2), executes(3)]) == [CALL, CALL]


def test_calls_that_only_a_message_tells_of() -> None:
    assert trajectory_from_spans([asks("c-1", "c-2")]) == [CALL, CALL]


def test_the_order_is_that_of_the_calls() -> None:
    """Spans come in any order; without arguments an object is empty."""
    late = made(9, "tool", "book", at=(90, 99))
    found = trajectory_from_spans([late, executes(2)])
    assert found == [CALL, {"tool_name": "book", "tool_input": {}}]
