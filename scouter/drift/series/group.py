"""Groups: all series of one version of an agent under one profile, with its open conversations.

The records of a conversation depend on each other: at five turns and an intraclass correlation of
one half, a detector that takes each for itself at 1 % alarms on 94 % of healthy streams. So the
mean of a conversation is one outcome, taken when it is quiet, or at its deadline.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from scouter.drift.series.observed import Observed
from scouter.drift.series.reference import NOTHING, Stated
from scouter.drift.series.series import Agent, Ancestor, Kind, Series, SeriesKey
from scouter.drift.series.watch import Fall

MOST_OPEN: Final = 10_000
"""Conversations that are open at a time; beyond, the one that is quiet for longest is taken."""

_Name = tuple[str, Kind]


class Pace(NamedTuple):
    """Times after which a conversation is complete."""

    quiet_ns: int
    """After so long without a result of it."""
    deadline_ns: int
    """After so long in any case."""


class Turn(NamedTuple):
    """A series has fallen, or recovered."""

    series: Series
    fall: Fall | None
    """As it was proven; None for a recovery."""


class _Session:
    """A conversation that goes on."""

    __slots__ = ("counts", "examples", "first_ns", "last_ns", "result_ns")

    def __init__(self, at_ns: int) -> None:
        self.first_ns = self.last_ns = at_ns
        self.result_ns = 0
        """Time of its last result itself, which is taken later."""
        self.counts: dict[_Name, tuple[float, int, int]] = {}
        """Sum of the outcomes, records and those of them that failed, by series."""
        self.examples: dict[_Name, str] = {}
        """The last evaluation that was not good."""


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
        self.series: dict[_Name, Series] = {}
        self._alpha, self._stated, self._run_length = alpha, stated, run_length
        self._sessions: dict[str, _Session] = {}
        """By digest of their id, in the order of their last results."""
        self._awaiting: set[_Name] = set()
        """Series for which the version before may become comparable."""

    @property
    def open_sessions(self) -> int:
        """Conversations that are not taken yet."""
        return len(self._sessions)

    @property
    def waiting(self) -> tuple[int, int]:
        """Conversations that are not taken yet, and series that await the version before."""
        return len(self._sessions), len(self._awaiting)

    def take(self, observed: Observed, now_ns: int, pace: Pace) -> Iterator[Turn]:
        """Take a result: into its conversation, or for itself.

        Args:
            observed: The result, which belongs to the group.
            now_ns: Time of the stream, which never goes back.
            pace: When a conversation is complete.

        Yields:
            Each series that fell or recovered.
        """
        yield from self.advance(now_ns, pace)
        at_ns = observed.at_ns
        self.first_ns = self.first_ns or at_ns
        self.last_ns = max(self.last_ns, at_ns)
        if not observed.session:
            for task, kind, outcome, is_failed in observed.counted():
                examples = () if outcome == 1 else (observed.evaluation_id,)
                yield from self._take_unit((task, kind), (outcome, 1, is_failed), at_ns, examples)
            return
        digest = blake2b(observed.session.encode(), digest_size=8).hexdigest()
        session = self._sessions.pop(digest, None) or _Session(now_ns)
        self._sessions[digest] = session
        session.last_ns, session.result_ns = now_ns, max(session.result_ns, at_ns)
        for task, kind, outcome, is_failed in observed.counted():
            total, count, failed = session.counts.get((task, kind), (0.0, 0, 0))
            session.counts[task, kind] = (total + outcome, count + 1, failed + is_failed)
            if outcome < 1:
                session.examples[task, kind] = observed.evaluation_id
        if now_ns >= session.first_ns + pace.deadline_ns:
            yield from self._close(digest)
        elif len(self._sessions) > MOST_OPEN:
            yield from self._close(next(iter(self._sessions)))

    def advance(self, now_ns: int, pace: Pace) -> Iterator[Turn]:
        """Take every conversation that is complete at this time of the stream."""
        if self._awaiting:
            yield from self._adopt()
        wait_ns = min(pace.quiet_ns, pace.deadline_ns)
        while self._sessions:
            digest, session = next(iter(self._sessions.items()))
            if now_ns < session.last_ns + wait_ns:
                return
            yield from self._close(digest)

    def set_back(self, now_ns: int) -> bool:
        """Follow a clock that was set back: no conversation began, or went on, after now.

        Returns:
            Whether any of them changed.
        """
        later = [each for each in self._sessions.values() if each.last_ns > now_ns]
        for each in later:
            each.first_ns, each.last_ns = min(each.first_ns, now_ns), now_ns
            each.result_ns = min(each.result_ns, now_ns)
        return bool(later)

    def _close(self, digest: str) -> Iterator[Turn]:
        session = self._sessions.pop(digest)
        for name, counts in session.counts.items():
            example = session.examples.get(name)
            examples = () if example is None else (example,)
            yield from self._take_unit(name, counts, session.result_ns, examples)

    def _take_unit(
        self,
        name: _Name,
        counts: tuple[float, int, int],
        at_ns: int,
        examples: tuple[str, ...],
    ) -> Iterator[Turn]:
        series = self.series.get(name)
        if series is None:
            series = self.series[name] = self._begin(name)
        total, count, failed = counts
        # Thirds add up to a hair more than 1.
        if series.take(min(1.0, total / count), count, failed, at_ns, examples):
            yield Turn(series, series.fall())

    def _begin(self, name: _Name) -> Series:
        task, kind = name
        key = SeriesKey(self.space, self.profile_uid, self.agent, task, kind)
        stated = self._stated.of_task(task) if kind is Kind.PASS else ()
        before = self._ancestor(name)
        awaits = before is None and self.before is not None
        if awaits:
            self._awaiting.add(name)
        return self._make(key, self._alpha, stated, before, self._run_length, awaits)

    def _adopt(self) -> Iterator[Turn]:
        """Hold series against the version before that became comparable after they began."""
        for name in list(self._awaiting):
            series, before = self.series[name], self._ancestor(name)
            if before is None and self.before is not None and series.awaits:
                continue
            self._awaiting.discard(name)
            if series.awaits and series.adopt(before):
                yield Turn(series, series.fall())

    def _ancestor(self, name: _Name) -> Ancestor | None:
        if self.before is None or name not in self.before.series:
            return None
        found = self.before.series[name].hand_on()
        is_named = found is not None and found.version == self._stated.version != ""
        return replace(found, is_named=True) if found is not None and is_named else found

    def restate(self, stated: Stated) -> bool:
        """Take what somebody states from now on; for series to come, and those that still learn.

        Returns:
            Whether it is something else.
        """
        if stated == self._stated:
            return False
        self._stated = stated
        for (task, kind), series in self.series.items():
            if kind is Kind.PASS:
                series.restate(stated.of_task(task))
        return True

    def to_json(self) -> dict[str, Any]:
        """The state, from which `from_json` goes on exactly."""
        return {
            "space": self.space, "profile_uid": self.profile_uid, "agent": self.agent,
            "number": self.number,
            "before": None if self.before is None else self.before.number,
            "first_ns": self.first_ns, "last_ns": self.last_ns,
            "alpha": self._alpha, "run_length": self._run_length, "stated": self._stated.to_json(),
            "series": [series.to_json() for series in self.series.values()],
            "sessions": [
                [
                    digest, each.first_ns, each.last_ns, each.result_ns,
                    [[*name, *counts] for name, counts in each.counts.items()],
                    [[*name, example] for name, example in each.examples.items()],
                ]
                for digest, each in self._sessions.items()
            ],
        }  # fmt: skip

    @staticmethod
    def from_json(state: dict[str, Any]) -> "Group":
        """Go on from a stored state; the group of the version before is for the caller to set."""
        space, profile_uid, agent = state["space"], state["profile_uid"], Agent(*state["agent"])
        stated, run_length = Stated.from_json(state["stated"]), state["run_length"]
        found = Group(space, profile_uid, agent, state["alpha"], stated, run_length=run_length)
        found.number = state["number"]
        found.first_ns, found.last_ns = state["first_ns"], state["last_ns"]
        for each in state["series"]:
            series = Series.from_json(space, profile_uid, agent, each)
            found.series[series.key.task, series.key.kind] = series
            if series.awaits:
                found._awaiting.add((series.key.task, series.key.kind))
        for digest, first_ns, last_ns, result_ns, counts, examples in state["sessions"]:
            session = found._sessions[digest] = _Session(first_ns)
            session.last_ns, session.result_ns = last_ns, result_ns
            session.counts = {
                (task, Kind(kind)): (total, count, failed)
                for task, kind, total, count, failed in counts
            }
            session.examples = {(task, Kind(kind)): example for task, kind, example in examples}
        return found
