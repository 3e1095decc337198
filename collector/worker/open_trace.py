"""One trace that something waits for: ids and counts, no spans; and how long it may wait."""

import heapq
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final, NamedTuple, Self

from collector.settings.model import CollectorSettings
from collector.store.rows import Completeness
from collector.worker.trace_facts import CompleteFacts, TraceFacts
from scouter.model.span import Span, struct


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinTimes:
    """Waiting times of the join, in seconds; see the settings of the same names."""

    settle_s: float = 0.5
    foreign_settle_s: float = 7.0
    quiet_s: float = 30.0
    deadline_s: float = 300.0
    late_window_s: float = 86_400.0
    session_quiet_s: float = 60.0
    session_deadline_s: float = 3600.0

    @classmethod
    def of(cls, settings: CollectorSettings) -> Self:
        """Take the times of a collector's settings."""
        return cls(**{name: getattr(settings, name) for name in cls.__dataclass_fields__})


class Via(Enum):
    """The way that spans of a trace come, and so whether its records wait for brokers."""

    DIRECT = "direct"
    """HTTP, gRPC, the same process: what exists and is not here, its sender still has."""
    BROKER = "broker"
    UNKNOWN = "unknown"
    """Nothing of the trace is here that would tell."""


class Paused(NamedTuple):
    """Seconds for which time has stood still since the worker began. They never become fewer."""

    broker_s: float = 0.0
    """For what comes by a broker."""
    unknown_s: float = 0.0
    """For traces of which nothing says how they come."""

    def of(self, via: Via) -> float:
        """The seconds for one way."""
        match via:
            case Via.DIRECT:
                return 0.0
            case Via.BROKER:
                return self.broker_s
            case Via.UNKNOWN:
                return self.unknown_s


