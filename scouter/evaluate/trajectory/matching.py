"""Calls of two trajectories, matched one to one, and the assignments that match the most.

A greedy choice can leave over a call that another choice would place. A score would then depend on
the order of the reference. The algorithms are small enough to stand here; scipy, which has them,
weighs more than all of Scouter and would be needed for nothing else.
"""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from math import inf
from typing import Final, Generic, TypeAlias, TypeVar

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.trajectory.call import Call, read_trajectory
from scouter.evaluate.trajectory.rules import (
    Agreement,
    AgreesByPath,
    KeyOf,
    TrajectoryRules,
    agreement,
    json_key,
    python_key,
    wire_key,
)
from scouter.model.genai.work import agent_work
from scouter.model.span import Span

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
    row_of = [_FREE] * (rights + 1)  # the last is where a new row starts
    rows, columns = [0.0] * lefts, [0.0] * (rights + 1)
    for row in range(lefts):
        row_of[rights] = row
        _place(costs, row_of, rows, columns)
    pairs = [(left, right) for right, left in enumerate(row_of[:rights]) if left != _FREE]
    return sorted((left, right) for left, right in pairs if costs[left][right])


def _place(
    costs: Sequence[Sequence[float]], row_of: list[int], rows: list[float], columns: list[float]
) -> None:
    """Give the row that waits in the last column a column, by the cheapest way."""
    last = len(row_of) - 1
    least, before = [inf] * last, [last] * last
    done, at = [last], last
    open_columns = set(range(last))
    while row_of[at] != _FREE:
        row, delta, following = row_of[at], inf, last
        for column in open_columns:
            cost = costs[row][column] - rows[row] - columns[column]
            if cost < least[column]:
                least[column], before[column] = cost, at
            if least[column] < delta:
                delta, following = least[column], column
        for column in done:
            rows[row_of[column]] += delta
            columns[column] -= delta
        for column in open_columns:
            least[column] -= delta
        at = following
        open_columns.remove(at)
        done.append(at)
    while at != last:
        row_of[at] = row_of[before[at]]
        at = before[at]
    row_of[last] = _FREE


MAX_COMPARISONS: Final = 500_000
"""Most comparisons of two calls whose equality does not follow from equal keys."""
MAX_WEIGHING: Final = 10_000_000
"""Most work with partial credit: the sum of (smaller number of calls)² times the larger one."""

Pair: TypeAlias = tuple[int, int]
"""Places of a call in the predicted and in the reference trajectory."""

_KEYS: Final[dict[str, KeyOf]] = {
    "sound": json_key, "vertex": wire_key, "agentevals-0.0.9": python_key
}  # fmt: skip


