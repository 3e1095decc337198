"""Parents as numbers: any of them, circles too, against walking up from each position."""

from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.spans.tree import (
    ancestors,
    children,
    cut_circles,
    depths,
    descendants,
    parents_of,
    top_down,
)

PARENTS = st.integers(0, 9).flatmap(
    lambda count: st.lists(st.integers(-1, max(count - 1, -1)), min_size=count, max_size=count)
)


def above(parents: list[int], at: int) -> list[int]:
    """All positions above one, nearest first; ends where a circle closes."""
    found: list[int] = []
    while parents[at] >= 0 and parents[at] not in found:
        at = parents[at]
        found.append(at)
    return found


def cut_one_by_one(parents: list[int]) -> list[int]:
    cut = list(parents)
    for at in range(len(cut)):
        if at in above(cut, at):
            cut[at] = -1
    return cut


def test_a_tail_that_comes_before_its_circle_leaves_the_cut_where_it_is() -> None:
    """0 hangs below 3; 1, 2 and 3 form the circle, so 1 becomes its root."""
    assert cut_circles([3, 3, 1, 2]) == [3, -1, 1, 2]


@given(PARENTS)
def test_the_first_of_each_circle_becomes_a_root(parents: list[int]) -> None:
    assert cut_circles(parents) == cut_one_by_one(parents)


@given(PARENTS)
def test_order_and_depths(parents: list[int]) -> None:
    forest = cut_one_by_one(parents)
    order = list(top_down(forest))
    assert sorted(order) == list(range(len(forest)))
    for at, parent in enumerate(forest):
        assert parent < 0 or order.index(parent) < order.index(at)
    assert depths(forest, order) == [len(above(forest, at)) for at in range(len(forest))]


@given(PARENTS, st.data())
def test_relations_of_any_set(parents: list[int], data: st.DataObject) -> None:
    forest = cut_one_by_one(parents)
    every = range(len(forest))
    mask = bytes(data.draw(st.lists(st.integers(0, 1), min_size=len(forest), max_size=len(forest))))
    order = top_down(forest)

    assert list(children(mask, forest)) == [forest[i] >= 0 and mask[forest[i]] for i in every]
    assert list(parents_of(mask, forest)) == [
        any(mask[j] and forest[j] == i for j in every) for i in every
    ]
    assert list(descendants(mask, forest, order)) == [
        any(mask[j] for j in above(forest, i)) for i in every
    ]
    assert list(ancestors(mask, forest, order)) == [
        any(mask[j] and i in above(forest, j) for j in every) for i in every
    ]
