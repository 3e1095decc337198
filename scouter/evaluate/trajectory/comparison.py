"""Two trajectories compared: scores, the lines that explain them, and the six metrics."""

import math
import struct
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property
from operator import eq
from typing import Final, Literal, TypeAlias, Unpack

from scouter.errors import DataError
from scouter.evaluate.operators.show import show
from scouter.evaluate.trajectory.call import Call, read_reference, read_trajectory
from scouter.evaluate.trajectory.matching import Matcher, Pair, out_of_order
from scouter.evaluate.trajectory.rules import (
    Compat,
    Empty,
    TrajectoryOptions,
    TrajectoryRules,
    rules_of,
)
from scouter.model.genai.names import is_called, known_as

_SHOWN: Final = 20
"""Lines of a difference that a text has."""

State: TypeAlias = Literal["matched", "moved", "changed", "missing", "extra"]
_SIGNS: Final[dict[State, str]] = {
    "matched": "=", "moved": ">", "changed": "~", "missing": "-", "extra": "+"
}  # fmt: skip


class TrajectoryMetric(StrEnum):
    """The metrics that hold a trajectory against a reference."""

    EXACT_MATCH = "trajectory_exact_match"
    IN_ORDER_MATCH = "trajectory_in_order_match"
    ANY_ORDER_MATCH = "trajectory_any_order_match"
    PRECISION = "trajectory_precision"
    RECALL = "trajectory_recall"


