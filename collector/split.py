"""Long sequences in parts that fit into memory."""

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def split(
    items: Iterable[T], weigh: Callable[[T], tuple[int, ...]], limits: tuple[int, ...]
) -> Iterator[list[T]]:
    """Split items, in order, so that no part weighs more than a limit, or is of one item.

    Args:
        items: The items.
        weigh: Gives the weight of an item, by each of the measures that are limited.
        limits: The most that a part may weigh, by each of them.
    """
    part: list[T] = []
    total = (0,) * len(limits)
    for item in items:
        weights = weigh(item)
        sums = tuple(map(int.__add__, total, weights))
        if part and any(map(int.__gt__, sums, limits)):
            yield part
            part, sums = [], weights
        part.append(item)
        total = sums
    if part:
        yield part
