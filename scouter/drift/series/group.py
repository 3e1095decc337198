"""Groups: all series of one version of an agent under one profile, with its open conversations.

The records of a conversation depend on each other: at five turns and an intraclass correlation of
one half, a detector that takes each for itself at 1 % alarms on 94 % of healthy streams. So the
mean of a conversation is one outcome, known when it is quiet, or at its deadline.

Outcomes are taken in the order in which records, or the first ones of conversations, were created.
In the order of completion the first thousand are the quick ones: where failures take longer, each
pause of the traffic would alarm, as the slow ones come last.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from hashlib import blake2b
from heapq import heapify, heappop, heappush
from typing import Any, Final, NamedTuple, TypeAlias

from scouter.drift.detect.many import e_bh
from scouter.drift.series.limits import Limits
from scouter.drift.series.observed import BEFORE_ALL, Counted, Name, Observed, Place
from scouter.drift.series.reference import NOTHING, STATED, Standard, Stated
from scouter.drift.series.series import Agent, Ancestor, Kind, Series, SeriesKey
from scouter.drift.series.slices import MOST as MOST_SLICES
from scouter.drift.series.slices import Slices
from scouter.drift.series.watch import Fall

MOST_OPEN: Final = 10_000
"""Conversations that are open at a time; beyond, the one that is quiet for longest is taken."""
MOST_EARLY: Final = 10_000
"""Outcomes that wait for earlier ones; beyond, the one that was created first is taken."""
LONG: Final = 4
"""Times the mean length of conversations, after which an open one holds up no other. One chat that
never rests would else delay every alert by its deadline."""


_Unit: TypeAlias = tuple[Name, float, int, int, str]
"""A series, the sum of its outcomes, its records, those of them that failed, and an example."""


class Pace(NamedTuple):
    """Times after which a conversation is complete, and after which nothing waits for a record."""

    quiet_ns: int
    """After so long without a result of it."""
    deadline_ns: int
    """After so long in any case."""
    wait_ns: int = 300 * 10**9
    """Later records wait no longer for one that is not decided so long after it was created."""


class Turn(NamedTuple):
    """A series has fallen, or recovered; or a fall goes on that is not the time of day."""

    series: Series
    fall: Fall | None
    """As it was proven; None for a recovery."""
    units: int
    """Outcomes of the series up to then."""
    at_ns: int
    """Time of the last of them."""
    examples: tuple[str, ...]
    """Evaluations that had failed last by then, the newest first."""
    note: str
    """Why a fall that has ended was none; empty where it is one that has recovered."""

    @staticmethod
    def of(series: Series) -> "Turn":
        """Note a series as it has turned; it goes on meanwhile."""
        return Turn(
            series, series.fall(), series.units, series.last_ns, series.examples, series.explained
        )


class _Session:
    """A conversation that goes on."""

    __slots__ = (
        "counts", "created_ns", "examples", "first_ns", "holds_up", "is_past", "last_ns", "place",
        "result_ns",
    )  # fmt: skip

    def __init__(self, at_ns: int, created_ns: int, place: Place) -> None:
        self.first_ns = self.last_ns = at_ns
        self.created_ns, self.place = created_ns, place
        """Creation of its first record, and its first result."""
        self.result_ns = 0
        """Time of its last result itself, which is taken later."""
        self.holds_up = True
        """Outcomes that were created later wait for it."""
        self.is_past = False
        """It is of backfills."""
        self.counts: dict[Name, tuple[float, int, int]] = {}
        """Sum of the outcomes, records and those of them that failed, by series."""
        self.examples: dict[Name, str] = {}
        """The last evaluation that was not good."""

    def add(self, counted: Iterable[Counted], evaluation_id: str) -> None:
        """Count one result."""
        for each in counted:
            name, outcome = each.name, each.outcome
            total, count, failed = self.counts.get(name, (0.0, 0, 0))
            self.counts[name] = (total + outcome, count + 1, failed + each.is_failed)
            if outcome < 1:
                self.examples[name] = evaluation_id

    def units(self) -> tuple[_Unit, ...]:
        """Of each series what is counted of it."""
        return tuple(
            (name, *counts, self.examples.get(name, "")) for name, counts in self.counts.items()
        )


class _Early(NamedTuple):
    """Outcomes that wait for those of records that were created earlier."""

    created_ns: int
    place: Place
    """Of the first result in it, as several are created at one time."""
    at_ns: int
    units: tuple[_Unit, ...]


class _Scored(NamedTuple):
    """Scores of one conversation, or a single one, that wait for others of earlier things."""

    due_ns: int
    """Time at which all scores are here that count among those of its first one's time."""
    place: Place
    created_ns: int
    key: str


