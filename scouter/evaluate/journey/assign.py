"""Assignment of messages and calls to goals, so that as many goals as possible are met."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from scouter.evaluate.journey.graph import Edges, in_order, pairs
from scouter.evaluate.trajectory.assignment import Filling

Place: TypeAlias = tuple[int, int]
"""Index of a message in the journey, and index of a call among the calls of that message."""

MAX_STEPS: Final = 100_000
"""Most steps of the search for an assignment in which the order of the goals holds."""


def assign(
    candidates: Mapping[str, Sequence[Place]], shared: frozenset[str], edges: Edges
) -> tuple[dict[str, Place], bool]:
    """Assign places to goals.

    Args:
        candidates: By goal, the places that would meet it, in order.
        shared: Goals that may have the same place as another goal: texts.
        edges: For each goal, the goals that come after it.

    Returns:
        An assignment of all goals in which the order holds, if there is one; else one of as many
        goals as can be met. Earlier places are preferred. The second value is False if the search
        for an order was given up after `MAX_STEPS` steps.

    Cost: goals times candidates times goals, and the search; that takes one step a goal unless
        calls are alike.
    """
    goals = in_order([*candidates], edges)
    largest = _largest(goals, candidates, shared)
    if len(largest) < len(goals) or all(
        comes_after(largest[parent], largest[child], both_shared={parent, child} <= shared)
        for parent, child in pairs(edges)
        if parent in largest and child in largest
    ):
        return largest, True
    ordered, is_sure = _ordered(goals, candidates, shared, edges)
    return ordered or largest, is_sure


def _largest(
    goals: Sequence[str], candidates: Mapping[str, Sequence[Place]], shared: frozenset[str]
) -> dict[str, Place]:
    """A maximum matching: each goal takes a free place, or moves others along until one is."""
    filling = Filling(choices={goal: [*candidates[goal]] for goal in goals})
    filling.fill(goal for goal in goals if goal not in shared)
    said = {goal: candidates[goal][0] for goal in shared if candidates.get(goal)}
    return {**filling.call_of, **said}


def _ordered(
    goals: Sequence[str],
    candidates: Mapping[str, Sequence[Place]],
    shared: frozenset[str],
    edges: Edges,
) -> tuple[dict[str, Place] | None, bool]:
    """Search for an assignment of all goals in which each comes after those before it."""
    before: dict[str, list[str]] = {goal: [] for goal in goals}
    for parent, child in pairs(edges):
        if child in before and parent in before:
            before[child].append(parent)
    found: dict[str, Place] = {}
    taken: set[Place] = set()
    tried = [0] * len(goals)
    at, steps = 0, 0
    while at < len(goals):
        goal = goals[at]
        if goal in found:  # back again: what it had led nowhere
            taken.discard(found.pop(goal))
        steps += 1
        if steps > MAX_STEPS:
            return None, False
        parents = before[goal]
        is_cyclic = any(each not in found for each in parents)
        place = None
        while not is_cyclic and tried[at] < len(candidates[goal]):
            each = candidates[goal][tried[at]]
            tried[at] += 1
            is_free = goal in shared or each not in taken
            if is_free and all(
                comes_after(found[parent], each, both_shared={goal, parent} <= shared)
                for parent in parents
            ):
                place = each
                break
        if place is not None:
            found[goal] = place
            if goal not in shared:
                taken.add(place)
            at += 1
        elif at == 0:
            return None, True
        else:
            tried[at] = 0
            at -= 1
    return found, True


def comes_after(first: Place, second: Place, *, both_shared: bool = False) -> bool:
    """Tell whether a goal's place comes after that of the goal before it.

    One message may meet two texts, and then says them in order.
    """
    return first < second or (both_shared and first == second)