class EmptyTrajectoryError(DataError):
    """A trajectory is empty, and the rules give such a one no score."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiffLine:
    """One call of a comparison, or two that stand for each other.

    `matched` is as expected; `moved` is, but in another order; `changed` is a call of an expected
    tool with other arguments; `missing` was expected only, `extra` called only.
    """

    state: State
    called: Call | None
    expected: Call | None
    credit: float
    """Credit of the call in precision and recall, in [0, 1]."""
    arguments: tuple[str, ...] = ()
    """Arguments of a changed call that do not agree with the expected ones."""

    def __str__(self) -> str:
        call = self.called or self.expected
        assert call is not None  # noqa: S101 - a line has one of them
        text = f"{_SIGNS[self.state]} {call.name}({show(call.arguments)})"
        if self.state == "changed" and self.expected is not None:
            text += f", expected {show(self.expected.arguments)}"
            text += f" ({', '.join(self.arguments)})" if self.arguments else ""
        return text if self.state in ("matched", "changed") else f"{text} {self.state}"


@dataclass(frozen=True, kw_only=True)
class TrajectoryComparison:
    """A trajectory compared with a reference; made by `compare_trajectories`.

    Scores and lines are computed when they are first read.
    """

    predicted: tuple[Call, ...]
    reference: tuple[Call, ...]
    rules: TrajectoryRules
    _matcher: Matcher = field(repr=False, compare=False)

    @cached_property
    def _in_order(self) -> list[Pair] | None:
        return self._matcher.in_order() if len(self.reference) <= len(self.predicted) else None

    @cached_property
    def _most(self) -> list[Pair]:
        """Pairs of matched calls, as many as possible, and in order if they can be."""
        if self.rules.compat == "agentevals-0.0.9":
            return self._matcher.greedy()
        return self._in_order or self._matcher.most()

    @cached_property
    def _credited(self) -> list[tuple[int, int, float]]:
        """Pairs that count, each with what it counts."""
        if self.rules.partial_credit and not self._in_order:
            return self._matcher.heaviest()
        return [(called, expected, 1.0) for called, expected in self._most]

    @property
    def matched(self) -> float:
        """Calls that were made and expected, each counted once; with partial credit, its sum."""
        return sum(credit for *_, credit in self._credited)

    def score(self, metric: TrajectoryMetric | str) -> float | None:
        """Compute one metric.

        Args:
            metric: One of `TrajectoryMetric`.

        Returns:
            A number in [0, 1]; 0 or 1 for the matches. None where a trajectory is empty and the
            rules say `skip`.

        Raises:
            EmptyTrajectoryError: A trajectory is empty, and the rules say `error`.
            DataError: The trajectories are too long to be compared by these rules.
            ValueError: No such metric.
        """
        metric = TrajectoryMetric(metric)
        if self.rules.empty != "score" and not (self.predicted and self.reference):
            if self.rules.empty == "skip":
                return None
            raise EmptyTrajectoryError(_empty(self.predicted))
        return self._rounded(self._value(metric))

    def _value(self, metric: TrajectoryMetric) -> float:
        match metric:
            case TrajectoryMetric.EXACT_MATCH:
                same = len(self.predicted) == len(self.reference)
                return float(same and self._in_order is not None)
            case TrajectoryMetric.IN_ORDER_MATCH:
                return float(self._in_order is not None)
            case TrajectoryMetric.ANY_ORDER_MATCH:
                return float(len(self._most) == len(self.reference))
            case TrajectoryMetric.PRECISION:
                return self._part(len(self.predicted), len(self.reference))
            case TrajectoryMetric.RECALL:
                return self._part(len(self.reference), 0)

    def _part(self, whole: int, other: int) -> float:
        """Share of matched calls; for no calls 1 if none were wanted, else 0."""
        return self.matched / whole if whole else float(not other)

    def _rounded(self, value: float) -> float:
        if self.rules.compat == "vertex":
            (value,) = struct.unpack("f", struct.pack("f", value))
        return value

    @cached_property
    def lines(self) -> tuple[DiffLine, ...]:
        """One line for each call, in the order in which they were made; missing ones at the end.

        The credits add up to `matched`. Nothing is missing where recall is 1, nothing is extra
        where precision is 1, and something is moved where all calls are there but not in order.
        """
        pairs = [pair[:2] for pair in self._credited]
        moved = out_of_order(pairs, self.predicted, self.reference)
        found = {called: (expected, credit) for called, expected, credit in self._credited}
        taken = {expected for _, expected, _ in self._credited}
        free: dict[str, list[int]] = {}
        for place, call in reversed(tuple(enumerate(self.reference))):
            if place not in taken:
                free.setdefault(call.name, []).append(place)
        lines: list[DiffLine] = []
        for place, call in enumerate(self.predicted):
            if place in found:
                expected, credit = found[place]
                state: State = "moved" if (place, expected) in moved else "matched"
                lines.append(
                    self._line(state if credit == 1 else "changed", place, expected, credit)
                )
            elif free.get(call.name):
                lines.append(self._line("changed", place, free[call.name].pop(), 0.0))
            else:
                lines.append(DiffLine(state="extra", called=call, expected=None, credit=0.0))
        for place in sorted(place for places in free.values() for place in places):
            call = self.reference[place]
            lines.append(DiffLine(state="missing", called=None, expected=call, credit=0.0))
        return tuple(lines)

    def _line(self, state: State, place: int, expected: int, credit: float) -> DiffLine:
        wrong: list[str] = []
        if state == "changed":
            agreements = self._matcher.agreements(place, expected)
            wrong = [name for name, agrees in agreements.items() if not agrees]
        return DiffLine(
            state=state,
            called=self.predicted[place],
            expected=self.reference[expected],
            credit=credit,
            arguments=tuple(wrong),
        )

    def explain(self, most: int = _SHOWN) -> str:
        """Say in a few lines how the calls differ.

        Args:
            most: Differences that are named; of others their number.
        """
        head = (
            f"{self.matched:g} of {len(self.predicted)} calls were expected, "
            f"{self.matched:g} of {len(self.reference)} expected calls were made"
        )
        differences = [str(line) for line in self.lines if line.state != "matched"]
        rest = len(differences) - most
        return "\n".join([head, *differences[:most], *([f"… and {rest} more"] if rest > 0 else [])])


def compare_trajectories(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> TrajectoryComparison:
    """Hold the calls that an agent made against those that were expected.

    Args:
        predicted: A list of `{"tool_name": …, "tool_input": {…}}`, its JSON text, or `ToolCall`s.
        reference: The same. In both, a list among the calls is a step, whose calls may come in any
            order.
        **options: Fields of `TrajectoryRules`.

    Raises:
        DataError: Not trajectories, or more than 10,000 calls; names the place.
        pydantic.ValidationError: An option is wrong.

    Cost: linear in the calls where arguments are compared exactly; else, for each tool, the number
        of its calls times the number of those expected, and the square root of their sum more.
    """
    return compare(predicted, reference, rules_of(options))


def compare(predicted: object, reference: object, rules: TrajectoryRules) -> TrajectoryComparison:
    """Hold a trajectory against a reference by rules that are read already."""
    is_wire = rules.compat == "vertex"
    called = read_trajectory(predicted, "predicted_trajectory", is_wire=is_wire)
    expected = read_reference(reference, "reference_trajectory", is_wire=is_wire)
    if not is_wire:  # Vertex's client knows nothing of what frameworks add to a name
        names = {call.name for call in expected}
        called = tuple(replace(call, name=known_as(call.name, names)) for call in called)
    return TrajectoryComparison(
        predicted=called,
        reference=expected,
        rules=rules,
        _matcher=Matcher(called, expected, rules),
    )


def uses_tool(predicted: object, tool_name: str, rules: TrajectoryRules) -> float | None:
    """Tell whether a tool was called; see `trajectory_single_tool_use`."""
    is_wire = rules.compat == "vertex"
    calls = read_trajectory(predicted, "predicted_trajectory", is_wire=is_wire)
    if not calls and rules.empty != "score":
        if rules.empty == "skip":
            return None
        raise EmptyTrajectoryError(_empty(calls))
    is_same = eq if is_wire else is_called
    return float(any(is_same(call.name, tool_name) for call in calls))


def _empty(predicted: tuple[Call, ...]) -> str:
    which = "reference_trajectory" if predicted else "predicted_trajectory"
    return f"{which} is empty; empty='score' gives such a trajectory the values of the formulas"


def trajectory_exact_match(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> float:
    """Tell whether the calls are those that were expected, all of them, in their order.

    Returns:
        1.0 or 0.0; 1.0 for two empty trajectories. NaN for an empty one with `empty="skip"`.

    Raises:
        DataError: Not a trajectory, too many calls, or an empty one with `empty="error"`.
    """
    return _score(TrajectoryMetric.EXACT_MATCH, predicted, reference, options)


def trajectory_in_order_match(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> float:
    """Tell whether all expected calls were made in their order; others may stand between them.

    Returns:
        1.0 or 0.0; 1.0 where nothing is expected. NaN for an empty one with `empty="skip"`.

    Raises:
        DataError: As `trajectory_exact_match`.
    """
    return _score(TrajectoryMetric.IN_ORDER_MATCH, predicted, reference, options)


def trajectory_any_order_match(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> float:
    """Tell whether all expected calls were made, in any order, and perhaps others.

    Returns:
        1.0 or 0.0; 1.0 where nothing is expected. NaN for an empty one with `empty="skip"`.

    Raises:
        DataError: As `trajectory_exact_match`.
    """
    return _score(TrajectoryMetric.ANY_ORDER_MATCH, predicted, reference, options)


def trajectory_precision(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> float:
    """Measure the part of the calls that were expected.

    Returns:
        Matched calls by calls made, in [0, 1]; with no call made, 1.0 if none was expected, else
        0.0. NaN for an empty one with `empty="skip"`.

    Raises:
        DataError: As `trajectory_exact_match`.
    """
    return _score(TrajectoryMetric.PRECISION, predicted, reference, options)


def trajectory_recall(
    predicted: object, reference: object, **options: Unpack[TrajectoryOptions]
) -> float:
    """Measure the part of the expected calls that were made.

    Returns:
        Matched calls by calls expected, in [0, 1]; 1.0 where nothing is expected. NaN for an
        empty one with `empty="skip"`.

    Raises:
        DataError: As `trajectory_exact_match`.
    """
    return _score(TrajectoryMetric.RECALL, predicted, reference, options)


def trajectory_single_tool_use(
    predicted: object, tool_name: str, *, empty: Empty = "score", compat: Compat = "sound"
) -> float:
    """Tell whether a tool was called; how often, when and with which arguments is of no matter.

    Args:
        predicted: The calls that the agent made.
        tool_name: The tool's name, as a whole.
        empty: As in `TrajectoryRules`.
        compat: As in `TrajectoryRules`.

    Returns:
        1.0 or 0.0. NaN for an empty trajectory with `empty="skip"`.

    Raises:
        DataError: Not a trajectory, too many calls, or an empty one with `empty="error"`.
    """
    options: TrajectoryOptions = {"compat": compat}
    if empty != "score":
        options["empty"] = empty
    return _number(uses_tool(predicted, tool_name, rules_of(options)))


def _score(
    metric: TrajectoryMetric, predicted: object, reference: object, options: TrajectoryOptions
) -> float:
    return _number(compare_trajectories(predicted, reference, **options).score(metric))


def _number(score: float | None) -> float:
    return math.nan if score is None else score
