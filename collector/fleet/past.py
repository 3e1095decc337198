"""Days that are over as plain Parquet files: `day=YYYY-MM-DD/TABLE-N.parquet` in one folder.

A day gets its folder at once, complete, under its final name. It has the rows that arrived in it
(evaluations: that were made in it), and what was stored late of the days before: each row is in one
folder. The folder says up to which commit: the next day begins there.
"""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

import json
import os
import shutil
import threading
import uuid
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from collector.fleet.database import Address, Session, open_beside, settings
from collector.fleet.notes import FleetNote
from collector.fleet.past_erase import find_in, find_marks, sweep
from collector.fleet.past_files import MANIFEST, Rolling, day_folders
from collector.fleet.schema import DAY_NS
from collector.fleet.store import FleetStore
from collector.store.bodies import trace_hash
from collector.store.erase import Erased, EraseTarget
from collector.store.files import sync_folder
from collector.store.schema import COLUMNS
from collector.store.span_export import SPAN_COLUMNS, SPAN_SCHEMA, span_table
from collector.store.task_results import RESULT_COLUMNS, result_table
from scouter.errors import ConfigError, TransientError

_LOCK: Final = 7_316_405
"""Advisory lock of who changes what the folders show."""
_WAIT: Final = "60s"
"""Longest wait for that lock: who has it may be frozen."""
_EPOCH: Final = date(1970, 1, 1)
_PAGE_BYTES: Final = 4 * 2**20
"""Bytes of spans, or of contexts, that are read together."""
_PAGE_ROWS: Final = 2_000
"""Evaluations that are read together."""
_FILE_ROWS: Final = 10_000
"""Records, or evaluations, in a file: what one process judges at a time."""
_SPAN_BYTES: Final = 256 * 2**20
"""Size of a file of spans before it is compressed."""
_KINDS: Final = {
    "BIGINT": pa.int64(), "TEXT": pa.string(), "TEXT[]": pa.list_(pa.string()),
    "DOUBLE PRECISION": pa.float64(),
}  # fmt: skip
_RECORDS: Final = tuple(COLUMNS["records"])
_EVALUATIONS: Final = tuple(each for each in COLUMNS["evaluations"] if each[0] != "body")
_AT: Final = {"spans": "received_ns", "records": "received_ns", "evaluations": "evaluated_ns"}
"""The time that says which day a row is of."""
_OF_DAY: Final = "{at} >= $1 AND {at} < $2 AND seq > $3 AND seq <= $4"
_TRACES: Final = """
    SELECT max(t.trace_id) FROM (
        SELECT trace_id, sum(sum({size})) OVER (ORDER BY trace_id) AS upto FROM {table}
        WHERE trace_id IS NOT NULL AND {of_day} GROUP BY trace_id
    ) t GROUP BY div(t.upto, $5) ORDER BY 1
"""
"""The last trace of each page; a page has whole traces."""
_COMMITS: Final = """
    SELECT max(t.seq) FROM (
        SELECT seq, sum({size}) OVER (ORDER BY seq) AS upto FROM (
            SELECT seq, sum({size}) AS {size} FROM {table} WHERE {of_day}{more} GROUP BY seq
        ) c
    ) t GROUP BY div(t.upto, $5) ORDER BY 1
"""
"""The last commit of each page."""
_BODIES: Final = """
    SELECT seq, space, body FROM bodies
    WHERE trace_hash = ANY($1::BIGINT[]) AND received_ns >= $2
"""
_UNSTORED: Final = """
    SELECT min(at) FROM (
        SELECT received_ns AS at FROM spans WHERE seq > $1 AND received_ns < $2
        UNION ALL SELECT received_ns FROM records WHERE seq > $1 AND received_ns < $2
        UNION ALL SELECT r.received_ns FROM records r
            JOIN evaluations e ON e.space = r.space AND e.record_uid = r.uid
            WHERE e.seq > $1 AND r.received_ns < $2
    ) a
"""
"""Arrival of the oldest record or span, before a time, with something that no folder has."""


