"""Erasure in the files of the days that are over."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa

from collector.fleet.past_files import files_of, keys, rewrite
from collector.store.commit import tag_texts
from collector.store.erase import Erased, EraseTarget
from collector.store.reads import Reads
from collector.store.rows import Scope
from collector.store.tombstones import Tombstone, Tombstones, of_record, of_span, of_trace

_BLANKS: Final = {
    "expected": "null", "actual": "null", "message": "", "question": "", "answer": "null",
}  # fmt: skip
"""Texts of results that may quote what was erased, and what takes their place."""
_RECORD: Final = ("space", "uid", "session_id", "trace_id", "tags")
_SPAN: Final = ("space", "trace_id", "span_id", "parent_span_id", "session_id", "is_event")
_EVALUATION: Final = (
    "space", "evaluation_id", "record_uid", "session_id", "trace_id", "scope", "reads_spans",
)  # fmt: skip
_RESULT: Final = ("space", "evaluation_id", "record_uid")
Key = tuple[str, str]
"""A space, and an id in it."""


@dataclass(slots=True, kw_only=True)
class Found:
    """What a target names in files."""

    uids: set[str] = field(default_factory=set[str])
    traces: set[str] = field(default_factory=set[str])
    """Traces that go as a whole."""
    spans: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    """Span ids by trace, of traces that stay."""

    def added_to(self, erased: Erased) -> Erased:
        """What was erased in the store and here."""
        return replace(
            erased,
            uids=erased.uids | self.uids,
            traces=erased.traces | self.traces | self.spans.keys(),
        )


def find_in(folders: Sequence[Path], store: Reads, target: EraseTarget) -> Found:
    """Find what a target names.

    Args:
        folders: Those of all days.
        store: Says which records there are beside.
        target: What is looked for.

    Cost: reads the keys of all records, and those of all spans for a session.
    """
    found = Found()
    traces = {target.trace_id} - {None}
    for _, uid, _, trace_id, _ in _records(folders, target):
        found.uids.add(uid)
        traces |= {trace_id} - {None}
    spans = _spans_of_session(folders, target)
    wanted = {each for each in (*traces, *spans) if each is not None}
    left = set[str]()
    if target.trace_id is None and wanted:
        rows = store.read(
            "SELECT DISTINCT trace_id, uid FROM records WHERE space = $1"
            " AND trace_id = ANY($2::TEXT[])",
            [target.space, sorted(wanted)],
        )
        others = ((space, uid, trace) for space, uid, _, trace, _ in _rows(folders))
        of_space = ((trace, uid) for space, uid, trace in others if space == target.space)
        named = {target.record_uid, *found.uids}
        for trace_id, uid in (*rows, *((t, u) for t, u in of_space if t in wanted)):
            if uid not in named and not _is_of_session(store, target, uid):
                left.add(trace_id)
    found.traces = wanted - left
    found.spans = {trace: ids for trace, ids in spans.items() if trace in left}
    return found


def find_marks(space: str, found: Found) -> list[Tombstone]:
    """The marks of what was found."""
    return [
        *(of_record(space, uid) for uid in sorted(found.uids)),
        *(of_trace(space, each) for each in sorted(found.traces)),
        *(of_span(space, each, span) for each, ids in found.spans.items() for span in ids),
    ]


def _rows(folders: Iterable[Path]) -> Iterator[tuple[str, str, str, str | None, list[str]]]:
    for folder in folders:
        for path in files_of(folder, "records"):
            yield from keys(path, _RECORD)  # pyright: ignore[reportReturnType] - as the columns are


def _records(
    folders: Iterable[Path], target: EraseTarget
) -> Iterator[tuple[str, str, str, str | None, list[str]]]:
    """The records that a target names."""
    tag = tag_texts(dict([target.tag]))[0] if target.tag is not None else None
    uids = {target.record_uid, *target.superseded}
    for row in _rows(folders):
        space, uid, session_id, trace_id, tags = row
        if space == target.space and (
            uid in uids
            or (target.trace_id is not None and trace_id == target.trace_id)
            or (target.session_id is not None and (session_id or uid) == target.session_id)
            or (tag is not None and tag in tags)
        ):
            yield row


def _is_of_session(store: Reads, target: EraseTarget, uid: str) -> bool:
    """Tell whether a record of the store goes with the target, too."""
    if target.session_id is None and target.tag is None:
        return False
    tag = tag_texts(dict([target.tag]))[0] if target.tag is not None else None
    rows = store.read(
        "SELECT 1 FROM records WHERE space = $1 AND uid = $2 AND"
        " (coalesce(nullif(session_id, ''), uid) = $3::TEXT OR $4::TEXT = ANY(tags))",
        [target.space, uid, target.session_id, tag],
    )
    return bool(rows)


def _spans_of_session(folders: Iterable[Path], target: EraseTarget) -> dict[str, list[str]]:
    """The spans that name the session, and the log events below them, by trace."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    if target.session_id is None:
        return found
    events: list[tuple[str, str, str | None]] = []
    for folder in folders:
        for path in files_of(folder, "spans"):
            for space, trace_id, span_id, parent, session_id, is_event in keys(path, _SPAN):
                if space != target.space:
                    continue
                if session_id == target.session_id:
                    found[trace_id].append(span_id)
                elif is_event:
                    events.append((trace_id, span_id, parent))
    for trace_id, span_id, parent in events:
        if trace_id in found and parent in found[trace_id]:
            found[trace_id].append(span_id)
    return found