@dataclass(slots=True, eq=False)
class Matcher:
    """Compares the calls of one pair of trajectories, each two at most once.

    Args:
        predicted: The calls that were made.
        reference: Those that were expected.
        rules: Rules of the comparison.
    """

    predicted: Sequence[Call]
    reference: Sequence[Call]
    rules: TrajectoryRules
    _agreements: dict[str, Agreement] = field(default_factory=dict[str, Agreement])
    _keys: dict[int, Hashable] = field(default_factory=dict[int, Hashable])
    _matches: dict[int, bool] = field(default_factory=dict[int, bool])
    _left: int = MAX_COMPARISONS

    @property
    def key_of(self) -> KeyOf:
        """Makes a key of arguments; those with the same key are equal."""
        return _KEYS[self.rules.compat]

    def key(self, call: Call) -> Hashable:
        """Name and arguments as one key."""
        found = self._keys.get(id(call))
        if found is None:
            found = self._keys[id(call)] = (call.name, self.key_of(call.arguments))
        return found

    def is_exact(self, tool: str) -> bool:
        """Tell whether equal keys say all of a tool's calls."""
        return self.rules.of(tool).are_exact

    def is_match(self, predicted: int, reference: int) -> bool:
        """Tell whether a call is one that was expected.

        Raises:
            DataError: More comparisons than `MAX_COMPARISONS`.
        """
        called, expected = self.predicted[predicted], self.reference[reference]
        if called.name != expected.name:
            return False
        if self.is_exact(called.name):
            return self.key(called) == self.key(expected)
        pair = predicted * len(self.reference) + reference
        found = self._matches.get(pair)
        if found is None:
            self._count()
            found = all(self.agreements(predicted, reference).values())
            self._matches[pair] = found
        return found

    def agreements(self, predicted: int, reference: int) -> AgreesByPath:
        """Compare the arguments of two calls of one tool: True for each that agrees."""
        called, expected = self.predicted[predicted], self.reference[reference]
        compare = self._agreements.get(called.name)
        if compare is None:
            rules = self.rules.of(called.name)
            compare = self._agreements[called.name] = agreement(rules, self.key_of)
        return compare(called.arguments, expected.arguments)

    def credit(self, predicted: int, reference: int) -> float:
        """The part of the arguments of two calls of one tool that agree, in [0, 1]."""
        self._count()
        agreements = self.agreements(predicted, reference)
        return sum(agreements.values()) / len(agreements) if agreements else 1.0

    def _count(self, comparisons: int = 1) -> None:
        self._left -= comparisons
        if self._left < 0:
            raise DataError(
                f"trajectories of {len(self.predicted):,} and {len(self.reference):,} calls: they "
                f"take more than {MAX_COMPARISONS:,} comparisons of two calls; compare shorter "
                "ones, or their arguments exactly"
            )

    def in_order(self) -> list[Pair] | None:
        """Find all expected calls in their order, others between them allowed.

        Calls of one step, made or expected, may come in any order.

        Returns:
            A pair for each expected call; None where they are not all there in this order.
        """
        found = fill_in_order(
            steps_of(self.predicted), list(steps_of(self.reference)), self._choose, self._spend
        )
        return None if found is None else [(found[at], at) for at in range(len(self.reference))]

    def _choose(self, calls: Sequence[int]) -> Choose:
        """Prepare to say which calls of a step fit a place."""
        if len(calls) == 1:
            return lambda place: calls if self.is_match(calls[0], place) else ()
        index: defaultdict[Hashable, list[int]] = defaultdict(list)
        for at in calls:
            index[self._group(self.predicted[at])].append(at)

        def choose(place: int) -> Sequence[int]:
            expected = self.reference[place]
            alike = index.get(self._group(expected), ())
            if self.is_exact(expected.name):
                return alike
            return [at for at in alike if self.is_match(at, place)]

        return choose

    def _group(self, call: Call) -> Hashable:
        """Give the key that a call shares with all calls that may match the same ones."""
        return self.key(call) if self.is_exact(call.name) else call.name

    def _spend(self, choices: int) -> None:
        if choices > 1:  # the first one did not fit
            self._count(choices)

    def most(self) -> list[Pair]:
        """Match as many calls as possible, in any order.

        Cost: linear where arguments are compared exactly; else, for each tool, the number of its
            calls times the number of those expected, and as much for each that has to move.
        """
        pairs: list[Pair] = []
        for tool, called, expected in self._by_tool():
            if self.is_exact(tool):
                pairs += self._equal(called, expected)
            else:
                edges = self._edges(called, expected)
                found = enumerate(maximum_matching(edges))
                pairs += ((called[n], expected[to]) for n, to in found if to >= 0)
        return sorted(pairs)

    def greedy(self) -> list[Pair]:
        """Give each expected call the first free one that fits it, as agentevals does."""
        pairs: list[Pair] = []
        free = dict.fromkeys(range(len(self.predicted)))
        for place in range(len(self.reference)):
            found = next((other for other in free if self.is_match(other, place)), None)
            if found is not None:
                del free[found]
                pairs.append((found, place))
        return sorted(pairs)

    def heaviest(self) -> list[tuple[int, int, float]]:
        """Pair calls of one tool so that the sum of their credits is largest.

        Raises:
            DataError: The calls are more than `MAX_WEIGHING` allows.
        """
        found: list[tuple[int, int, float]] = []
        work = 0
        for tool, called, expected in self._by_tool():
            less, more = sorted((len(called), len(expected)))
            work += less * less * more
            if work > MAX_WEIGHING:
                raise DataError(
                    f"{tool!r}: partial credit of {len(called):,} calls for {len(expected):,} "
                    f"expected ones brings the comparisons to {work:,}, at most "
                    f"{MAX_WEIGHING:,} are made"
                )
            credits = [[self.credit(left, right) for right in expected] for left in called]
            for left, right in heaviest_matching(
                len(called), len(expected), lambda a, b, credits=credits: credits[a][b]
            ):
                found.append((called[left], expected[right], credits[left][right]))
        return sorted(found)

    def _edges(self, called: Sequence[int], expected: Sequence[int]) -> list[list[int]]:
        return [
            [n for n, right in enumerate(expected) if self.is_match(left, right)] for left in called
        ]

    def _equal(self, called: Sequence[int], expected: Sequence[int]) -> Iterator[Pair]:
        waiting: defaultdict[Hashable, deque[int]] = defaultdict(deque)
        for place in expected:
            waiting[self.key(self.reference[place])].append(place)
        for place in called:
            found = waiting.get(self.key(self.predicted[place]))
            if found:
                yield place, found.popleft()

    def _by_tool(self) -> Iterator[tuple[str, list[int], list[int]]]:
        """Places of the calls of each tool that both trajectories have."""
        called: defaultdict[str, list[int]] = defaultdict(list)
        for place, call in enumerate(self.predicted):
            called[call.name].append(place)
        expected: defaultdict[str, list[int]] = defaultdict(list)
        for place, call in enumerate(self.reference):
            expected[call.name].append(place)
        for tool, places in called.items():
            if tool in expected:
                yield tool, places, expected[tool]


