"""The conservation sheet: what came in, and what became of it."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordSheet:
    """Every accepted record in exactly one state; `accepted` is counted on its own."""

    accepted: int
    waiting: int
    evaluated: int
    skipped: int
    expired: int
    dead_lettered: int
    erased: int
    duplicates: int
    lost: int = 0
    """Accepted ones that were gone when somebody accepted that."""
    derived: int = 0
    """Part of `accepted`: records made of traces; no state of its own."""
    superseded: int = 0
    """Part of `erased`: derived records that a sender's record replaced; no state of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanSheet:
    """Counts of spans by what became of them; `accepted` is counted on its own."""

    accepted: int
    stored: int
    duplicates: int
    late: int
    dead_lettered: int
    expired: int = 0
    """Accepted ones that retention took out."""
    erased: int = 0
    """Accepted ones that somebody had erased."""
    lost: int = 0
    """Accepted ones that were gone: `accepted` is `stored` with all three of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EventSheet:
    """The fates of log events; `accepted` is counted on its own."""

    accepted: int
    stored: int
    spanless: int
    """Part of `stored`: events whose span is not stored."""
    duplicates: int
    dead_lettered: int
    expired: int = 0
    erased: int = 0
    lost: int = 0
    """As of spans: `accepted` is `stored` with all three of these."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conservation:
    """The sheet that shows that nothing vanished."""

    records: RecordSheet
    spans: SpanSheet
    events: EventSheet
    dead_letters: Mapping[str, int]
    """All dead letters by reason, those never accepted included."""
    has_uncounted_losses: bool = False
    """True once something was lost, of whatever space, and nobody knows how much."""

    def accepted(self, kind: str) -> int:
        """The number of a kind that were ever accepted."""
        by_kind = {"record": self.records, "span": self.spans, "event": self.events}
        return by_kind[kind].accepted
