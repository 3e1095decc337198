"""Parents of spans as numbers: a list of positions, -1 for no parent.

Nothing here recurses, so a chain of any length is read like any other tree.
"""

from collections.abc import Sequence
from itertools import count
from operator import lt


def cut_circles(parents: list[int]) -> list[int]:
    """Make a forest of what senders wrote.

    Spans that name each other as parents form a circle; the first of them loses its parent and
    becomes a root. A span that names itself is a circle of one.

    Args:
        parents: Position of each span's parent, -1 for none.

    Returns:
        The same list where nothing had to be cut.
    """
    if all(map(lt, parents, count())):  # parents come first everywhere: no circle is possible
        return parents
    cut = list(parents)
    state = bytearray(len(cut))  # 0 not seen, 1 on this walk, 2 done
    for start in range(len(cut)):
        walk: list[int] = []
        at = start
        while at >= 0 and not state[at]:
            state[at] = 1
            walk.append(at)
            at = cut[at]
        if at >= 0 and state[at] == 1:
            cut[min(walk[walk.index(at) :])] = -1
        for seen in walk:
            state[seen] = 2
    return cut


def top_down(parents: Sequence[int]) -> Sequence[int]:
    """Give all positions, each after its parent's.

    Args:
        parents: Without circles.
    """
    if all(map(lt, parents, count())):
        return range(len(parents))
    children: dict[int, list[int]] = {}
    for at, parent in enumerate(parents):
        children.setdefault(parent, []).append(at)
    order = list(children.get(-1, ()))
    for at in order:  # grows while it is read: level after level
        order.extend(children.get(at, ()))
    return order


def depths(parents: Sequence[int], order: Sequence[int]) -> list[int]:
    """Count the parents above each position; a root has 0.

    Args:
        parents: Without circles.
        order: From `top_down`.
    """
    found = [0] * len(parents)
    for at in order:
        parent = parents[at]
        if parent >= 0:
            found[at] = found[parent] + 1
    return found
