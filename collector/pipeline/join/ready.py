"""The join's output: records whose wait is over."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from collector.pipeline.join.joined_trace import EarlyResult, Share, Waiting
from collector.store.rows import Completeness
from collector.worker import ready as records
from collector.worker.ready import Need
from scouter.model.span import Span


class Seen(NamedTuple):
    """Facts about a trace at the moment when its records are let go."""

    spans: Sequence[Span] | None = ()
    span_count: int = 0
    completeness: Completeness = Completeness.COMPLETE
    missing_parents: int = 0


class Room:
    """Room for records that are decided together.

    Args:
        records: Number of records.
        context_bytes: Bytes of their contexts, where they were measured.
        spans: Spans of their traces that have to be read back.
    """

    __slots__ = ("_bytes", "_is_empty", "_records", "_spans")

    def __init__(self, records: int, context_bytes: int, spans: int) -> None:
        self._records, self._bytes, self._spans = records, context_bytes, spans
        self._is_empty = True

    def admits(self, records: int, context_bytes: int, spans: int) -> bool:
        """Take some room, if there is enough; the first to ask always gets it."""
        has_room = (
            records <= self._records and context_bytes <= self._bytes and spans <= self._spans
        )
        if has_room or self._is_empty:
            self._is_empty = False
            self._records -= records
            self._bytes -= context_bytes
            self._spans -= spans
            return True
        return False


@dataclass(slots=True, kw_only=True)
class Ready(records.Ready):
    """One of the old join, with what memory had of it."""

    spans: Sequence[Span] | None
    """The trace's spans in order of arrival; None if memory has let them go."""
    size_bytes: int = 0
    """Size of the context as JSON, where it was measured: of records that had to wait."""
    span_count: int = 0
    """Spans of the trace, in memory or not."""
    is_whole: bool = True
    """False if the context has to be read from the store."""
    is_reopened: bool = False
    """True if it has an evaluation already, which late spans have made doubtful."""
    share: Share = Share.NEW
    """The room in memory that it took."""
    early: EarlyResult | None = None
    """Result of its tasks on the trace, if they ran before memory let the spans go."""

    @classmethod
    def of(cls, waiting: Waiting, seen: Seen, waited_s: float) -> "Ready":
        """Make one of a record that leaves the join."""
        return cls(
            record=waiting.record,
            need=waiting.need,
            spans=seen.spans,
            span_count=seen.span_count,
            completeness=seen.completeness,
            missing_parents=seen.missing_parents,
            waited_s=waited_s,
            size_bytes=waiting.size_bytes,
            is_whole=waiting.is_whole,
            is_reopened=waiting.is_reopened,
            share=waiting.share,
            early=waiting.early,
        )

    @property
    def key(self) -> tuple[str, str]:
        """Space and uid."""
        return self.record.space, self.record.uid

    @property
    def needs_spans(self) -> bool:
        """True if its trace has to be read from the store."""
        return self.need is Need.TRACE and self.spans is None and self.early is None
