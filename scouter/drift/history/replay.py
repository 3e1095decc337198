"""Stored history, of a collector or of its data folder, taken as the live watcher takes it."""

from array import array
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.causes import Cause, Causes
from scouter.drift.series.group import Pace
from scouter.drift.series.observed import Observed, Yardstick, waits, yardsticks
from scouter.drift.series.reference import NOTHING, Stated, stated_by
from scouter.drift.series.series import Ancestor, Series, SeriesKey, Unit
from scouter.drift.series.series_set import SeriesSet
from scouter.drift.series.watch import Fall
from scouter.evaluate.statistics.explained import Origin


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownProfile:
    """One version of a profile."""

    alias: str
    digest: str
    stated: Stated
    """References that it states."""
    yardsticks: Mapping[str, Yardstick]
    waits: Mapping[tuple[str, str], int]
    """Numbers that it has watched, by task."""

    @staticmethod
    def of(alias: str, digest: str, profile: AgentEvalProfile | None) -> "KnownProfile":
        """Take what matters of a profile; None for one that this version cannot read."""
        if profile is None:
            return KnownProfile(alias=alias, digest=digest, stated=NOTHING, yardsticks={}, waits={})
        return KnownProfile(
            alias=alias, digest=digest, stated=stated_by(profile),
            yardsticks=yardsticks(profile.tasks),
            waits=waits(profile.tasks),
        )  # fmt: skip


class Mix(StrEnum):
    """Names that calls are counted by; of a route its traces."""

    TOOL = "tool"
    MODEL = "model"
    AGENT = "agent"
    ROUTE = "route"
    FINISH_REASON = "finish_reason"
    ERROR = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """The part of history that is read.

    Args:
        profile: Alias, name, uid or digest; None for all.
        since_ns: Results from then on; None for all.
        until_ns: Results before.
    """

    profile: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None


class History(Protocol):
    """See the module."""

    def profiles(self) -> Mapping[str, KnownProfile]:
        """Every version of every profile, by uid."""
        ...

    def results(self, period: Period) -> Iterator[Observed]:
        """First final results, in the order of completion."""
        ...

    def explain(self, key: SeriesKey, since_ns: int) -> Origin | None:
        """Origin of a series' change at a moment.

        Returns:
            None where too few results are stored on one side of the moment.
        """
        ...

    def calls(self, mix: Mix, since_ns: int | None, until_ns: int | None) -> Mapping[str, int]:
        """Calls of a time by name.

        Names are of tools, models, agents, routes, finish reasons or kinds of errors.
        """
        ...


_TICK_NS: Final = 10**9
"""Time is passed to quiet conversations so often, as the live watcher does."""
_EXAMPLES: Final = 3
_REMEMBERED: Final = 2_000
"""Units with a failure whose examples are known."""


