"""The order of goals: edges from each goal to those that come after it."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

Edges: TypeAlias = Mapping[str, Sequence[str]]


def find_cycle(edges: Edges) -> tuple[str, ...]:
    """Find goals that each have to come after the other.

    Returns:
        The goals of one cycle, the first one again at its end; empty if there is none.

    Cost: linear in goals and edges.
    """
    done: set[str] = set()
    for start in edges:
        path: list[str] = []
        on_path: set[str] = set()
        stack = [(start, False)]
        while stack:
            goal, is_left = stack.pop()
            if is_left:
                done.add(goal)
                on_path.discard(path.pop())
            elif goal in on_path:
                return (*path[path.index(goal) :], goal)
            elif goal not in done:
                path.append(goal)
                on_path.add(goal)
                stack.append((goal, True))
                stack.extend((child, False) for child in reversed(edges.get(goal) or ()))
    return ()


def in_order(names: Sequence[str], edges: Edges) -> list[str]:
    """Sort goals so that each comes after those before it; else in the order that they have.

    Goals of a cycle come last.

    Cost: linear in goals and edges.
    """
    waiting = dict.fromkeys(names, 0)
    for parent, children in edges.items():
        for child in children:
            if parent in waiting and child in waiting:
                waiting[child] += 1
    found: list[str] = []
    ready = [name for name in names if not waiting[name]]
    while ready:
        name = ready.pop(0)
        found.append(name)
        for child in edges.get(name) or ():
            if child in waiting:
                waiting[child] -= 1
                if not waiting[child]:
                    ready.append(child)
    reached = {*found}
    return [*found, *(name for name in names if name not in reached)]


def pairs(edges: Edges) -> list[tuple[str, str]]:
    """Every edge, as the goal that comes first and the one after it."""
    return [(parent, child) for parent, children in edges.items() for child in children]
