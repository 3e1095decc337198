"""Assignments of calls to each other that match as many as possible.

A greedy choice can leave over a call that another choice would place. A score would then depend on
the order of the reference. The algorithms are small enough to stand here; scipy, which has them,
weighs more than all of Scouter and would be needed for nothing else.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Final, Generic, TypeAlias, TypeVar

Edges: TypeAlias = Sequence[Sequence[int]]
"""Right nodes that each left node may be matched with."""
Choose: TypeAlias = Callable[[int], Sequence[int]]
"""Function from an expected place to the calls that fit it."""

P = TypeVar("P", bound=Hashable)
C = TypeVar("C", bound=Hashable)

_FREE: Final = -1


def maximum_matching(edges: Edges) -> list[int]:
    """Match as many left nodes as possible, each with one right node of its own.

    Args:
        edges: For each left node its possible right nodes; the first are preferred.

    Returns:
        For each left node its right node, or -1.

    Cost: linear where the first choices fit; else the edges, for each node that has to move.
    """
    filling = Filling[int, int](choices={node: [*each] for node, each in enumerate(edges)})
    filling.fill(range(len(edges)))
    return [filling.call_of.get(node, _FREE) for node in range(len(edges))]


def fill_in_order(
    called: Iterable[Sequence[int]],
    expected: Sequence[Sequence[int]],
    choose: Callable[[Sequence[int]], Choose],
    spend: Callable[[int], None],
) -> dict[int, int] | None:
    """Give each expected call one that was made, so that no step is filled before the one before.

    Calls of one step, on either side, have no order among each other. A step takes the first calls
    that fill it, and no more of them than it needs, so that most are left for the steps behind it.

    Args:
        called: The calls of each step that was made.
        expected: The places of each expected step.
        choose: For the calls of a step, which of them fit a place.
        spend: Is notified how many choices were looked at.

    Returns:
        By place its call; None where not all can be filled.

    Cost: linear where first choices fit; else, for each place, the choices of its step.
    """
    filling = Filling[int, int](spend=spend)
    at = 0
    for calls in called:
        choose_of = choose(calls)
        while at < len(expected):
            places = expected[at]
            if filling.offer(places, choose_of):
                filling.fill(places)
            if not filling.is_full(places):
                break
            at += 1
    return filling.call_of if at == len(expected) else None


@dataclass(slots=True, kw_only=True)
class Filling(Generic[P, C]):
    """Calls given to places, one each; a call moves to another place where that fills one more."""

    choices: dict[P, list[C]] = field(default_factory=dict[P, list[C]])
    """Calls that fit a place, by place, of the steps that came while it could be filled."""
    call_of: dict[P, C] = field(default_factory=dict[P, C])
    place_of: dict[C, P] = field(default_factory=dict[C, P])
    spend: Callable[[int], object] = int
    """Is notified how many choices were looked at."""
    hopeless: set[C] = field(default_factory=set[C])
    """Calls from which a search led to no free one, and so leads to none before the next offer."""

    def offer(self, places: Sequence[P], choose: Callable[[P], Sequence[C]]) -> bool:
        """Note which calls of a step fit; tells whether any does."""
        is_any = False
        for place in places:
            if found := choose(place):
                self.choices.setdefault(place, []).extend(found)
                self.hopeless.clear()
                is_any = True
        return is_any

    def fill(self, places: Iterable[P]) -> None:
        """Fill as many places as can be, moving calls where that helps."""
        for place in places:
            if place not in self.call_of:
                self._seat(place)

    def is_full(self, places: Sequence[P]) -> bool:
        """True if every place is filled."""
        return all(place in self.call_of for place in places)

    def _seat(self, place: P) -> None:
        """Find a free call for a place, perhaps by giving others another one."""
        wanted_by: dict[C, P] = {}
        waiting = [place]
        for wanting in waiting:  # grows meanwhile
            for call in self.choices.get(wanting, ()):
                if call in wanted_by or call in self.hopeless:
                    continue
                wanted_by[call] = wanting
                if call not in self.place_of:
                    self._turn(call, wanted_by, place)
                    self.spend(len(wanted_by))
                    return
                waiting.append(self.place_of[call])
        self.hopeless.update(wanted_by)
        self.spend(len(wanted_by))

    def _turn(self, call: C, wanted_by: Mapping[C, P], place: P) -> None:
        """Give each place on the way the call that it wants, back to where the way began."""
        at = wanted_by[call]
        while at != place:
            given_up = self.call_of[at]
            self.call_of[at], self.place_of[call] = call, at
            call, at = given_up, wanted_by[given_up]
        self.call_of[at], self.place_of[call] = call, at


def heaviest_matching(
    lefts: int, rights: int, weight: Callable[[int, int], float]
) -> list[tuple[int, int]]:
    """Pair left with right nodes so that the sum of the weights is largest.

    Args:
        lefts: Number of left nodes.
        rights: Number of right nodes.
        weight: From left and right node to a weight of 0 or more.

    Returns:
        Pairs of left and right node whose weight is not 0, ordered by the left one.

    Cost: the smaller number squared times the larger one.
    Source: Kuhn 1955 in the form with potentials, doi:10.1002/nav.3800020109.
    """
    if lefts > rights:
        turned = heaviest_matching(rights, lefts, lambda a, b: weight(b, a))
        return sorted((right, left) for left, right in turned)
    costs = [[-weight(left, right) for right in range(rights)] for left in range(lefts)]
    held = [_FREE] * (rights + 1)  # the last is where a new row starts
    rows, columns = [0.0] * lefts, [0.0] * (rights + 1)
    for row in range(lefts):
        held[rights] = row
        _place(costs, held, rows, columns)
    pairs = [(left, right) for right, left in enumerate(held[:rights]) if left != _FREE]
    return sorted((left, right) for left, right in pairs if costs[left][right])


def _place(
    costs: Sequence[Sequence[float]], held: list[int], rows: list[float], columns: list[float]
) -> None:
    """Give the row that waits in the last column a column, by the cheapest way."""
    last = len(held) - 1
    least, before = [inf] * last, [last] * last
    done, at = [last], last
    open_columns = set(range(last))
    while held[at] != _FREE:
        row, delta, following = held[at], inf, last
        for column in open_columns:
            cost = costs[row][column] - rows[row] - columns[column]
            if cost < least[column]:
                least[column], before[column] = cost, at
            if least[column] < delta:
                delta, following = least[column], column
        for column in done:
            rows[held[column]] += delta
            columns[column] -= delta
        for column in open_columns:
            least[column] -= delta
        at = following
        open_columns.remove(at)
        done.append(at)
    while at != last:
        held[at] = held[before[at]]
        at = before[at]
    held[last] = _FREE