def steps_of(calls: Sequence[Call]) -> Iterator[Sequence[int]]:
    """Places of the calls of each step, in order."""
    places = range(len(calls))
    return (list(group) for _, group in groupby(places, key=lambda at: calls[at].step))


def out_of_order(
    pairs: Sequence[Pair], predicted: Sequence[Call], reference: Sequence[Call]
) -> set[Pair]:
    """Pick the fewest pairs whose removal leaves the others in the order of the reference.

    Args:
        pairs: Places of calls that stand for each other.
        predicted: The agent's calls, ordered by their steps; calls of one step have no order.
        reference: The expected calls, ordered in the same way.

    Cost: n log n.
    Source: longest non-decreasing subsequence by patience, Fredman 1975,
        doi:10.1016/0012-365X(75)90103-X.
    """
    pairs = sorted(pairs, key=lambda pair: (predicted[pair[0]].step, reference[pair[1]].step))
    ends: list[int] = []
    last: list[int] = []
    before: list[int] = []
    for number, (_, place) in enumerate(pairs):
        step = reference[place].step
        at = bisect_right(ends, step)
        before.append(last[at - 1] if at else -1)
        ends[at : at + 1], last[at : at + 1] = [step], [number]
    retained, number = set[int](), last[-1] if last else -1
    while number >= 0:
        retained.add(number)
        number = before[number]
    return {pair for number, pair in enumerate(pairs) if number not in retained}


def trajectory_from_spans(spans: Iterable[Span]) -> list[JsonValue]:
    """Read the calls that an agent made from the spans of its trace.

    A call that a model's message asks for and the span that executed it are one call.

    Args:
        spans: Of one trace, in any order.

    Returns:
        The calls as plain data, in the order in which they were made; one whose arguments nobody
        reported has none. Calls that one message requested, or that ran at the same time under one
        parent where no message did, stand in a list of their own, as a step.

    Raises:
        DataError: More than 10,000 calls.

    Cost: linear in the spans and the size of their messages, after sorting.
    """
    ordered = sorted(spans, key=lambda span: (span.start_ns, span.end_ns))
    calls = read_trajectory(agent_work(ordered).tool_calls, "the spans' calls")
    steps = [[calls[at].plain() for at in step] for step in steps_of(calls)]
    return [step[0] if len(step) == 1 else [*step] for step in steps]
