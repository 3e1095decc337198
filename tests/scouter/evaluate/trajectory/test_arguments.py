"""Arguments of two calls, by every mode and rule."""

import random
import time
from typing import Any

import pytest
from pydantic import ValidationError

from scouter.errors import DataError
from scouter.evaluate.trajectory.comparison import (
    compare_trajectories,
    trajectory_any_order_match,
    trajectory_exact_match,
    trajectory_in_order_match,
    trajectory_precision,
    trajectory_recall,
)


def call(name: str = "t", **given: Any) -> dict[str, Any]:
    return {"tool_name": name, "tool_input": given}


def agree(called: Any, expected: Any, **options: Any) -> bool:
    """True if two calls of one tool are the same."""
    pair = [[{"tool_name": "t", "tool_input": each}] for each in (called, expected)]
    return trajectory_exact_match(*pair, **options) == 1


@pytest.mark.parametrize(
    ("called", "expected", "same"),
    [
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": {"b": 1, "c": [1, {"d": 2}]}}, {"a": {"c": [1, {"d": 2}], "b": 1}}, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 2**53}, {"a": float(2**53)}, True),
        ({"a": 2**53 + 1}, {"a": float(2**53)}, False),
        ({"a": True}, {"a": 1}, False),
        ({"a": [True]}, {"a": [1]}, False),
        ({"a": False}, {"a": 0}, False),
        ({"a": "1"}, {"a": 1}, False),
        ({"a": None}, {}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
        ({"a": "é"}, {"a": "e\u0301"}, False),
        ({"a": "X"}, {"a": "x"}, False),
        ({"a": "x "}, {"a": "x"}, False),
        ({"a": []}, {"a": {}}, False),
        ({"a": ["list", 1]}, {"a": [1]}, False),
        ('{"a": 1}', {"a": 1.0}, True),
        ("plain", "plain", True),
        (None, {}, True),
        ([1], [1.0], True),
    ],
)
def test_equal_is_what_json_holds_to_be_equal(called: Any, expected: Any, same: bool) -> None:
    assert agree(called, expected) == agree(expected, called) == same


@pytest.mark.parametrize(
    ("mode", "called", "expected", "same"),
    [
        ("ignore", {"x": 1}, {"y": 2}, True),
        ("ignore", "text", {"y": 2}, True),
        ("subset", {"x": 1}, {"x": 1, "y": 2}, True),
        ("subset", {"x": 1, "y": 2}, {"x": 1}, False),
        ("subset", {"x": 2}, {"x": 1, "y": 2}, False),
        ("subset", {}, {"x": 1}, True),
        ("superset", {"x": 1, "y": 2}, {"x": 1}, True),
        ("superset", {"x": 1}, {"x": 1, "y": 2}, False),
        ("superset", {"p": {"q": 1, "r": 2}}, {"p": {"q": 1}}, False),  # of the first level only
        ("superset", {"x": True}, {"x": 1}, False),
        ("superset", "text", "text", True),
        ("superset", "text", {"x": 1}, False),
    ],
)
def test_modes(mode: str, called: Any, expected: Any, same: bool) -> None:
    assert agree(called, expected, arguments=mode) == same


@pytest.mark.parametrize(
    ("rule", "called", "expected", "same"),
    [
        ("ignore", {"k": 1}, {"k": 2}, True),
        ("ignore", {}, {"k": 2}, True),
        ("exact", {"k": 1}, {"k": 1.0}, True),
        ("exact", {"k": None}, {}, False),
        ("exact", {}, {}, True),
        ("optional", {}, {"k": 1}, True),
        ("optional", {"k": 1}, {}, True),
        ("optional", {"k": 1}, {"k": 2}, False),
        # of 5 + 6 letters 10 are common, in order: 10/11 is about 0.909
        ({"fuzzy": 0.9}, {"k": "hello"}, {"k": "hellos"}, True),
        ({"fuzzy": 0.91}, {"k": "hello"}, {"k": "hellos"}, False),
        ({"fuzzy": 0.5}, {"k": 1}, {"k": 1.0}, True),
        ({"fuzzy": 0.5}, {"k": 1}, {"k": "1"}, False),
        ({"fuzzy": 0.5}, {}, {"k": "1"}, False),
        ({"tolerance": 0.1}, {"k": 1.1}, {"k": 1}, True),
        ({"tolerance": 0.1}, {"k": 1.2}, {"k": 1}, False),
        ({"tolerance": 0.1}, {"k": True}, {"k": 1}, False),
        ({"relative": 0.1}, {"k": 90}, {"k": 100}, True),
        ({"relative": 0.1}, {"k": 100}, {"k": 90}, False),
        ({"tolerance": 1, "relative": 0.1}, {"k": 2}, {"k": 1}, True),
        ({"tolerance": 0}, {"k": 10**400}, {"k": 10**400}, True),
        ({"pattern": "^ID-[0-9]+$"}, {"k": "ID-17"}, {"k": "other"}, True),
        ({"pattern": "^ID-[0-9]+$"}, {"k": "ID-17"}, {}, True),
        ({"pattern": "^ID-[0-9]+$"}, {"k": "ID-x"}, {"k": "ID-x"}, False),
        ({"pattern": "1"}, {"k": 1}, {"k": 1}, False),
        ({"pattern": "1"}, {}, {"k": "1"}, False),
        ({"pattern": "1", "optional": True}, {}, {"k": "1"}, True),
    ],
)
def test_rules_of_one_key(rule: Any, called: Any, expected: Any, same: bool) -> None:
    """The other keys are compared by the mode."""
    options = {"arguments": {"keys": {"k": rule}}}
    assert agree({**called, "z": 1}, {**expected, "z": 1}, **options) == same
    assert not agree({**called, "z": 1}, {**expected, "z": 2}, **options)


@pytest.mark.parametrize(
    ("mode", "key", "called", "expected", "same"),
    [
        ("exact", "p.t", {"p": {"q": 1, "t": 5}}, {"p": {"q": 1, "t": 6}}, True),
        ("exact", "p.t", {"p": {"q": 2, "t": 5}}, {"p": {"q": 1, "t": 5}}, False),
        ("exact", "p.t", {"p": {"t": 5}}, {}, True),
        ("exact", "p.t", {"p": 1}, {"p": 1}, True),
        ("exact", "p.t", {"p.t": 5, "q": 1}, {"p.t": 6, "q": 1}, True),  # the key as a whole
        ("ignore", "p.t", {"p": {"q": 1}}, {"p": {"q": 2, "t": 1}}, True),
    ],
)
def test_keys_inside_of_keys(mode: str, key: str, called: Any, expected: Any, same: bool) -> None:
    options = {"arguments": {"mode": mode, "keys": {key: "ignore"}}}
    assert agree(called, expected, **options) == same


def test_only_some_keys() -> None:
    """`ignore` with a key compares this one and nothing else."""
    options: dict[str, Any] = {"arguments": {"mode": "ignore", "keys": {"p.q": "exact"}}}
    assert agree({"p": {"q": 1, "z": 2}, "t": 1}, {"p": {"q": 1, "z": 3}}, **options)
    assert not agree({"p": {"q": 2}}, {"p": {"q": 1}}, **options)


def test_tools_have_rules_of_their_own() -> None:
    predicted = [call("a", x=1), call("b", y=1)]
    reference = [call("a", x=2), call("b", y=1)]
    assert trajectory_exact_match(predicted, reference, tools={"a": "ignore"}) == 1
    assert trajectory_exact_match(predicted, reference, tools={"b": "ignore"}) == 0


def test_the_most_that_can_be_matched() -> None:
    """The first expected call could take the only call that fits the second."""
    reference = [call(x=1), call(x=1, y=2)]
    predicted = [call(x=1, y=2), call(x=1)]
    assert trajectory_any_order_match(predicted, reference, arguments="superset") == 1
    assert (
        trajectory_any_order_match(
            predicted, reference, arguments="superset", compat="agentevals-0.0.9"
        )
        == 0
    )


def test_partial_credit() -> None:
    """One of two arguments agrees; the tool without a like counts nothing: 0.5 of 2 calls."""
    predicted = [call("book", seats=2, day="mon"), call("pay")]
    reference = [call("book", seats=2, day="tue")]
    assert trajectory_precision(predicted, reference, partial_credit=True) == 0.25
    assert trajectory_recall(predicted, reference, partial_credit=True) == 0.5
    assert trajectory_recall(predicted, reference) == 0
    found = compare_trajectories(predicted, reference, partial_credit=True)
    assert [(line.state, line.credit, line.arguments) for line in found.lines] == [
        ("changed", 0.5, ("day",)),
        ("extra", 0.0, ()),
    ]
    assert found.explain() == (
        "0.5 of 2 calls were expected, 0.5 of 1 expected calls were made\n"
        '~ book({"seats": 2, "day": "mon"}), expected {"seats": 2, "day": "tue"} (day)\n'
        "+ pay({}) extra"
    )


def test_credits_are_placed_for_the_largest_sum() -> None:
    """First to second and second to first make 1.5; each to its own would make 1."""
    predicted = [call(x=1, y=1), call(x=1, y=2)]
    reference = [call(x=1, y=2), call(x=3, y=1)]
    assert trajectory_precision(predicted, reference, partial_credit=True) == 0.75


def test_steps_side_by_side() -> None:
    reference = [call("plan"), [call("a"), call("b")], call("end")]
    swapped = [call("plan"), call("b"), call("a"), call("end")]
    assert trajectory_exact_match(swapped, reference) == 1
    assert trajectory_exact_match([call("a"), call("plan"), call("b"), call("end")], reference) == 0


def test_moved_calls_are_the_fewest() -> None:
    found = compare_trajectories(
        [call("b"), call("c"), call("a")], [call("a"), call("b"), call("c")]
    )
    assert [line.state for line in found.lines] == ["matched", "matched", "moved"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"arguments": "some"}, "mode"),
        ({"arguments": {"keys": {"k": "most"}}}, "'most' is no rule"),
        ({"arguments": {"keys": {"k": {"fuzzy": 0.5, "tolerance": 1}}}}, "expected one of"),
        ({"arguments": {"keys": {"k": {"pattern": "("}}}}, "missing"),
        ({"empty": "pass"}, "empty"),
        ({"steps": 1}, "steps"),
        ({"compat": "vertex", "arguments": "ignore"}, "Vertex knows no arguments"),
    ],
)
def test_options_that_are_wrong(options: Any, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        trajectory_exact_match([], [], **options)


@pytest.mark.parametrize(
    ("predicted", "message"),
    [
        (None, r"predicted_trajectory: got null; expected a list of calls"),
        ({"tool_name": "a"}, "got an object"),
        ("[", "no JSON"),
        ('"a"', "got a text"),
        ([{"tool_input": ""}], r"predicted_trajectory\[0\]: 'tool_name' must be a text"),
        ([call(), 7], r"predicted_trajectory\[1\]: got a number"),
        ([call(), [call(), {"name": "x"}]], r"\[1\]\[1\]: 'tool_name'.*'name'"),
        ([call()] * 10_001, "more than 10,000 calls"),
    ],
)
def test_what_is_no_trajectory(predicted: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        trajectory_precision(predicted, [])


def test_steps_that_are_too_wide() -> None:
    """A step of the reference is bounded, one that was made is not."""
    wide = [[call(x=n) for n in range(65)]]
    with pytest.raises(DataError, match="65 calls side by side; at most 64"):
        trajectory_precision([], wide)
    assert trajectory_in_order_match(wide, wide[0][::-1]) == 1


def test_large_assignments_are_refused_with_the_limit() -> None:
    many = [call(x=n, y=n) for n in range(800)]
    assert trajectory_recall(many, many[::-1]) == 1  # by keys alone
    with pytest.raises(DataError, match="more than 500,000 comparisons"):
        trajectory_recall(many, many[::-1], arguments="superset")
    with pytest.raises(DataError, match="at most 10,000,000"):
        trajectory_recall(many, many[::-1], partial_credit=True)


@pytest.mark.parametrize(("empty", "score"), [("score", 0.0), ("skip", None)])
def test_policies_for_nothing(empty: Any, score: float | None) -> None:
    found = compare_trajectories([], [call()], empty=empty)
    assert found.score("trajectory_precision") == score


@pytest.mark.pace
def test_a_thousand_pairs_of_twenty_calls() -> None:
    """About half a second; the bound leaves room for a slow machine."""
    drawn = random.Random(0)

    def some() -> list[dict[str, Any]]:
        return [
            call(f"tool_{drawn.randrange(6)}", q=f"text {drawn.randrange(4)}", n=drawn.randrange(3))
            for _ in range(20)
        ]

    pairs = [(some(), some()) for _ in range(1000)]
    began = time.process_time()
    for pair in pairs:
        trajectory_precision(*pair)
    assert time.process_time() - began < 3
