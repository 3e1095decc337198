"""Splitting long sequences."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.split import split


@pytest.mark.parametrize(
    ("sizes", "parts"),
    [
        ([], []),
        ([4, 4, 4], [[4, 4], [4]]),
        ([11, 1, 9, 1], [[11], [1, 9], [1]]),
    ],
)
def test_a_part_weighs_at_most_the_limit(sizes: list[int], parts: list[list[int]]) -> None:
    assert list(split(sizes, lambda size: (size,), (10,))) == parts


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))), st.tuples(*[st.integers(1, 20)] * 2)
)
def test_parts_are_as_long_as_they_may_be(
    items: list[tuple[int, int]], limits: tuple[int, int]
) -> None:
    """Nothing is lost, no part is too heavy that could be split, and each needs its end."""
    parts = list(split(items, lambda item: item, limits))
    assert [item for part in parts for item in part] == items

    def fits(part: list[tuple[int, int]]) -> bool:
        sums = [sum(weights) for weights in zip(*part, strict=True)]
        return all(total <= limit for total, limit in zip(sums, limits, strict=True))

    assert all(len(part) == 1 or fits(part) for part in parts)
    assert not any(fits([*part, after[0]]) for part, after in itertools.pairwise(parts))
