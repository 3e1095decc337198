"""Assignments against a search through all of them."""

import math
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.trajectory.assignment import (
    Filling,
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
    edges, rights = graph
    found = maximum_matching(edges, rights)
    used = [to for to in found if to >= 0]
    assert all(to in edges[node] for node, to in enumerate(found) if to >= 0)
    assert len(used) == len(set(used)) == most(edges)


@given(graphs())
def test_filling_places_one_by_one(graph: tuple[Edges, int]) -> None:
    """After each node as many are placed as can be."""
    edges, rights = graph
    filling = Filling(rights)
    for node, choices in enumerate(edges):
        filling.add(node, choices)
        held = [each for each in filling.held if each >= 0]
        assert len(held) == len(set(held)) == most(edges[: node + 1])
        assert all(place in edges[n] for place, n in enumerate(filling.held) if n >= 0)


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
    assert maximum_matching([[0, 1], [0]], 2) == [1, 0]
    assert maximum_matching([[0, 1], [0, 2], [0], [2]], 3).count(-1) == 1
