"""What the pipeline reads from the store, as memory had no room for it."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from collector.pipeline.joined_trace import Leaving, Need
from collector.pipeline.judge import TraceView
from collector.pipeline.ready import Ready
from collector.split import split
from collector.storage.port import Store
from collector.storage.rows import EvaluationRow, RecordRow
from scouter.errors import TransientError
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.span import Span

RecordKey = tuple[str, str]
"""Space and uid."""

_RECORDS: Final = 1000
"""Records that are decided together."""
_BYTES: Final = 16 * 2**20
"""Contexts of them, where they were measured."""
_SPANS: Final = 2_000
"""Spans of their traces that memory has let go; they are read together."""
_TRACES: Final = 200
"""Traces that are asked for together."""

T = TypeVar("T")


class Insist(Protocol):
    """Tries something until it can be done."""

    def __call__(self, action: Callable[[], T], /) -> T:
        """Do it, and return what it returned."""
        ...


def parts_of(ready: Sequence[Ready]) -> Iterator[list[Ready]]:
    """Split what is ready so that a part's contexts and what is read for it fit into memory."""

    def weigh(each: Ready) -> tuple[int, int, int]:
        return 1, each.size_bytes, each.span_count if each.needs_spans else 0

    return split(ready, weigh, (_RECORDS, _BYTES, _SPANS))


def traces_of(span_counts: Mapping[str, int]) -> Iterator[list[str]]:
    """Split traces so that the spans of a part fit into memory, as far as is known."""
    return split(span_counts, lambda id: (1, span_counts[id]), (_TRACES, _SPANS))


class ReadBack:
    """Reads contexts, earlier verdicts and traces.

    Args:
        store: Where they are.
        insist: Waits for the store where nothing can be decided without it.
    """

    def __init__(self, store: Store, insist: Insist) -> None:
        self._store, self._insist = store, insist

    def contexts(self, leaves: Iterable[Leaving]) -> dict[RecordKey, RecordRow]:
        """Records that left memory without their contexts; some of them if they are large."""
        by_space: defaultdict[str, list[str]] = defaultdict(list)
        size = 0
        for waiting in [each for leaving in leaves for each in leaving.waiting]:
            if not waiting.is_whole and size + waiting.size_bytes <= _BYTES:
                size += waiting.size_bytes
                by_space[waiting.record.space].append(waiting.record.uid)
        found: dict[RecordKey, RecordRow] = {}
        for space, uids in by_space.items():
            try:
                rows = self._store.records_of(space, uids)
            except TransientError:  # then they are judged later, and their traces read once more
                continue
            found |= {(space, row.uid): row for row in rows}
        return found

    def earlier(self, part: Sequence[Ready]) -> dict[RecordKey, tuple[RecordRow, EvaluationRow]]:
        """The records that are judged again, each with its latest verdict.

        Raises:
            TransientError: The service ends; so do the others.
        """
        by_space: defaultdict[str, list[str]] = defaultdict(list)
        for ready in part:
            if ready.is_reopened and ready.record.trace_id is not None:
                by_space[ready.record.space].append(ready.record.trace_id)
        found: dict[RecordKey, tuple[RecordRow, EvaluationRow]] = {}
        for space, trace_ids in by_space.items():
            pairs = self._insist(
                lambda space=space, ids=trace_ids: self._store.evaluated_records(space, ids)
            )
            found |= {(space, row.uid): (row, verdict) for row, verdict in pairs}
        return found

    def whole(
        self, part: Sequence[Ready], earlier: Mapping[RecordKey, tuple[RecordRow, EvaluationRow]]
    ) -> Iterator[Ready]:
        """The same records, with their contexts; what was erased is passed over."""
        by_space: defaultdict[str, list[str]] = defaultdict(list)
        for ready in part:
            if not ready.is_whole and not ready.is_reopened and ready.early is None:
                by_space[ready.record.space].append(ready.record.uid)
        found: dict[RecordKey, RecordRow] = {key: row for key, (row, _) in earlier.items()}
        for space, uids in by_space.items():
            rows = self._insist(lambda space=space, uids=uids: self._store.records_of(space, uids))
            found |= {(space, row.uid): row for row in rows}
        for ready in part:
            if ready.is_whole or ready.early is not None:
                yield ready
                continue
            row = found.get((ready.record.space, ready.record.uid))
            if row is not None:
                yield replace(ready, record=row, is_whole=True)

    def whole_record(self, ready: Ready) -> RecordRow:
        """One record with its context, also if that was not read as it was judged early."""
        row = ready.record
        if ready.is_whole:
            return row
        found = self._insist(lambda: self._store.records_of(row.space, [row.uid]))
        return found[0] if found else row

    def traces(self, part: Sequence[Ready]) -> dict[str, dict[str, TraceView]]:
        """By space and id every trace of the part, read where memory has let it go."""
        spans: defaultdict[str, dict[str, Sequence[Span]]] = defaultdict(dict)
        missing: defaultdict[str, set[str]] = defaultdict(set)
        for ready in part:
            space, trace_id = ready.record.space, ready.record.trace_id
            if trace_id is None:
                continue
            if ready.needs_spans:
                missing[space].add(trace_id)
            elif ready.need is Need.TRACE and ready.spans is not None:
                spans[space][trace_id] = ready.spans
        for space, trace_ids in missing.items():
            spans[space] |= self._insist(
                lambda space=space, ids=trace_ids: self._store.spans_of(space, ids)
            )
        return {
            space: {key: TraceView.of(SpanTree(each)) for key, each in traces.items()}
            for space, traces in spans.items()
        }
