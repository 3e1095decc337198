"""Reads from the store for data that had no room in memory."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

from collector.pipeline.evaluate.begun import RecordKey
from collector.pipeline.join.joined_trace import Leaving, Need
from collector.pipeline.join.ready import Ready, Room
from collector.split import split
from collector.storage.port.work import WorkStore
from collector.store.limits import NoMemoryError, TooLargeError
from collector.store.rows import EvaluationRow, RecordRow
from collector.worker.records import TraceView
from collector.worker.trees import Insist, lost_of, read_trees
from scouter.errors import TransientError
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.span import Span

_BYTES: Final = 16 * 2**20
"""Contexts of them, where they were measured."""
SPANS: Final = 2_000
"""Spans of their traces that memory has let go; they are read together."""
_TRACES: Final = 200
"""Traces that are asked for together."""
_TRIES: Final = 10
"""Most tries to read one item that does not fit into memory; its user may be done soon."""

T = TypeVar("T")
K = TypeVar("K")


def room(records: int) -> Room:
    """Room for records that are decided together, so that they and what is read for them fit."""
    return Room(records, _BYTES, SPANS)


def traces_of(
    trace_ids: Iterable[str], span_count: Callable[[str], int] = lambda id: 0
) -> Iterator[list[str]]:
    """Split traces so that the spans of a part fit into memory, as far as is known."""
    return split(trace_ids, lambda id: (1, span_count(id)), (_TRACES, SPANS))


class ReadBack:
    """Reads contexts, earlier evaluations and traces.

    Args:
        store: Holds them.
        insist: Waits for the store where nothing can be decided without it.
    """

    def __init__(self, store: WorkStore, insist: Insist) -> None:
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
            except TransientError:  # then they are evaluated later, and their traces read once more
                continue
            found |= {(space, row.uid): row for row in rows}
        return found

    def lost(self, keys: Iterable[RecordKey]) -> dict[RecordKey, str]:
        """By space and trace id why a span was refused, where one was."""
        found: dict[RecordKey, str] = {}
        for space, ids in _by_space(keys).items():
            lost = self._insist(lambda space=space, ids=ids: lost_of(self._store, space, ids))
            found |= {(space, trace_id): why for trace_id, why in lost.items()}
        return found

    def earlier(self, part: Sequence[Ready]) -> dict[RecordKey, tuple[RecordRow, EvaluationRow]]:
        """The records that are evaluated again, each with its latest evaluation.

        Raises:
            TransientError: The service ends; so do the others.
        """
        found: dict[RecordKey, tuple[RecordRow, EvaluationRow]] = {}
        again = [_key(ready.record) for ready in part if ready.is_reopened]
        for space, uids in _by_space(again).items():
            rows = self._records(space, uids)
            keys = [(space, uid) for uid in rows]
            evaluations = self._parts(keys, self._store.latest_evaluations)
            latest = {key: evaluation for part in evaluations for key, evaluation in part.items()}
            found |= {key: (rows[key[1]], latest[key]) for key in keys if key in latest}
        return found

    def whole(
        self, part: Sequence[Ready], earlier: Mapping[RecordKey, tuple[RecordRow, EvaluationRow]]
    ) -> Iterator[Ready]:
        """The same records, with their contexts; what was erased is passed over.

        One whose context is too large for the memory that there is is not whole.
        """
        found: dict[RecordKey, RecordRow] = {key: row for key, (row, _) in earlier.items()}
        missing = [_key(ready.record) for ready in part if _lacks_context(ready)]
        too_large: set[RecordKey] = set()
        for space, uids in _by_space(missing).items():
            rows = self._records(space, uids, lambda uid, of=space: too_large.add((of, uid)))
            found |= {(space, uid): row for uid, row in rows.items()}
        for ready in part:
            key = _key(ready.record)
            if ready.is_whole or ready.early is not None or key in too_large:
                yield ready
            elif (row := found.get(key)) is not None:
                yield replace(ready, record=row, is_whole=True)

    def whole_record(self, ready: Ready) -> RecordRow:
        """One record with its context, if that can be read."""
        row = ready.record
        if ready.is_whole:
            return row
        return self._records(row.space, [row.uid]).get(row.uid, row)

    def traces(self, part: Sequence[Ready]) -> dict[str, dict[str, TraceView]]:
        """By space and id every trace of the part, read where memory has let it go."""
        spans: defaultdict[str, dict[str, Sequence[Span]]] = defaultdict(dict)
        views: defaultdict[str, dict[str, TraceView]] = defaultdict(dict)
        missing: dict[RecordKey, None] = {}
        for ready in part:
            space, trace_id = ready.record.space, ready.record.trace_id
            if trace_id is None:
                continue
            if ready.needs_spans:
                missing[space, trace_id] = None
            elif ready.need is Need.TRACE and ready.spans is not None:
                spans[space][trace_id] = ready.spans
        for space, ids in _by_space(missing).items():
            trees = self._insist(lambda space=space, ids=ids: read_trees(self._store, space, ids))
            views[space] = {key: TraceView.of(tree) for key, tree in trees.items()}
        for space, traces in spans.items():
            lost = self._insist(lambda of=space, ids=traces: lost_of(self._store, of, ids))
            views[space] |= {
                key: TraceView.of(SpanTree(each, lost=lost.get(key, "")))
                for key, each in traces.items()
            }
        return views

    def _records(
        self, space: str, uids: Sequence[str], too_large: Callable[[str], None] | None = None
    ) -> dict[str, RecordRow]:
        def tell(uid: str, why: Exception) -> None:
            del why
            if too_large is not None:
                too_large(uid)

        reads = self._parts(uids, lambda part: self._store.records_of(space, part), tell)
        return {row.uid: row for rows in reads for row in rows}

    def _parts(
        self,
        items: Sequence[K],
        read: Callable[[Sequence[K]], T],
        too_large: Callable[[K, Exception], None] | None = None,
    ) -> Iterator[T]:
        """Read things together, or in parts where there is no memory for all.

        Args:
            items: Names of the things.
            read: Reads some of them.
            too_large: Told of each that cannot be read alone, and why.
        """
        waiting = [items] if items else []
        while waiting:
            part = waiting.pop()
            found = self._try(part, read)
            if not isinstance(found, NoMemoryError):
                yield found
            elif len(part) > 1:
                middle = len(part) // 2
                waiting += [part[middle:], part[:middle]]
            elif too_large is not None:
                too_large(part[0], found)

    def _try(self, part: Sequence[K], read: Callable[[Sequence[K]], T]) -> T | NoMemoryError:
        tries = iter(range(_TRIES if len(part) == 1 else 1))
        next(tries)

        def attempt() -> T | NoMemoryError:
            try:
                return read(part)
            except NoMemoryError as error:
                if isinstance(error, TooLargeError) or next(tries, None) is None:
                    return error
                raise

        return self._insist(attempt)


def _lacks_context(ready: Ready) -> bool:
    return not ready.is_whole and not ready.is_reopened and ready.early is None


def _by_space(keys: Iterable[RecordKey]) -> dict[str, list[str]]:
    found: defaultdict[str, list[str]] = defaultdict(list)
    for space, name in keys:
        found[space].append(name)
    return found


def _key(row: RecordRow) -> RecordKey:
    return row.space, row.uid
