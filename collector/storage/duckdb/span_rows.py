"""The spans of one commit: which of them are new or better, and their rows by column."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from collector.storage.duckdb.arrow import Schema
from collector.storage.log.span_codec import EncodedBatch, Preference
from collector.store.rows import TraceKey
from scouter.model.span import Span

SpanKey = tuple[str, str, str]
"""Space, trace id, span id."""


@dataclass(slots=True, kw_only=True)
class _Part:
    """A batch, and which of its spans have no row."""

    space: str
    received_ns: int
    frame: int
    batch: EncodedBatch
    dropped: set[int] = field(default_factory=set[int])


class AddedSpans(NamedTuple):
    """Spans of a batch that are stored, and their numbers."""

    stored: Sequence[Span]
    """Spans that are new, or better than the stored version."""
    stored_bytes: int
    new: int
    """Spans of which there was no version before."""


class RowsOfBatch(NamedTuple):
    """The rows that a batch adds to the table of spans."""

    space: str
    received_ns: int
    frame: int
    columns: Mapping[str, Sequence[Any]]
    """All columns but these three and the commit's number."""


class SpanRows:
    """Collects batches; of each span the best version gets a row."""

    def __init__(self) -> None:
        self.known: dict[TraceKey, dict[str, Preference]] = {}
        """For every trace of the batches: its stored spans, and those added here."""
        self.replaced: list[SpanKey] = []
        """Stored spans that a better version follows."""
        self._parts: list[_Part] = []
        self._rows: dict[SpanKey, tuple[_Part, int]] = {}
        """Part and position of a span's row, for the parts up to `_indexed`."""
        self._indexed = 0

    def add(self, space: str, received_ns: int, frame: int, batch: EncodedBatch) -> AddedSpans:
        """Add every span of a batch of which no stored one is as good.

        Args:
            space: Their space.
            received_ns: Time of arrival, nanoseconds since the epoch.
            frame: Place of their request in the span log.
            batch: The spans; `known` has all of their traces.
        """
        part = _Part(space=space, received_ns=received_ns, frame=frame, batch=batch)
        spans, preferences = batch.spans, batch.preferences
        new = 0
        for trace_id, places in batch.traces.items():
            known = self.known[space, trace_id]
            if not known:
                known.update({span_id: preferences[at] for span_id, at in places.items()})
                new += len(places)
                continue
            for span_id, at in places.items():
                before = known.get(span_id)
                if before is None:
                    new += 1
                elif preferences[at] <= before:
                    part.dropped.add(at)
                    continue
                else:
                    self._replace(space, trace_id, span_id)
                known[span_id] = preferences[at]
        if batch.repeated:
            part.dropped.update(batch.repeated)
        self._parts.append(part)
        if not part.dropped:
            return AddedSpans(spans, sum([size for _, size, _ in preferences]), new)
        kept = [at for at in range(len(spans)) if at not in part.dropped]
        size = sum(preferences[at][1] for at in kept)
        return AddedSpans([spans[at] for at in kept], size, new)

    def _replace(self, space: str, trace_id: str, span_id: str) -> None:
        """Take a span out of this commit or of the store, for a better one."""
        for part in self._parts[self._indexed :]:
            for trace, places in part.batch.traces.items():
                for each, at in places.items():
                    if at not in part.dropped:
                        self._rows[part.space, trace, each] = part, at
        self._indexed = len(self._parts)
        key = (space, trace_id, span_id)
        found = self._rows.get(key)
        if found is None:
            self.replaced.append(key)
        else:
            found[0].dropped.add(found[1])

    def to_table(self, schema: Schema, seq: int) -> object | None:
        """The rows as an Arrow table; None if there are none.

        Args:
            schema: Of the table of spans.
            seq: Number of the commit.

        Raises:
            pyarrow.ArrowException, UnicodeEncodeError, OverflowError: A value does not fit.
        """
        columns: defaultdict[str, list[Any]] = defaultdict(list)
        for part in self.parts():
            rows = len(part.columns["span_id"])
            heads = (("seq", seq), ("space", part.space), ("received_ns", part.received_ns),
                     ("frame", part.frame))  # fmt: skip
            for name, value in heads:
                columns[name] += [value] * rows
            for name, values in part.columns.items():
                columns[name] += values
        return schema.to_table(columns) if columns else None

    def parts(self) -> Iterator[RowsOfBatch]:
        """The rows of each batch that has some."""
        for part in self._parts:
            batch, dropped = part.batch, part.dropped
            if len(batch.spans) == len(dropped):
                continue
            columns: Mapping[str, Sequence[Any]] = batch.columns
            if dropped:
                kept = [at for at in range(len(batch.spans)) if at not in dropped]
                columns = {name: [values[at] for at in kept] for name, values in columns.items()}
            yield RowsOfBatch(part.space, part.received_ns, part.frame, columns)
