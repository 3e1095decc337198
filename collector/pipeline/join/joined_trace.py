"""One trace in the join, with the records that wait for it."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from collector.pipeline.join.input_clock import Via
from collector.store.rows import RecordRow, TraceKey
from collector.worker.ready import Need
from collector.worker.trace_facts import CompleteFacts, TraceFacts
from scouter.evaluate.results.record_result import RecordResult
from scouter.model.otlp import LazyAttributes
from scouter.model.span import Resource, Span
from scouter.model.struct import struct

_FIXED_BYTES: Final = 200
"""Ids, times and names of a span."""


class Share(Enum):
    """The room in memory that a waiting record takes; see `Parked`."""

    NEW = "new"
    UNKNOWN = "unknown"
    """Nobody knows its profile."""
    STORED = "stored"
    """It was read back from the store."""
    WATCHED = "watched"
    """It is no record yet: one is derived from the trace once that is complete."""


def share_of(need: Need) -> Share:
    """The room of a record that was not read back from the store."""
    return Share.UNKNOWN if need is Need.PROFILE else Share.NEW


@struct
class EarlyResult:
    """Result of a record's tasks on a trace, made before memory let the spans go."""

    result: RecordResult
    resource: Resource
    """The process that emitted the record."""
    size_bytes: int
    """Approximate size in memory."""
    session_id: str = ""
    """The session of the record, as far as its trace was known."""


@dataclass(slots=True, kw_only=True)
class Waiting:
    """A record inside the join."""

    record: RecordRow
    need: Need
    arrived: float
    """In the time of its trace, once it is with one."""
    size_bytes: int = 0
    """Size of the context as JSON in bytes; 0 before it is measured."""
    held_bytes: int = 0
    """Bytes of the context that are in memory and counted."""
    share: Share = Share.NEW
    is_whole: bool = True
    is_reopened: bool = False
    due_since: float = 0.0
    """Time at which it was lined up, where it waits for no trace."""
    early: EarlyResult | None = None
    """Made of all spans that are known of the trace; another one takes it away."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaving:
    """A complete trace whose spans memory lets go, and the records that wait for it."""

    key: TraceKey
    spans: Sequence[Span]
    waiting: Sequence[Waiting]


NOT_WATCHED: Final[frozenset[str]] = frozenset()
"""One for all traces that nobody watches."""


class JoinedTrace:
    """One trace: its facts and spans, its waiting records, and the time of the next look at it."""

    __slots__ = (
        "brought_by", "due_bytes", "due_since", "facts", "is_loaded", "last_arrival", "last_span",
        "scheduled", "size_bytes", "spans", "stored_bytes", "to_load", "via", "waiting", "watched",
    )  # fmt: skip

    def __init__(self, now: float, *, is_loaded: bool) -> None:
        self.facts: TraceFacts | CompleteFacts = TraceFacts()
        self.is_loaded = is_loaded
        self.to_load = 0
        """Spans that the store is known to have, where they are not loaded."""
        self.spans: dict[str, Span] | None = {}
        self.size_bytes = 0.0
        """Size of the spans that are here, in bytes."""
        self.stored_bytes = 0.0
        """Size of all that is known of, in memory or not."""
        self.waiting: list[Waiting] = []
        self.watched: frozenset[str] = NOT_WATCHED
        """Aliases whose profiles were found to watch it."""
        self.last_arrival = self.last_span = now
        self.scheduled: float | None = None
        self.due_since: float | None = None
        """The time that has come, while it waits for the turn of its space."""
        self.due_bytes = 0.0
        """Its size when it was lined up."""
        self.brought_by = Via.UNKNOWN
        """BROKER if that brought anything of it, else DIRECT if a span came that way."""
        self.via = Via.UNKNOWN
        """The way whose clock gives all times above; see `Join._move`."""

    def take(self, span: Span) -> int:
        """Add a span, or a better version of one; returns by how many those in memory grew."""
        if isinstance(self.facts, CompleteFacts):
            # These facts cannot take one more span: all spans have to be read from the store.
            self.to_load = len(self.facts)
            self.facts, self.spans, self.is_loaded = TraceFacts(), {}, False
        self.facts.add(span)
        if self.spans is None:
            return 0
        before = len(self.spans)
        self.spans[span.span_id] = span
        return len(self.spans) - before

    def forget(self) -> None:
        """Know nothing of it: some of its spans were erased, and the others are in the store."""
        self.facts, self.spans, self.is_loaded = TraceFacts(), {}, False
        self.to_load, self.size_bytes = 0, 0.0

    def let_go(self) -> None:
        """Drop the spans; of a complete trace, which expects no other one, their ids too.

        While a broker lags, every trace that it brings waits until it is back, however many that
        are: then this is most of the memory.
        """
        self.spans = None
        if isinstance(self.facts, TraceFacts) and self.is_loaded and self.facts.is_complete:
            self.facts = self.facts.summary()

    def wants(self) -> Via:
        """The sources that its records have to wait for.

        A trace whose every process has said how many spans there are, and delivered them, has
        nothing left in a broker that nobody knows of.
        """
        facts = self.facts
        if self.brought_by is Via.UNKNOWN and facts.is_complete and not facts.is_foreign:
            return Via.DIRECT
        return self.brought_by


def rough_bytes(span: Span) -> int:
    """About what a span takes as it is stored.

    Cost: a look at one that was read from the store; others have their attributes written, some
    10 us for 3 kB.
    """
    attributes = span.attributes
    if isinstance(attributes, LazyAttributes) and attributes.span_bytes:
        return attributes.span_bytes
    return _FIXED_BYTES + len(repr((attributes, span.events, span.links)))
