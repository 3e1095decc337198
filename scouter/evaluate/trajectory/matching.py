"""Calls of two trajectories, matched one to one."""

from bisect import bisect_right
from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.trajectory.assignment import (
    Choose,
    fill_in_order,
    heaviest_matching,
    maximum_matching,
)
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
    key_of: KeyOf
    _agreements: dict[str, Agreement]
    _keys: dict[int, Hashable]
    _matches: dict[int, bool]
    _left: int = MAX_COMPARISONS

    @classmethod
    def of(
        cls, predicted: Sequence[Call], reference: Sequence[Call], rules: TrajectoryRules
    ) -> "Matcher":
        """Prepare the comparison."""
        return cls(predicted, reference, rules, _KEYS[rules.compat], {}, {}, {})

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