class Past:
    """The folder of the days that are over; one process writes days, any erases.

    Args:
        folder: Of all days; every api sees the same one.
        store: The store of the fleet.
        url: Its database.
        late_s: A day is written when it is over for so many seconds.
        file_rows: Records, or evaluations, in a file.
        span_bytes: Size of a file of spans before it is compressed.

    Raises:
        ConfigError: The folder cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        store: FleetStore,
        url: str,
        *,
        late_s: float,
        file_rows: int = _FILE_ROWS,
        span_bytes: int = _SPAN_BYTES,
    ) -> None:
        self._folder, self._store, self._late_ns = folder, store, int(late_s * 1e9)
        self._file_rows, self._span_bytes = file_rows, span_bytes
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"past {folder}: {error.strerror or error}") from error
        if not os.access(folder, os.W_OK):
            raise ConfigError(f"past {folder}: no permission to write there")
        self._address = Address(url)
        self._beside = beside = open_beside(url)
        self._owed = FleetNote(beside, "past erasure owed since")
        self._newest = FleetNote(beside, "past erasure")
        self._stopping = threading.Event()

    # --- days --------------------------------------------------------------------------------

    def write_days(self, now_ns: int) -> int:
        """Write every day that is over and has no folder; finish an erasure that was interrupted.

        Returns:
            Number of days that were written. A stop ends it before the next page.

        Raises:
            TransientError: The store, or the folder, takes or gives nothing now. What was started
                of a day is started anew the next time.

        Cost: linear in the rows; some pages in memory.
        """
        with _disk(self._folder):
            with self._changing():
                for each in self._folder.glob("writing-*"):
                    shutil.rmtree(each)
                if self._owed.read():
                    self._sweep()
            return self._write_until(now_ns - self._late_ns)

    def write_copy(self) -> int:
        """Write every day that has rows and no folder, whether it is over or not.

        Returns:
            Number of days that were written.

        Raises:
            TransientError: As of `write_days`.
        """
        with _disk(self._folder):
            return self._write_until(None)

    def _write_until(self, end_ns: int | None) -> int:
        written = 0
        while not self._stopping.is_set():
            last, after = self._last()
            day = self._next(last)
            if day is None or (end_ns is not None and (day + 1) * DAY_NS > end_ns):
                break
            written += self._write_day(day, after)
        return written

    def safe_ns(self, time_ns: int) -> int:
        """The time up to which retention may go, as every older row is in a folder.

        Args:
            time_ns: How far it would go by itself.
        """
        with _disk(self._folder):
            last, seq = self._last()
        end = 0 if last is None else min(time_ns, (last + 1) * DAY_NS)
        ((oldest,),) = self._store.read(_UNSTORED, [seq, end])
        return end if oldest is None else oldest // DAY_NS * DAY_NS

    def stop(self) -> None:
        """End `write_days` before the next page."""
        self._stopping.set()

    def close(self) -> None:
        """Close the connection."""
        self._beside.close()

    def _last(self) -> tuple[int | None, int]:
        """The newest day that is written, and the commit up to which it goes."""
        folders = day_folders(self._folder)
        if not folders:
            return None, 0
        seq = json.loads((folders[-1] / MANIFEST).read_bytes())["seq"]
        return (date.fromisoformat(folders[-1].name.removeprefix("day=")) - _EPOCH).days, seq

    def _next(self, last: int | None) -> int | None:
        """The first day behind the last one that has rows."""
        begin = 0 if last is None else (last + 1) * DAY_NS
        days = [each for each in self._store.days() if each * DAY_NS >= begin]
        for table in ("records", "evaluations"):
            sql = f"SELECT min({_AT[table]}) FROM {table} WHERE {_AT[table]} >= $1"
            ((found,),) = self._store.read(sql, [begin])
            days += [] if found is None else [found // DAY_NS]
        return min(days, default=None)

    def _write_day(self, day: int, after: int) -> bool:
        """Write a day, in a folder that gets its name when it is complete.

        Returns:
            False if it has to be started anew, as something was erased meanwhile, or after a stop.
        """
        until, erasure = self._store.last_seq(), self._newest.read()
        partial = self._folder / f"writing-{uuid.uuid4().hex}"
        partial.mkdir(mode=0o700)
        begin, end = day * DAY_NS, (day + 1) * DAY_NS
        # What is of the day, and what was stored of earlier ones since the last folder.
        parts = [(begin, end, 0, until), *([(0, begin, after, until)] if after else [])]
        try:
            for write in (self._spans, self._records, self._evaluations):
                if not write(partial, parts):
                    return False
            manifest = partial / MANIFEST
            manifest.write_text(json.dumps({"version": 1, "seq": until}))
            sync_folder(partial)
            name = (_EPOCH + timedelta(days=day)).isoformat()
            with self._changing():
                if self._newest.read() != erasure:
                    return False
                # Only records in whose place others came: they leave no text behind.
                sweep([partial], self._store, self._store.marks_after(until))
                partial.rename(self._folder / f"day={name}")
                sync_folder(self._folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return True

    def _spans(self, folder: Path, parts: Sequence[tuple[int, ...]]) -> bool:
        of_day = _OF_DAY.format(at=_AT["spans"])
        pages = _TRACES.format(size="size_bytes", table="spans", of_day=of_day)
        sql = f"""
            SELECT {SPAN_COLUMNS} FROM spans WHERE {of_day} AND trace_id > $5 AND trace_id <= $6
            ORDER BY trace_id, start_ns, span_id, seq
        """
        names = f"SELECT DISTINCT trace_id FROM spans WHERE {of_day}" + (
            " AND trace_id > $5 AND trace_id <= $6"
        )
        with Rolling(folder, "spans", SPAN_SCHEMA, nbytes=self._span_bytes) as file:
            for part in parts:
                for low, high in self._pages(pages, [*part, _PAGE_BYTES], ""):
                    values = [*part, low, high]
                    hashes = [trace_hash(each) for (each,) in self._store.read(names, values)]
                    # Before the spans: who erases takes spans out of both at once.
                    bodies = self._store.read(_BODIES, [hashes, part[0]])
                    file.write(span_table(self._store.read(sql, values), bodies))
        return not self._stopping.is_set()

    def _records(self, folder: Path, parts: Sequence[tuple[int, ...]]) -> bool:
        of_day = _OF_DAY.format(at=_AT["records"])
        columns = f"SELECT {', '.join(name for name, _ in _RECORDS)} FROM records WHERE {of_day}"
        words = {"size": "context_bytes", "table": "records", "of_day": of_day}
        more = " AND trace_id IS NULL"
        kinds = (
            (_TRACES.format(**words), f"{columns} AND trace_id > $5 AND trace_id <= $6"
             " ORDER BY trace_id, space, uid", ""),
            (_COMMITS.format(**words, more=more), f"{columns}{more} AND seq > $5 AND seq <= $6"
             " ORDER BY seq, space, uid", 0),
        )  # fmt: skip
        schema = _schema(_RECORDS)
        with Rolling(folder, "records", schema, rows=self._file_rows) as file:
            for part in parts:
                for pages, sql, first in kinds:
                    for low, high in self._pages(pages, [*part, _PAGE_BYTES], first):
                        file.write(_table(self._store.read(sql, [*part, low, high]), schema))
        return not self._stopping.is_set()

    def _evaluations(self, folder: Path, parts: Sequence[tuple[int, ...]]) -> bool:
        of_day = _OF_DAY.format(at=_AT["evaluations"])
        source = "(SELECT *, 1 AS one FROM evaluations) e"
        pages = _COMMITS.format(size="one", table=source, of_day=of_day, more="")
        names = [name for name, _ in _EVALUATIONS]
        sql = f"""
            SELECT {", ".join((*names, "body"))} FROM evaluations
            WHERE {of_day} AND seq > $5 AND seq <= $6 ORDER BY seq, ordinal
        """
        schema = _schema((*_EVALUATIONS, ("body", "TEXT")))
        empty = result_table(schema.empty_table().select(RESULT_COLUMNS)).schema
        with (
            Rolling(folder, "evaluations", _schema(_EVALUATIONS), rows=self._file_rows) as file,
            Rolling(folder, "task_results", empty, rows=self._file_rows * 10) as results,
        ):
            for part in parts:
                for low, high in self._pages(pages, [*part, _PAGE_ROWS], 0):
                    table = _table(self._store.read(sql, [*part, low, high]), schema)
                    file.write(table.select(names))
                    results.write(result_table(table.select(RESULT_COLUMNS)))
        return not self._stopping.is_set()

    def _pages(self, sql: str, values: Sequence[object], first: Any) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401 texts or numbers
        """Begin and end of each page; none after a stop."""
        for (last,) in self._store.read(sql, values):
            if self._stopping.is_set():
                return
            yield first, last
            first = last

    # --- erasure -----------------------------------------------------------------------------

    def erase(self, target: EraseTarget, action: Callable[[], Erased]) -> Erased:
        """Erase in the store, and behind that in all folders.

        What only the folders have is marked in the store as erased, too. If this is interrupted,
        the next `write_days` finishes it.

        Args:
            target: What goes.
            action: Erases in the store.

        Raises:
            TransientError: It is not out everywhere; it has to be requested again.

        Cost: the keys of all files are read; files with something of it are written anew. A
        second erasure waits for that, and is refused after a minute.
        """
        with _disk(self._folder), self._changing():
            if not self._owed.read():
                self._owed.write(str(self._store.last_seq()))
            found = find_in(day_folders(self._folder), self._store, target)
            marks = find_marks(target.space, found)
            if marks:
                with self._store.alone():
                    self._store.write({"erased": marks})
            self._newest.write(uuid.uuid4().hex)
            erased = action()
            self._sweep(target)
        return found.added_to(erased)

    def _sweep(self, target: EraseTarget | None = None) -> None:
        """Take out of all folders what was erased since the note says so."""
        marks = self._store.marks_after(int(self._owed.read() or 0))
        sweep(day_folders(self._folder), self._store, marks, target)
        self._owed.write("")

    @contextmanager
    def _changing(self) -> Generator[None]:
        """Nobody else changes what the folders show."""
        session = Session(self._address, settings("scouter past"))
        try:
            session.read("SELECT set_config('lock_timeout', $1, false)", [_WAIT])
            session.read(f"SELECT pg_advisory_lock({_LOCK})")
            yield
        finally:
            session.close()


def _schema(columns: Sequence[tuple[str, str]]) -> pa.Schema:
    return pa.schema([(name, _KINDS[kind]) for name, kind in columns])


def _table(rows: Sequence[Sequence[Any]], schema: pa.Schema) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else [()] * len(schema)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


@contextmanager
def _disk(folder: Path) -> Generator[None]:
    try:
        yield
    except OSError as error:
        raise TransientError(f"past {folder}: {error.strerror or error}") from error
