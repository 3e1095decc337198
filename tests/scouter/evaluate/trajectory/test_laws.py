"""Laws that hold for all trajectories."""

import itertools
import math
from collections.abc import Mapping
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.trajectory.comparison import (
    TrajectoryComparison,
    TrajectoryMetric,
    compare_trajectories,
    trajectory_precision,
    trajectory_recall,
    trajectory_single_tool_use,
)

Call = dict[str, Any]

values = st.sampled_from([0, 1, 1.0, True, "1", None, [1], {"k": 1}])
arguments = st.dictionaries(st.sampled_from("xy"), values, max_size=2)
calls: st.SearchStrategy[Call] = st.fixed_dictionaries(
    {"tool_name": st.sampled_from("ab"), "tool_input": arguments}
)
flat = st.lists(calls, max_size=5)
stepped: st.SearchStrategy[list[Any]] = st.lists(
    st.one_of(calls, st.lists(calls, min_size=1, max_size=3)), max_size=4
)
options = st.sampled_from(
    [
        {},
        {"arguments": "ignore"},
        {"arguments": "subset"},
        {"arguments": "superset"},
        {"arguments": {"keys": {"x": "optional"}}},
        {"arguments": {"mode": "ignore", "keys": {"x": "exact"}}},
        {"tools": {"a": "ignore"}},
        {"partial_credit": True},
        {"partial_credit": True, "arguments": "superset"},
    ]
)


def score(comparison: TrajectoryComparison, metric: TrajectoryMetric) -> float:
    found = comparison.score(metric)
    assert found is not None
    return found


@given(stepped, stepped, options)
def test_each_match_holds_the_next(
    predicted: list[Any], reference: list[Any], given_options: Mapping[str, Any]
) -> None:
    """Exact is in order, in order is in any order, and in any order recall is 1."""
    found = compare_trajectories(predicted, reference, **given_options)
    matches = [
        score(found, TrajectoryMetric.EXACT_MATCH),
        score(found, TrajectoryMetric.IN_ORDER_MATCH),
        score(found, TrajectoryMetric.ANY_ORDER_MATCH),
        float(score(found, TrajectoryMetric.RECALL) == 1),
    ]
    assert matches == sorted(matches)
    assert matches[2] == matches[3]
    assert score(found, TrajectoryMetric.EXACT_MATCH) <= score(found, TrajectoryMetric.PRECISION)
    assert 0 <= score(found, TrajectoryMetric.PRECISION) <= 1


@given(st.data(), flat, flat, options)
def test_the_order_is_of_no_matter_but_for_two(
    data: st.DataObject,
    predicted: list[Call],
    reference: list[Call],
    given_options: Mapping[str, Any],
) -> None:
    first = compare_trajectories(predicted, reference, **given_options)
    second = compare_trajectories(
        data.draw(st.permutations(predicted)),
        data.draw(st.permutations(reference)),
        **given_options,
    )
    for metric in (
        TrajectoryMetric.ANY_ORDER_MATCH, TrajectoryMetric.PRECISION, TrajectoryMetric.RECALL
    ):  # fmt: skip
        assert score(first, metric) == pytest.approx(score(second, metric))


@given(flat.filter(bool), flat.filter(bool), st.booleans())
def test_precision_is_recall_seen_from_the_other_side(
    left: list[Call], right: list[Call], partial: bool
) -> None:
    assert trajectory_precision(left, right, partial_credit=partial) == pytest.approx(
        trajectory_recall(right, left, partial_credit=partial)
    )


@given(stepped, stepped, options)
def test_the_lines_agree_with_the_scores(
    predicted: list[Any], reference: list[Any], given_options: Mapping[str, Any]
) -> None:
    found = compare_trajectories(predicted, reference, **given_options)
    states = [line.state for line in found.lines]
    assert sum(line.expected is not None for line in found.lines) == len(found.reference)
    assert sum(line.called is not None for line in found.lines) == len(found.predicted)
    credit = math.fsum(line.credit for line in found.lines)
    if predicted:
        precision = score(found, TrajectoryMetric.PRECISION)
        assert credit / len(found.predicted) == pytest.approx(precision)
    if reference:
        recall = score(found, TrajectoryMetric.RECALL)
        assert credit / len(found.reference) == pytest.approx(recall)
    whole = {"matched", "moved"}
    is_any_order = score(found, TrajectoryMetric.ANY_ORDER_MATCH) == 1
    if not given_options.get("partial_credit"):
        assert is_any_order == (sum(s in whole for s in states) == len(found.reference))
    in_order = is_any_order and "moved" not in states
    assert (score(found, TrajectoryMetric.IN_ORDER_MATCH) == 1) == in_order
    exact = in_order and set(states) <= {"matched"}
    assert (score(found, TrajectoryMetric.EXACT_MATCH) == 1) == exact
    assert all(line.credit == 1 for line in found.lines if line.state in whole)


@given(flat, stepped, st.sampled_from([{}, {"arguments": "superset"}]))
def test_in_order_is_some_order_of_the_steps(
    predicted: list[Call], reference: list[Any], given_options: Mapping[str, Any]
) -> None:
    """By trying all orders of the calls inside of steps."""
    steps: list[list[Call]] = [each if isinstance(each, list) else [each] for each in reference]
    orders = itertools.product(*map(itertools.permutations, steps))
    any_holds = any(
        score(
            compare_trajectories(predicted, [*itertools.chain(*order)], **given_options),
            TrajectoryMetric.IN_ORDER_MATCH,
        )
        for order in orders
    )
    found = compare_trajectories(predicted, reference, **given_options)
    assert score(found, TrajectoryMetric.IN_ORDER_MATCH) == any_holds


@given(st.data(), stepped, stepped, options)
def test_the_order_inside_a_step_is_of_no_matter(
    data: st.DataObject,
    predicted: list[Any],
    reference: list[Any],
    given_options: Mapping[str, Any],
) -> None:
    """On either side, for every metric; the lines say the same of the calls."""

    def shuffled(trajectory: list[Any]) -> list[Any]:
        return [
            data.draw(st.permutations(cast("list[Call]", each))) if isinstance(each, list) else each
            for each in trajectory
        ]

    first = compare_trajectories(predicted, reference, **given_options)
    second = compare_trajectories(shuffled(predicted), shuffled(reference), **given_options)
    for metric in TrajectoryMetric:
        assert score(first, metric) == pytest.approx(score(second, metric))
    if not given_options:
        states = [sorted(line.state for line in each.lines) for each in (first, second)]
        assert states[0] == states[1]


@given(st.lists(st.lists(st.just(0), min_size=1, max_size=3), min_size=2, max_size=4), st.data())
def test_the_order_between_steps_is(shape: list[list[int]], data: st.DataObject) -> None:
    """Of calls that are all different, only the order of their steps is in order."""
    names = iter(range(20))
    steps = [[{"tool_name": f"t{next(names)}"} for _ in step] for step in shape]
    order = data.draw(st.permutations(range(len(steps))))
    found = compare_trajectories([steps[at] for at in order], steps)
    assert score(found, TrajectoryMetric.IN_ORDER_MATCH) == float([*order] == sorted(order))
    assert score(found, TrajectoryMetric.ANY_ORDER_MATCH) == 1


@given(flat, st.sampled_from("ab"))
def test_a_tool_is_used_if_some_call_is_of_it(predicted: list[Call], tool: str) -> None:
    used = any(call["tool_name"] == tool for call in predicted)
    assert trajectory_single_tool_use(predicted, tool) == used
