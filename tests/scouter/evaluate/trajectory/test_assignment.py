"""Assignments against a search through all of them."""

import math
from collections.abc import Callable, Sequence
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.trajectory.matching import (
    fill_in_order,
    heaviest_matching,
    maximum_matching,
)

Edges = list[list[int]]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[Edges, int]:
    rights = draw(st.integers(0, 5))
    nodes = st.sampled_from(range(rights)) if rights else st.nothing()
    choices = st.lists(nodes, unique=True, max_size=rights)
    return draw(st.lists(choices, max_size=5)), rights


def most(edges: Edges, taken: frozenset[int] = frozenset()) -> int:
    """The size of the largest matching, by trying all."""
    if not edges:
        return 0
    placed = (1 + most(edges[1:], taken | {to}) for to in edges[0] if to not in taken)
    return max([most(edges[1:], taken), *placed])


@given(graphs())
def test_the_largest_matching(graph: tuple[Edges, int]) -> None:
    edges, _ = graph
    found = maximum_matching(edges)
    used = [to for to in found if to >= 0]
    assert all(to in edges[node] for node, to in enumerate(found) if to >= 0)
    assert len(used) == len(set(used)) == most(edges)


@st.composite
def stepped(draw: st.DrawFn) -> tuple[list[int], list[int], set[tuple[int, int]]]:
    """Steps of calls and of places, and which call fits which place."""
    called, expected = (sorted(draw(st.lists(st.integers(0, 3), max_size=most))) for most in (6, 5))
    pairs = [(call, place) for call in range(len(called)) for place in range(len(expected))]
    fits = draw(st.sets(st.sampled_from(pairs))) if pairs else set[tuple[int, int]]()
    return called, expected, fits


def can_be_filled(
    called: list[int],
    expected: list[int],
    fits: set[tuple[int, int]],
    place: int = 0,
    taken: frozenset[tuple[int, int]] = frozenset(),
) -> bool:
    """By trying all: no call of a step before one that an earlier place took."""
    if place == len(expected):
        return True
    earliest = max((called[c] for c, at in taken if expected[at] < expected[place]), default=-1)
    return any(
        (call, place) in fits
        and step >= earliest
        and all(call != other for other, _ in taken)
        and can_be_filled(called, expected, fits, place + 1, taken | {(call, place)})
        for call, step in enumerate(called)
    )


@given(stepped())
def test_steps_filled_in_order(case: tuple[list[int], list[int], set[tuple[int, int]]]) -> None:
    called, expected, fits = case
    looked = 0

    def groups(steps: list[int]) -> list[list[int]]:
        return [[at for at, each in enumerate(steps) if each == n] for n in sorted({*steps})]

    def choose(calls: Sequence[int]) -> Callable[[int], list[int]]:
        return lambda place: [call for call in calls if (call, place) in fits]

    def spend(choices: int) -> None:
        nonlocal looked
        looked += choices

    found = fill_in_order(groups(called), groups(expected), choose, spend)
    assert (found is not None) == can_be_filled(called, expected, fits)
    if found is not None:
        assert sorted(found) == [*range(len(expected))]
        assert len(set(found.values())) == len(found) <= looked
        assert all((call, place) in fits for place, call in found.items())
        for one, other in permutations(found, 2):
            if expected[one] < expected[other]:
                assert called[found[one]] <= called[found[other]]


weights = st.integers(0, 4).flatmap(
    lambda rights: st.lists(
        st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0]), min_size=rights, max_size=rights),
        max_size=4,
    )
)


@given(weights)
def test_the_heaviest_matching(rows: list[list[float]]) -> None:
    rights = len(rows[0]) if rows else 0
    found = heaviest_matching(len(rows), rights, lambda left, right: rows[left][right])
    assert len({left for left, _ in found}) == len({right for _, right in found}) == len(found)
    size = max(len(rows), rights)
    square = [[*row, *[0.0] * (size - rights)] for row in rows]
    square += [[0.0] * size for _ in range(size - len(rows))]
    best = max(
        math.fsum(square[row][column] for row, column in enumerate(order))
        for order in permutations(range(size))
    )
    assert math.fsum(rows[left][right] for left, right in found) == pytest.approx(best)


def test_a_greedy_choice_is_undone() -> None:
    """The first takes what the second needs; the first moves."""
    assert maximum_matching([[0, 1], [0]]) == [1, 0]
    assert maximum_matching([[0, 1], [0, 2], [0], [2]]).count(-1) == 1