class Group:
    """See the module.

    Args:
        space: Of everything in it.
        profile_uid: Of the profile that evaluates.
        agent: The agent that is evaluated.
        alpha: Of each series.
        stated: References that somebody states for the tasks.
        before: The group of the version before, or of the one that is named, if there is one.
        number: Its place in the order in which groups began.
        run_length: See `Series`.
        make: Begins a series.
    """

    def __init__(
        self,
        space: str,
        profile_uid: str,
        agent: Agent,
        alpha: float,
        stated: Stated = NOTHING,
        before: "Group | None" = None,
        number: int = 0,
        run_length: float | None = None,
        make: Callable[..., Series] = Series,
    ) -> None:
        self._make = make
        self.space, self.profile_uid, self.agent = space, profile_uid, agent
        self.before, self.number = before, number
        self.first_ns = self.last_ns = 0
        self.series: dict[Name, Series] = {}
        self.slices = Slices(stated.slices, () if before is None else before.slices.started)
        self.limits = Limits(stated.amounts, None if before is None else before.limits)
        self._alpha, self._stated, self._run_length = alpha, stated, run_length
        self._sessions: dict[str, _Session] = {}
        """By digest of their id, in the order of their last results."""
        self._open: list[tuple[int, Place, str]] = []
        """Heap of creation, first result and digest of those that hold up others; also of some that
        are closed."""
        self._rested = (0, 0)
        """Conversations that came to rest, and the sum of their lengths in ns."""
        self._early: list[_Early] = []
        """Heap."""
        self._due: list[_Scored] = []
        """Heap of scores from outside."""
        self._scores: dict[str, _Session] = {}
        """What was said, by the keys in it."""
        self.fresh_ns: dict[Name, int] = {}
        """Of series that were started anew: scores of what was created up to then are left out."""
        self._awaiting: set[Name] = set()
        """Series for which the version before may become comparable."""

    @property
    def open_sessions(self) -> int:
        """Conversations that are not taken yet."""
        return len(self._sessions)

    @property
    def waiting(self) -> tuple[int, int, int, int]:
        """Open conversations, outcomes that wait for earlier ones, series that await a version.

        The last number is that of scores from outside that wait.
        """
        return len(self._sessions), len(self._early), len(self._awaiting), len(self._due)

    def take(
        self, observed: Observed, now_ns: int, pace: Pace, decided_ns: float = math.inf
    ) -> Iterator[Turn]:
        """Take a result: into its conversation, or for itself.

        Args:
            observed: The result, which belongs to the group.
            now_ns: Time of the stream, which never goes back.
            pace: When a conversation is complete.
            decided_ns: All records of the profile that were created before are decided.

        Yields:
            Each series that fell or recovered.
        """
        yield from self.advance(now_ns, pace, decided_ns)
        created_ns = min(observed.created_ns, observed.at_ns)  # a sender's clock may be ahead
        if observed.wait_ns is not None:
            self.first_ns = self.first_ns or observed.at_ns
            self.last_ns = max(self.last_ns, observed.at_ns)
            self._score(observed, created_ns, observed.wait_ns)
            yield from self._scored(now_ns)
            return
        slices: Iterable[str] = ()
        if not observed.is_backfill:
            self.first_ns = self.first_ns or observed.at_ns
            self.last_ns = max(self.last_ns, observed.at_ns)
            slices = self.slices.of(observed.traits) if observed.is_record else ()
        counted = [*observed.counted(slices), *self.limits.counted(observed.amounts)]
        if observed.session:
            self._join(observed, counted, created_ns, now_ns, pace)
        elif observed.is_backfill:
            for each in counted:
                self._take_past(each.name, each.outcome, 1, created_ns)
        else:
            units = tuple(
                (each.name, each.outcome, 1, int(each.is_failed),
                 "" if each.outcome == 1 else observed.evaluation_id)
                for each in counted
            )  # fmt: skip
            heappush(self._early, _Early(created_ns, observed.place, observed.at_ns, units))
        yield from self._in_order(now_ns, pace, decided_ns)

    def _join(
        self,
        observed: Observed,
        counted: Iterable[Counted],
        created_ns: int,
        now_ns: int,
        pace: Pace,
    ) -> None:
        """Take a result into its conversation; what came in its time is one, and backfills too."""
        person = b"past" if observed.is_backfill else b""
        digest = blake2b(observed.session.encode(), digest_size=8, person=person).hexdigest()
        session = self._sessions.pop(digest, None)
        if session is None:
            session = _Session(now_ns, created_ns, observed.place)
            session.is_past, session.holds_up = observed.is_backfill, not observed.is_backfill
            if session.holds_up:
                heappush(self._open, (created_ns, session.place, digest))
        elif created_ns < session.created_ns:
            session.created_ns = created_ns
            if session.holds_up:
                heappush(self._open, (created_ns, session.place, digest))
        self._sessions[digest] = session
        session.last_ns, session.result_ns = now_ns, max(session.result_ns, observed.at_ns)
        session.add(counted, observed.evaluation_id)
        if now_ns >= session.first_ns + pace.deadline_ns:
            self._close(digest)
        elif len(self._sessions) > MOST_OPEN:
            self._close(next(iter(self._sessions)))

    def advance(self, now_ns: int, pace: Pace, decided_ns: float = math.inf) -> Iterator[Turn]:
        """Take what is complete at this time of the stream, and waits for nothing earlier."""
        if self._awaiting:
            yield from self._adopt()
        wait_ns = min(pace.quiet_ns, pace.deadline_ns)
        while self._sessions:
            digest, session = next(iter(self._sessions.items()))
            if now_ns < session.last_ns + wait_ns:
                break
            is_rested = session.last_ns < session.first_ns + pace.deadline_ns
            if is_rested and not session.is_past:
                count, total_ns = self._rested
                self._rested = count + 1, total_ns + session.last_ns - session.first_ns
            self._close(digest)
        yield from self._in_order(now_ns, pace, decided_ns)
        yield from self._scored(now_ns)

    def _in_order(self, now_ns: int, pace: Pace, decided_ns: float) -> Iterator[Turn]:
        """Take outcomes before which nothing is open or undecided."""
        while self._early:
            first = self._early[0]
            is_early = first.created_ns >= decided_ns or first[:2] >= self._first_open(now_ns, pace)
            if is_early and len(self._early) <= MOST_EARLY:
                return
            heappop(self._early)
            for unit in first.units:
                yield from self._take_unit(unit, first.at_ns, first.created_ns)

    def _first_open(self, now_ns: int, pace: Pace) -> tuple[float, Place]:
        """Creation and first result of the first conversation that is open and holds up others."""
        while self._open:
            created_ns, place, digest = self._open[0]
            session = self._sessions.get(digest)
            if session is not None and (session.created_ns, session.place) == (created_ns, place):
                if now_ns < session.first_ns + self._hold_ns(pace):
                    return created_ns, place
                session.holds_up = False
            heappop(self._open)
        return math.inf, BEFORE_ALL

    def _hold_ns(self, pace: Pace) -> int:
        count, total_ns = self._rested
        if not count:
            return pace.deadline_ns
        return max(pace.wait_ns, LONG * total_ns // count)

    def set_back(self, now_ns: int) -> bool:
        """Follow a clock that was set back: no conversation began, or went on, after now.

        Returns:
            Whether any of them changed.
        """
        later = [each for each in self._sessions.values() if each.last_ns > now_ns]
        for each in later:
            each.first_ns, each.last_ns = min(each.first_ns, now_ns), now_ns
            each.result_ns = min(each.result_ns, now_ns)
            each.created_ns = min(each.created_ns, now_ns)
        if later:
            self._order_open()
        if any(each.created_ns > now_ns for each in self._early):
            later_too = [
                each._replace(created_ns=min(each.created_ns, now_ns)) for each in self._early
            ]
            heapify(later_too)
            self._early = later_too
            return True
        return bool(later)

    def _order_open(self) -> None:
        self._open = [
            (each.created_ns, each.place, digest)
            for digest, each in self._sessions.items()
            if each.holds_up
        ]
        heapify(self._open)

    def _close(self, digest: str) -> None:
        session = self._sessions.pop(digest)
        if session.is_past:
            for name, (total, count, _) in session.counts.items():
                self._take_past(name, min(1.0, total / count), count, session.created_ns)
            return
        early = _Early(session.created_ns, session.place, session.result_ns, session.units())
        heappush(self._early, early)

    def _score(self, observed: Observed, created_ns: int, wait_ns: int) -> None:
        """Let a score wait until all are here that are of things of its time.

        Those of a conversation that have come by then are one unit.
        """
        named = observed.session or "/".join(map(str, observed.place))
        key = blake2b(f"{named}\n{observed.outcomes[0][0]}".encode(), digest_size=8).hexdigest()
        scores = self._scores.get(key)
        if scores is None:
            scores = self._scores[key] = _Session(observed.at_ns, created_ns, observed.place)
            scored = _Scored(created_ns + wait_ns, observed.place, created_ns, key)
            heappush(self._due, scored)
        scores.result_ns = max(scores.result_ns, observed.at_ns)
        scores.add(observed.counted(), observed.evaluation_id)

    def _scored(self, now_ns: int) -> Iterator[Turn]:
        """Take the scores whose time has come, in the order of what they are about."""
        while self._due and (self._due[0].due_ns <= now_ns or len(self._due) > MOST_EARLY):
            first = heappop(self._due)
            scores = self._scores.pop(first.key)
            for unit in scores.units():
                if first.created_ns > self.fresh_ns.get(unit[0], 0):
                    yield from self._take_unit(unit, scores.result_ns, first.created_ns)

    def _take_past(self, name: Name, outcome: float, records: int, created_ns: int) -> None:
        """Let a series take a unit of backfills."""
        series = self.series.get(name) or self._begin(name)
        series.take_past(outcome, records, created_ns)

    def _take_unit(self, unit: _Unit, at_ns: int, created_ns: int) -> Iterator[Turn]:
        """Let a series take a unit, with the times of its result and of its creation."""
        name, total, count, failed, example = unit
        series = self.series.get(name) or self._begin(name)
        # Thirds add up to a hair more than 1.
        mean = min(1.0, total / count)
        examples = (example,) if example else ()
        if series.take(mean, count, failed, at_ns, examples, created_ns) or (
            name.slice and failed and self._stands(series) and series.prove()
        ):
            yield Turn.of(series)

    def _stands(self, series: Series) -> bool:
        """Tell whether the evidence of a slice that has not fallen stands among all slices.

        The line of each is that of the first one by e-BH. Of several that fell together each needs
        less.
        """
        if series.is_fallen or series.evidence * self._alpha < 1:
            return False
        rest = [each for name, each in self.series.items() if name.slice and each is not series]
        evidence = [each.evidence for each in (series, *rest)]
        return e_bh([*evidence, *[0.0] * (MOST_SLICES - len(evidence))], self._alpha)[0]

    def _begin(self, name: Name) -> Series:
        key = SeriesKey(self.space, self.profile_uid, self.agent, *name)
        stated = self._stated_of(name)
        alpha, run_length = self._alpha, self._run_length
        if name.slice:  # all of them share what one series has
            alpha /= MOST_SLICES
            run_length = run_length and run_length * MOST_SLICES
        before = self._ancestor(name)
        awaits = before is None and self.before is not None
        if awaits:
            self._awaiting.add(name)
        margin = 0.0 if name.kind is Kind.ERROR else self._stated.margin
        made = self._make(key, alpha, stated, before, run_length, awaits, margin)
        self.series[name] = made
        return made

    def _stated_of(self, name: Name) -> Sequence[Standard]:
        return () if name.slice else self._stated.of_series(name.task, name.kind)

    def _adopt(self) -> Iterator[Turn]:
        """Hold series against the version before that became comparable after they began."""
        for name in list(self._awaiting):
            series, before = self.series[name], self._ancestor(name)
            if before is None and self.before is not None and series.awaits:
                continue
            self._awaiting.discard(name)
            if series.awaits and series.adopt(before):
                yield Turn.of(series)

    def _ancestor(self, name: Name) -> Ancestor | None:
        if self.before is None or name not in self.before.series:
            return None
        found = self.before.series[name].hand_on()
        is_named = found is not None and found.version == self._stated.version != ""
        return replace(found, is_named=True) if found is not None and is_named else found

    def accept(self, name: Name) -> None:
        """Take what comes from now on for healthy in a series; see `Series.accept`.

        The limit of a cost or a duration is learnt anew, and gives its series another name.
        """
        self.series[name].accept()
        if name.kind is Kind.AMOUNT:
            self.limits.forget(name.task)
            self._remove(lambda each: each.task == name.task)

    def _remove(self, is_gone: Callable[[Name], bool]) -> None:
        """Remove series, and the outcomes that wait for them and would begin them again."""
        for name in [name for name in self.series if is_gone(name)]:
            del self.series[name]
            self._awaiting.discard(name)
        for session in self._sessions.values():
            for name in [name for name in session.counts if is_gone(name)]:
                del session.counts[name]
        self._early = [
            each._replace(units=tuple(unit for unit in each.units if not is_gone(unit[0])))
            for each in self._early
        ]
        heapify(self._early)

    def restate(self, stated: Stated) -> bool:
        """Take what somebody states from now on; for series to come, and those that still learn.

        Returns:
            Whether it is something else.
        """
        if stated == self._stated:
            return False
        self._stated = stated
        self.slices.restate(stated.slices)
        self.limits.wanted = stated.amounts
        self._remove(
            lambda name: (
                self.limits.is_over(name.task)
                or (name.slice != "" and name.slice not in self.slices.started)
            )
        )
        for name, series in self.series.items():
            if name.kind is not Kind.ERROR:
                series.restate(self._stated_of(name), stated.margin)
        return True

    def to_json(self) -> dict[str, Any]:
        """The state, from which `from_json` goes on exactly."""
        return {
            "space": self.space, "profile_uid": self.profile_uid, "agent": self.agent,
            "number": self.number,
            "before": None if self.before is None else self.before.number,
            "first_ns": self.first_ns, "last_ns": self.last_ns,
            "alpha": self._alpha, "run_length": self._run_length,
            "stated": STATED.dump_python(self._stated, mode="json"),
            "slices": self.slices.to_json(), "limits": self.limits.to_json(),
            "series": [series.to_json() for series in self.series.values()],
            "sessions": [
                [
                    digest, each.first_ns, each.last_ns, each.result_ns, each.is_past,
                    each.holds_up, each.created_ns, each.place,
                    list(each.counts.items()), list(each.examples.items()),
                ]
                for digest, each in self._sessions.items()
            ],
            "early": sorted(self._early), "rested": self._rested,
            "scores": [
                [
                    *each, scores.result_ns,
                    list(scores.counts.items()), list(scores.examples.items()),
                ]
                for each in sorted(self._due)
                for scores in (self._scores[each.key],)
            ],
            "fresh": list(self.fresh_ns.items()),
        }  # fmt: skip

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Group":
        """Go on from a stored state; the group of the version before is for the caller to set."""
        space, profile_uid, agent = state["space"], state["profile_uid"], Agent(*state["agent"])
        stated, run_length = STATED.validate_python(state["stated"]), state["run_length"]
        found = Group(space, profile_uid, agent, state["alpha"], stated, run_length=run_length)
        found.number = state["number"]
        found.first_ns, found.last_ns = state["first_ns"], state["last_ns"]
        found.slices = Slices.from_json(stated.slices, state["slices"])
        found.limits = Limits.from_json(stated.amounts, state["limits"])
        for each in state["series"]:
            series = Series.from_json(space, profile_uid, agent, each)
            found.series[name := _name(series.key[3:])] = series
            if series.awaits:
                found._awaiting.add(name)
        count, total_ns = state["rested"]
        found._rested = count, total_ns
        for digest, first_ns, last_ns, result_ns, *first, counts, examples in state["sessions"]:
            is_past, holds_up, created_ns, place = first
            session = found._sessions[digest] = _Session(first_ns, created_ns, Place(*place))
            session.last_ns, session.result_ns, session.holds_up = last_ns, result_ns, holds_up
            session.is_past = is_past
            session.counts = {
                _name(name): (total, count, failed) for name, (total, count, failed) in counts
            }
            session.examples = {_name(name): example for name, example in examples}
        found._order_open()
        for due_ns, place, created_ns, key, result_ns, counts, examples in state["scores"]:
            found._due.append(_Scored(due_ns, Place(*place), created_ns, key))
            scores = found._scores[key] = _Session(result_ns, created_ns, Place(*place))
            scores.result_ns = result_ns
            scores.counts = {_name(name): tuple(each) for name, each in counts}
            scores.examples = {_name(name): example for name, example in examples}
        found.fresh_ns = {_name(name): at_ns for name, at_ns in state["fresh"]}
        found._early = [
            _Early(created_ns, Place(*place), at_ns,
                   tuple((_name(name), *rest) for name, *rest in units))
            for created_ns, place, at_ns, units in state["early"]
        ]  # fmt: skip
        return found


def _name(parts: Sequence[str]) -> Name:
    task, kind, part = parts
    return Name(task, Kind(kind), part)
