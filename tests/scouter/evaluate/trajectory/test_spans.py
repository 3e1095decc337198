"""Trajectories of spans: a call that is reported twice is one, and two equal calls are two."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.trajectory.comparison import (
    trajectory_exact_match,
    trajectory_in_order_match,
)
from scouter.evaluate.trajectory.matching import trajectory_from_spans
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
    assert trajectory_from_spans([asks(None, None), executes(2), executes(3)]) == [[CALL, CALL]]
    assert trajectory_from_spans([executes(2), executes(3)]) == [CALL, CALL]


def test_calls_that_only_a_message_tells_of() -> None:
    assert trajectory_from_spans([asks("c-1", "c-2")]) == [[CALL, CALL]]


def test_the_order_is_that_of_the_calls() -> None:
    """Spans come in any order; without arguments an object is empty."""
    late = made(9, "tool", "book", at=(90, 99))
    found = trajectory_from_spans([late, executes(2)])
    assert found == [CALL, {"tool_name": "book", "tool_input": {}}]


def step_of(*names: str) -> list[dict[str, Any]]:
    return [{"tool_name": name, "tool_input": {}} for name in names]


def test_executions_that_overlap_under_one_parent_are_one_step() -> None:
    """Those of another parent, and those behind, are not; touching is not overlapping."""
    spans = [
        made(2, "tool", "a", 1, (0, 5)),
        made(3, "tool", "b", 1, (4, 9)),
        made(4, "tool", "c", 1, (8, 10)),
        made(5, "tool", "other", 9, (8, 10)),
        made(6, "tool", "behind", 1, (10, 12)),
        made(7, "tool", "root", None, (10, 12)),
        made(8, "tool", "root", None, (11, 12)),
    ]
    assert trajectory_from_spans(spans) == [
        step_of("a", "b", "c"), *step_of("other"), *step_of("behind"), *step_of("root", "root")
    ]  # fmt: skip


def test_what_one_message_asks_for_is_one_step() -> None:
    """Also where it is executed in turn, and where a tool calls another meanwhile."""
    parts: list[dict[str, Any]] = [
        {"type": "tool_call", "id": name, "name": name, "arguments": {}} for name in "ab"
    ]
    message = json.dumps([{"role": "assistant", "parts": parts, "finish_reason": "tool_call"}])
    spans = [
        made(1, "model", "m", at=(0, 9), output_messages=message),
        made(2, "tool", "a", at=(10, 15), call="a"),
        made(3, "tool", "inside", 2, at=(11, 12)),
        made(4, "tool", "b", at=(20, 25), call="b"),
    ]
    assert trajectory_from_spans(spans) == [step_of("a", "b"), *step_of("inside")]


def test_messages_that_only_the_next_input_tells() -> None:
    """Each of them is a step, and so are items that stand alone, up to a result."""

    def request(*names: str) -> dict[str, Any]:
        calls: list[dict[str, Any]] = [
            {"type": "tool_call", "id": name, "name": name, "arguments": {}} for name in names
        ]
        return {"role": "assistant", "parts": calls}

    user: dict[str, Any] = {"role": "user", "parts": [{"type": "text", "content": "hello"}]}
    messages = json.dumps([user, request("a", "b"), request("c", "d")])
    spans = [
        made(1, "model", "m", at=(0, 9), input_messages=json.dumps([user])),
        made(2, "model", "m", at=(10, 19), input_messages=messages),
    ]
    assert trajectory_from_spans(spans) == [step_of("a", "b"), step_of("c", "d")]
    items: list[dict[str, Any]] = [
        {"type": "function_call", "call_id": name, "name": name, "arguments": "{}"}
        for name in "abc"
    ]
    items.insert(2, {"type": "function_call_output", "call_id": "a", "output": "1"})
    alone = made(1, "model", "m", at=(0, 9), output_messages=json.dumps(items))
    assert trajectory_from_spans([alone]) == [step_of("a", "b"), *step_of("c")]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.booleans(), st.booleans(), st.data())
def test_steps_of_spans_are_those_of_the_reference(
    sizes: list[int], is_requested: bool, is_executed: bool, data: st.DataObject
) -> None:
    """Messages and executions tell the same steps; the order inside of them does not matter."""
    names = iter("abcdefghijkl")
    reference = [step_of(*(next(names) for _ in range(size))) for size in sizes]
    spans: list[Span] = []
    for turn, step in enumerate(reference):
        order = data.draw(st.permutations([each["tool_name"] for each in step]))
        if is_requested or not is_executed:
            parts = [{"type": "tool_call", "id": name, "name": name} for name in order]
            message = json.dumps([{"role": "assistant", "parts": parts}])
            at = (turn * 100, turn * 100 + 9)
            spans.append(made(100 + turn, "model", "m", 99, at, output_messages=message))
        if is_executed:
            for number, name in enumerate(data.draw(st.permutations(order))):
                at = (turn * 100 + 10 + number, turn * 100 + 50)
                spans.append(made(200 + 10 * turn + number, "tool", name, 99, at, call=name))
    found = trajectory_from_spans(spans)
    assert trajectory_in_order_match(found, reference) == 1
    assert trajectory_exact_match(found, reference) == 1
    if len(reference) > 1:
        assert trajectory_in_order_match(found, reference[::-1]) == 0
