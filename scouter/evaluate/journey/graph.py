"""The order of goals: edges from each goal to those that come after it."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from graphlib import CycleError, TopologicalSorter
from typing import TypeAlias

Edges: TypeAlias = Mapping[str, Sequence[str]]


def find_cycle(edges: Edges) -> tuple[str, ...]:
    """Find goals that each have to come after the other.

    Returns:
        The goals of one cycle, the first one again at its end; empty if there is none.

    Cost: linear in goals and edges.
    """
    try:
        _sorter(edges, pairs(edges)).prepare()
    except CycleError as error:
        return tuple(error.args[1])
    return ()


def in_order(names: Sequence[str], edges: Edges) -> list[str]:
    """Sort goals so that each comes after those before it; else in the order that they have.

    Goals of a cycle come last.

    Cost: linear in goals and edges.
    """
    known = {*names}
    sorter = _sorter(names, (each for each in pairs(edges) if known.issuperset(each)))
    with suppress(CycleError):  # the goals outside of cycles come out all the same
        sorter.prepare()
    found: list[str] = []
    while ready := sorter.get_ready():
        found += ready
        sorter.done(*ready)
    return [*dict.fromkeys([*found, *names])]


def pairs(edges: Edges) -> list[tuple[str, str]]:
    """Every edge, as the goal that comes first and the one after it."""
    return [(parent, child) for parent, children in edges.items() for child in children]


def _sorter(names: Iterable[str], arrows: Iterable[tuple[str, str]]) -> TopologicalSorter[str]:
    sorter = TopologicalSorter(dict.fromkeys(names, ()))
    for parent, child in arrows:
        sorter.add(child, parent)
    return sorter