class Units:
    """Outcomes of a series in their order, 36 bytes each."""

    __slots__ = ("_at_ns", "_created_ns", "_failed", "_outcomes", "_records")

    def __init__(self) -> None:
        self._outcomes, self._at_ns, self._created_ns = array("d"), array("q"), array("q")
        self._records, self._failed = array("l"), array("l")

    def append(self, unit: Unit) -> None:
        """Add the next one."""
        self._outcomes.append(unit.outcome)
        self._records.append(unit.records)
        self._failed.append(unit.failed)
        self._created_ns.append(unit.created_ns)
        # The order is that of creation; a unit counts as seen with the last of those before it.
        self._at_ns.append(max(unit.at_ns, self._at_ns[-1] if self._at_ns else 0))

    def __len__(self) -> int:
        return len(self._outcomes)

    def __getitem__(self, at: int) -> Unit:
        return Unit(*(column[at] for column in self._columns))

    def __iter__(self) -> Iterator[Unit]:
        return map(Unit, *self._columns)

    @property
    def _columns(self) -> "tuple[array[Any], ...]":
        return self._outcomes, self._records, self._failed, self._at_ns, self._created_ns

    def before(self, at_ns: int) -> int:
        """Count those before a time."""
        return bisect_left(self._at_ns, at_ns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alarm:
    """An alarm that the live watcher would have raised."""

    opened_ns: int
    unit: int
    """Number of the unit that proved it, from 0."""
    fall: Fall
    """As it was proven."""
    before: tuple[str, ...]
    """Evaluations that failed last before the fall, the newest first."""
    since: tuple[str, ...]
    """Evaluations that failed last when it was proven, the newest first."""
    resolved_ns: int | None = None
    """Time at which its end was proven; None where it was not."""


class Recorder(Series):
    """A series that keeps its outcomes and its alarms; its arguments are those of `Series`."""

    __slots__ = (
        "_failures",
        "_start_state",
        "alarms",
        "compared_from",
        "learnt_from",
        "units_taken",
    )

    def __init__(self, *given: Any) -> None:  # noqa: ANN401 whatever a series is made with
        super().__init__(*given)
        self.units_taken = Units()
        self.alarms: list[Alarm] = []
        self.compared_from: int | None = 0 if self.watches else None
        """Units before there was something to hold it against; None while there is nothing."""
        self.learnt_from: int | None = None if self.is_learning else 0
        """Units before it had learnt its own first ones; None while it learns."""
        self._start_state: dict[str, Any] = self.to_json()
        self._failures: deque[tuple[int, tuple[str, ...]]] = deque(maxlen=_REMEMBERED)

    def take(
        self,
        outcome: float,
        records: int,
        failed: int,
        at_ns: int,
        examples: Iterable[str] = (),
        created_ns: int | None = None,
    ) -> bool:
        """Take the outcome of the next unit; see `Series.take`."""
        named, created_ns = tuple(examples), at_ns if created_ns is None else created_ns
        turned = super().take(outcome, records, failed, at_ns, named, created_ns)
        self.units_taken.append(Unit(outcome, records, failed, at_ns, created_ns))
        if named:
            self._failures.append((at_ns, named))
        if self.compared_from is None and self.watches:
            self.compared_from = len(self.units_taken)
        if self.learnt_from is None and not self.is_learning:
            self.learnt_from = len(self.units_taken)
        if turned:
            self._turned(at_ns)
        return turned

    def prove(self) -> bool:
        """Note a fall that stands among all slices; see `Series.prove`."""
        turned = super().prove()
        if turned:
            self._turned(self.last_ns)
        return turned

    def adopt(self, before: Ancestor | None) -> bool:
        """Hold it against the version before; see `Series.adopt`."""
        started = self.anew()
        turned = super().adopt(before)
        if not self.is_learning:  # it is as if it had been compared with that from the begin
            started.adopt(before)
            self._start_state, self.compared_from, self.learnt_from = started.to_json(), 0, 0
        if turned:
            self._turned(self.last_ns)
        return turned

    def _turned(self, at_ns: int) -> None:
        fall, last = self.fall(), self.alarms[-1] if self.alarms else None
        is_open = last is not None and last.resolved_ns is None
        if fall is not None and not is_open:
            before = [e for at, named in self._failures if at < fall.since_ns for e in named]
            alarm = Alarm(
                opened_ns=at_ns, unit=len(self.units_taken) - 1, fall=fall,
                before=tuple(before[: -_EXAMPLES - 1 : -1]), since=self.examples,
            )  # fmt: skip
            self.alarms.append(alarm)
        elif last is not None and is_open:
            self.alarms[-1] = (
                replace(last, resolved_ns=at_ns)
                if fall is None
                else replace(last, fall=replace(last.fall, reference=fall.reference))
            )

    def anew(self) -> Series:
        """The series as it was before its first outcome, with the same references."""
        space, uid, agent = self.key[:3]
        return Series.from_json(space, uid, agent, self._start_state)


def replay(
    results: Iterable[Observed],
    *,
    alpha: float,
    pace: Pace,
    stated_of: Callable[[str, str], Stated],
    end_ns: int,
    progress: Callable[[int], None] = lambda count: None,
) -> tuple[list[Recorder], list[Cause]]:
    """Take stored results as the live watcher takes them.

    Args:
        results: In the order of completion.
        alpha: Of each series.
        pace: When a conversation is complete.
        stated_of: Tells what is stated about the tasks of a profile by space and uid.
        end_ns: Time at the end: conversations that are quiet by then are taken.
        progress: Gets now and then how many results were taken.

    Returns:
        Every series that had an outcome, in the order in which they began; and the alerts that
        people would have seen. An alert ends here by recovery alone.

    Cost: a few µs for each outcome; 28 bytes for each are stored.
    """
    found: list[Recorder] = []

    def make(*given: Any) -> Recorder:  # noqa: ANN401 whatever a series is made with
        found.append(Recorder(*given))
        return found[-1]

    series, causes = SeriesSet(alpha, pace, stated_of, make=make), Causes()
    count, decided_ns = 0, 0
    for count, each in enumerate(results, 1):
        if each.at_ns >= decided_ns + _TICK_NS:
            # It is not stored when others were decided: all wait for as long as it may take.
            series.decided({}, each.at_ns - pace.wait_ns)
            turns = [*series.advance(each.at_ns), *series.take(each)]
            decided_ns = each.at_ns
        else:
            turns = series.take(each)
        for turn in turns:
            causes.take(turn)
        if count % 1_000 == 0:
            progress(count)
    series.decided({})
    for turn in series.advance(end_ns):
        causes.take(turn)
    progress(count)
    return found, causes.found
