"""The order of goals, checked as version 1.6.9 of the original does."""

from collections.abc import Sequence
from typing import Final

from scouter.evaluate.journey.graph import Edges

_END: Final = "dummy-goal"
"""Stands behind every goal that nothing comes after."""


def terminals(edges: Edges) -> set[str]:
    """Goals after which nothing comes."""
    parents = {goal for goal, after in edges.items() if after}
    seen = {*edges, *(child for after in edges.values() for child in after or ())}
    return seen - parents


def is_right_order(edges: Edges, order: Sequence[str], *, is_strict: bool = True) -> bool:
    """Tell whether goals come in an order in which every edge holds.

    Args:
        edges: For each goal, the goals that come after it.
        order: The goals as they were met.
        is_strict: Of a goal that comes more than once, look at the last place alone.
    """
    if not order:
        return False
    places: dict[str, list[int]] = {}
    for at, goal in enumerate(order):
        places[goal] = [at] if is_strict else [*places.get(goal, []), at]
    drawn = {goal: (*(after or ()),) for goal, after in edges.items()}
    for goal in terminals(edges):
        drawn[goal] = (_END,)
        places[_END] = [len(order)]
    return all(
        parent in places and child in places and min(places[parent]) < max(places[child])
        for parent, after in drawn.items()
        for child in after
    )