def sweep(
    folders: Sequence[Path],
    store: Reads,
    marks: Sequence[Tombstone],
    target: EraseTarget | None = None,
) -> None:
    """Write every file anew that has rows of what was erased, or texts that may quote it.

    Results go before records and spans: if it is interrupted, the next one finds what they were
    about.

    Args:
        folders: Those of all days.
        store: Says which sessions have records left.
        marks: Of what was erased.
        target: What was requested, if that is known.

    Cost: reads the keys of all files.
    """
    if marks or target is not None:
        _Sweep(folders, store, marks, target).run()


class _Sweep:
    def __init__(
        self,
        folders: Sequence[Path],
        store: Reads,
        marks: Sequence[Tombstone],
        target: EraseTarget | None,
    ) -> None:
        self._folders, self._store = folders, store
        self._gone = Tombstones(marks)
        self._sessions: set[Key] = set()
        """Sessions that lost records."""
        self._traces: set[Key] = set()
        """Traces that lost spans."""
        self._seen: set[Key] = set()
        """Sessions with records that stay, whose traces lost spans."""
        if target is not None and (named := target.session_id or target.record_uid):
            self._sessions.add((target.space, named))
        if target is not None and target.trace_id:
            self._traces.add((target.space, target.trace_id))

    def run(self) -> None:
        spans = list(self._touched("spans", _SPAN, self._is_gone_span))
        records = list(self._touched("records", _RECORD, self._is_gone_record))
        alive = self._alive()
        for folder in self._folders:
            self._results(folder, alive)
        for path, gone in (*spans, *records):
            _without(path, gone)

    def _touched(
        self, table: str, columns: Sequence[str], is_gone: Callable[..., bool]
    ) -> Iterator[tuple[Path, list[bool]]]:
        """The files of a table with rows that go, and which these are."""
        for folder in self._folders:
            for path in files_of(folder, table):
                gone = [is_gone(*row) for row in keys(path, columns)]
                if any(gone):
                    yield path, gone

    def _is_gone_span(
        self, space: str, trace: str, span: str, parent: str | None, _: object, is_event: bool
    ) -> bool:
        is_gone = self._gone.has_span(space, trace, span, parent if is_event else None)
        if is_gone:
            self._traces.add((space, trace))
        return is_gone

    def _is_gone_record(
        self, space: str, uid: str, session: str, trace: str | None, _: object
    ) -> bool:
        is_gone = self._gone.has_record(space, uid)
        if is_gone:
            self._sessions.add((space, session or uid))
        elif trace is not None and (space, trace) in self._traces:
            self._seen.add((space, session or uid))
        return is_gone

    def _alive(self) -> set[Key]:
        """Those of the sessions that have records left."""
        found = {
            (space, session or uid)
            for space, uid, session, *_ in _rows(self._folders)
            if (space, session or uid) in self._sessions and not self._gone.has_record(space, uid)
        }
        by_space: defaultdict[str, list[str]] = defaultdict(list)
        for space, session in self._sessions - found:
            by_space[space].append(session)
        for space, sessions in by_space.items():
            rows = self._store.read(
                "SELECT DISTINCT coalesce(nullif(session_id, ''), uid) FROM records"
                " WHERE space = $1 AND coalesce(nullif(session_id, ''), uid) = ANY($2::TEXT[])",
                [space, sorted(sessions)],
            )
            found |= {(space, session) for (session,) in rows}
        return found

    def _results(self, folder: Path, alive: set[Key]) -> None:
        gone, blank = set[Key](), set[Key]()
        lost: list[tuple[Path, list[bool]]] = []
        for path in files_of(folder, "evaluations"):
            rows: list[bool] = []
            for space, number, uid, session, trace, scope, reads_spans in keys(path, _EVALUATION):
                about, key = (space, session), (space, number)
                is_session = scope == Scope.SESSION.value
                is_gone = self._gone.has_record(space, uid) or (
                    is_session and about in self._sessions and about not in alive
                )
                rows.append(is_gone)
                if is_gone:
                    gone.add(key)
                elif (is_session and about in self._sessions | self._seen) or (
                    reads_spans and (space, trace) in self._traces
                ):
                    blank.add(key)
            if any(rows):
                lost.append((path, rows))
        for path in files_of(folder, "task_results"):
            found = [
                (key in gone or self._gone.has_record(space, uid), key in blank)
                for space, number, uid in keys(path, _RESULT)
                for key in [(space, number)]
            ]
            if any(each != (False, False) for each in found):
                _without(path, [a for a, _ in found], [b for _, b in found])
        for path, rows in lost:
            _without(path, rows)


def _without(path: Path, gone: Sequence[bool], blank: Sequence[bool] | None = None) -> None:
    """Write a file anew without some of its rows, and without the texts of others."""
    at = 0

    def change(table: pa.Table) -> pa.Table:
        nonlocal at
        begin, at = at, at + table.num_rows
        left = [not each for each in gone[begin:at]]
        if blank is not None and any(blank[begin:at]):
            for name, empty in _BLANKS.items():
                values = table[name].to_pylist()
                column = [
                    empty if is_blank else value
                    for value, is_blank in zip(values, blank[begin:at], strict=True)
                ]
                table = table.set_column(
                    table.schema.get_field_index(name), name, pa.array(column, pa.string())
                )
        return table.filter(pa.array(left, pa.bool_()))

    rewrite(path, change)