class Needed:
    """Number of waiting things that need the rows of each commit, and the lowest of these."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self._heap: list[int] = []

    def __len__(self) -> int:
        return self._counts.total()

    def add(self, seq: int) -> None:
        """Something needs this commit and all that follow."""
        if not self._counts[seq]:
            heapq.heappush(self._heap, seq)
        self._counts[seq] += 1

    def remove(self, seq: int) -> None:
        """It does so no longer."""
        self._counts[seq] -= 1
        if not self._counts[seq]:
            del self._counts[seq]

    def lowest(self, default: int) -> int:
        """The lowest commit that is needed, unless the default is lower."""
        while self._heap and self._heap[0] not in self._counts:
            heapq.heappop(self._heap)
        return min(self._heap[0], default) if self._heap else default


_NOBODY: Final[frozenset[str]] = frozenset()


@struct
class Waiting:
    """A record that waits, by its key; its content is in the store."""

    space: str
    uid: str
    seq: int
    """The commit from which on the store has all that a restart needs to let it wait again."""
    arrived: float
    """The time at which it began to wait."""
    alias: str = ""
    """The alias of its profile, where that is known."""
    watched_by: str = ""
    """Uid of the profile for which it is to be derived from the trace; empty for accepted ones."""
    is_again: bool = False
    """True if it has an evaluation, which has not seen all spans of its trace."""
    size_bytes: int = 0
    """About how many bytes it has, as far as it was measured."""


@struct
class Decision:
    """The records of a trace that wait no longer, and why."""

    waiting: list[Waiting]
    completeness: Completeness
    missing_parents: int


class OpenTrace:
    """A trace in the join.

    Its facts are those of all its spans, or None where only the store knows them: then it is looked
    at as if it was complete, and what is read says whether it is.

    Args:
        now: The time.
        seq: The commit that opens it.
        is_new: True if the store has none of its spans from earlier commits.
        paused_s: For so long time has stood still for `Via.UNKNOWN`.
    """

    __slots__ = (
        "aliases", "brought_by", "due_since", "facts", "first_seq", "is_due", "is_foreign",
        "last_arrival", "last_seq", "last_span", "look_at", "opened_seq", "paused_s",
        "paused_via", "size_bytes", "waiting",
    )  # fmt: skip

    def __init__(self, now: float, seq: int, *, is_new: bool, paused_s: float = 0.0) -> None:
        self.facts: TraceFacts | CompleteFacts | None = TraceFacts() if is_new else None
        self.is_foreign = False
        self.first_seq = seq if is_new else 0
        """First commit with a span of it; 0 where only the store knows it."""
        self.opened_seq = self.last_seq = seq
        self.last_arrival = self.last_span = now
        self.waiting: list[Waiting] = []
        """In the order in which they came."""
        self.aliases = _NOBODY
        """Aliases whose profiles are known to watch it."""
        self.brought_by = Via.UNKNOWN
        """BROKER if that brought anything of it, else DIRECT if a span came that way."""
        self.paused_via, self.paused_s = Via.UNKNOWN, paused_s
        """For so long time had stood still, for what comes that way, up to the times above."""
        self.look_at: float | None = None
        """Time of its one valid place in the heap."""
        self.is_due = False
        """True while it waits for the turn of its space."""
        self.due_since = now
        """The time at which that began."""
        self.size_bytes = 0
        """Bytes of its spans, as far as they were measured."""

    def take(self, spans: Iterable[Span], seq: int, now: float, size_bytes: int) -> None:
        """Take note of spans that a commit stored."""
        self.last_seq = max(self.last_seq, seq)
        self.size_bytes += size_bytes
        self.last_arrival = self.last_span = now
        if isinstance(self.facts, TraceFacts):
            self._learn(spans, self.facts)
        else:  # what is known of a complete trace cannot take one more span
            self.facts = None

    def has_again(self, uid: str) -> bool:
        """Tell whether a record that has an evaluation waits for it."""
        return any(each.uid == uid and each.is_again for each in self.waiting)

    @property
    def via(self) -> Via:
        """The way that its spans come: whether its records wait for brokers.

        A trace whose every process has said how many spans there are, and delivered them, has
        nothing left in a broker that nobody knows of.
        """
        facts = self.facts
        if self.brought_by is Via.UNKNOWN and facts is not None:
            return Via.DIRECT if facts.is_complete and not self.is_foreign else Via.UNKNOWN
        return self.brought_by

    def stand_still(self, paused: Paused) -> float:
        """Move all times on by the seconds for which time stood still for it; returns these.

        Args:
            paused: Up to now. What was paused before it was known how its spans come has passed.
        """
        seconds = paused.of(self.paused_via) - self.paused_s
        self.paused_via = self.via
        self.paused_s = paused.of(self.paused_via)
        if seconds > 0:
            self.last_arrival += seconds
            self.last_span += seconds
            self.waiting = [replace(w, arrived=w.arrived + seconds) for w in self.waiting]
        return seconds

    def came(self, *, by_broker: bool, is_span: bool = False) -> None:
        """Take note of how something of it came."""
        if by_broker:
            self.brought_by = Via.BROKER
        elif is_span and self.brought_by is Via.UNKNOWN:
            self.brought_by = Via.DIRECT

    def next_look(self, times: JoinTimes) -> float:
        """Say when to look at it, if nothing comes before: never after it can be decided."""
        at = self.last_arrival + times.quiet_s
        if not self.waiting:
            return at
        expires = self.waiting[0].arrived + times.deadline_s
        if self.facts is None or self.facts.is_complete:
            at = min(at, self.last_span + self._settle_s(times))
        elif self.facts.has_gaps:
            return expires
        return min(at, expires)

    def is_quiet(self, times: JoinTimes, now: float) -> bool:
        """Say whether nothing more is expected of it."""
        return now >= self.last_arrival + times.quiet_s

    def decide(self, spans: Iterable[Span], times: JoinTimes, now: float) -> Decision:
        """Take out the records that wait no longer.

        Where spans are known to be missing, silence says nothing: only the deadline ends the wait.

        Args:
            spans: All that the store has.
            times: Waiting times.
            now: The time.
        """
        facts, waiting = self._learn(spans, TraceFacts()), self.waiting
        missing = facts.missing_parents
        is_settled = facts.is_complete and now >= self.last_span + self._settle_s(times)
        if is_settled or (self.is_quiet(times, now) and not facts.has_gaps):
            self.waiting = []
            why = Completeness.COMPLETE if facts.is_complete else Completeness.QUIET
            return Decision(waiting=waiting, completeness=why, missing_parents=missing)
        expired = [each for each in waiting if each.arrived + times.deadline_s <= now]
        self.waiting = [each for each in waiting if each.arrived + times.deadline_s > now]
        return Decision(
            waiting=expired, completeness=Completeness.DEADLINE, missing_parents=missing
        )

    def _learn(self, spans: Iterable[Span], facts: TraceFacts) -> TraceFacts:
        """Add spans to the facts of the others."""
        for span in spans:
            facts.add(span)
        self.is_foreign = facts.is_foreign
        self.facts = facts.summary() if facts.is_complete else facts
        return facts

    def _settle_s(self, times: JoinTimes) -> float:
        return times.foreign_settle_s if self.is_foreign else times.settle_s
