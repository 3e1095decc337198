"""Laws of every journey: more calls take nothing back, and the order of a file is none."""

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.journey.evaluate import evaluate_journey
from tests.support.journeys import calls

NAMES = ("a", "b", "c")
EDGES = [("a", "b"), ("a", "c"), ("b", "c")]

args = st.fixed_dictionaries({}, optional={"x": st.integers(0, 1), "y": st.integers(0, 1)})
lists = st.lists(st.tuples(st.sampled_from("tu"), args), max_size=5)
goals = st.tuples(*[st.tuples(st.sampled_from("tu"), args)] * 3)
edges = st.lists(st.sampled_from(EDGES), unique=True)


def dataset(wanted: Any, drawn: list[tuple[str, str]]) -> dict[str, Any]:
    return {
        "story": "s",
        "goals": {name: [after for first, after in drawn if first == name] for name in NAMES},
        "goal_details": [
            {"type": "tool_call", "name": name, "tool_name": tool, "args": given_args}
            for name, (tool, given_args) in zip(NAMES, wanted, strict=True)
        ],
    }


@given(goals, edges, lists)
def test_success_is_everything_in_order(wanted: Any, drawn: Any, made: Any) -> None:
    result = evaluate_journey(dataset(wanted, drawn), [calls(each) for each in made])
    is_all = result.completion == 1
    assert result.success is (is_all and not result.broken_edges)
    assert len([goal for goal in result.goals if goal.met]) == round(3 * (result.recall or 0))
    assert all(call.detail for call in result.wrong_calls)
    assert (result.recall == 1) is is_all
    if is_all:
        assert result.wrong_calls == () or (result.precision or 0) < 1


@given(goals, edges, lists, st.integers(0, 5), st.sampled_from([("v", {}), ("t", {"x": 0})]))
def test_one_more_call_takes_nothing_back(
    wanted: Any, drawn: Any, made: Any, at: int, more: Any
) -> None:
    before = evaluate_journey(dataset(wanted, drawn), [calls(each) for each in made])
    longer = [*made[:at], more, *made[at:]]
    after = evaluate_journey(dataset(wanted, drawn), [calls(each) for each in longer])
    assert (after.recall or 0) >= (before.recall or 0)
    assert after.success or not before.success
    if more[0] == "v":
        assert (after.precision or 0) <= (before.precision or 0)


@given(goals, edges, lists, st.randoms(use_true_random=False))
def test_the_order_of_the_file_is_none(
    wanted: Any, drawn: Any, made: Any, chance: random.Random
) -> None:
    first = dataset(wanted, drawn)
    second = {**first, "goal_details": chance.sample(first["goal_details"], 3)}
    messages = [calls(each) for each in made]
    left, right = evaluate_journey(first, messages), evaluate_journey(second, messages)
    for name in ("is_success", "tool_call_recall", "tool_call_precision", "journey_completion"):
        assert left.metrics[name] == right.metrics[name]
