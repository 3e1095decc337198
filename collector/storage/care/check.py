"""Verifies a store that nobody has open, and changes nothing in it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import duckdb

from collector.storage.care.offline import KNOWN_VERSION, OfflineStore
from collector.storage.care.tally import FILE_NAME as TALLY_NAME
from collector.storage.care.tally import Told, read_tally
from collector.storage.duckdb.conservation import read_conservation
from collector.storage.duckdb.database import FILE_NAME, DamagedStoreError
from collector.storage.duckdb.read import UNSETTLED, read_received
from collector.storage.log.span_log import LOG_FOLDER, FileCheck, check_file
from collector.store.sheets import Conservation
from scouter.errors import ConfigError

# All SQL is put together from this module's own words.
# ruff: noqa: S608

_ROWS: Final = 10_000
_COLUMNS: Final = """
    SELECT column_name FROM duckdb_columns()
    WHERE database_name = 'store' AND table_name = ? ORDER BY column_index
"""
_SHOWN: Final = 5
"""Problems of one kind that are told one by one."""
_KEYS: Final = {
    "spans": "space, trace_id, span_id",
    "records": "space, uid",
    "evaluations": "space, record_uid, revision",
    "dead_letters": "letter_id",
}
_RATES: Final = """
    SELECT space, profile_uid, task_id, outcome, sum(n) AS n FROM (
        SELECT space, profile_uid, task_id, outcome, n FROM rollups
        UNION ALL
        SELECT t.space, t.profile_uid, t.task_id, t.outcome, -1 FROM task_results t
        WHERE t.outcome <> 'pending' AND NOT EXISTS (
            FROM evaluations newer WHERE newer.revision > t.revision
              AND newer.space = t.space AND newer.record_uid = t.record_uid)
    ) GROUP BY ALL HAVING sum(n) <> 0
"""
_PENDING_SINCE: Final = 5
"""Version from which on pending tasks are counted."""
_HAS_EVENTS: Final = """
    SELECT 1 FROM duckdb_columns()
    WHERE database_name = 'store' AND table_name = 'spans' AND column_name = 'is_event'
"""
_PENDING: Final = """
    SELECT space, sum(counted)::BIGINT, sum(pending)::BIGINT FROM (
        SELECT space, n AS counted, 0 AS pending FROM totals WHERE name = 'pending'
        UNION ALL
        SELECT e.space, 0, e.pending FROM evaluations e
        WHERE e.pending > 0 AND NOT EXISTS (FROM evaluations newer
            WHERE newer.revision > e.revision AND newer.space = e.space
              AND newer.record_uid = e.record_uid)
    ) GROUP BY space HAVING sum(counted) <> sum(pending)
"""
_ORPHANS: Final = """
    SELECT count(*) FROM task_results t
    ANTI JOIN evaluations e ON e.space = t.space AND e.evaluation_id = t.evaluation_id
"""
_SPANS: Final = """
    SELECT frame, span_at, span_size, resource_at, resource_size, scope_at, scope_size, checksum,
        trace_id, span_id
    FROM spans ORDER BY frame, span_at
"""


@dataclass(slots=True, kw_only=True)
class StoreReport:
    """Result of checking a store."""

    version: int
    sheets: dict[str, Conservation] = field(default_factory=dict[str, Conservation])
    """Counts of records, spans and events by space."""
    problems: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    """Facts that are no problems, and good to know."""
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes by part."""
    spans: int = 0
    frames: int = 0
    received_ns: tuple[int | None, int | None] = (None, None)
    """Times at which the oldest and the newest stored record or span were received."""


def check_store(folder: Path, tell: Callable[[str], None] = lambda text: None) -> StoreReport:
    """Read everything of a store.

    Args:
        folder: The data folder.
        tell: Is told what is looked at.

    Raises:
        ConfigError: There is no store, a collector has it open, or a newer program wrote it.

    Cost: reads every byte of the span log twice, and each table once or twice.
    """
    told = read_tally(folder)
    path = folder / FILE_NAME
    if told is not None and not path.exists():
        return _check_log_alone(folder, f"{path} is gone", tell)
    try:
        return _check_all(folder, told, tell)
    except DamagedStoreError as error:
        return _check_log_alone(folder, str(error), tell)


def _check_log_alone(folder: Path, why: str, tell: Callable[[str], None]) -> StoreReport:
    """Check what can be where there is no database."""
    report = StoreReport(version=0, problems=[why])
    files = _check_log(folder / LOG_FOLDER, report, tell)
    report.sizes = {"span log": sum(each.size_bytes for each in files)}
    return report


def _check_all(folder: Path, told: Told | None, tell: Callable[[str], None]) -> StoreReport:
    with OfflineStore(folder) as store:
        version = store.version()
        if version > KNOWN_VERSION:
            raise ConfigError(
                f"the store {store.path} has version {version}; this program knows versions up to "
                f"{KNOWN_VERSION}: use the program that wrote it, or a newer one"
            )
        report = StoreReport(version=version)
        if version < KNOWN_VERSION:
            report.notes.append(
                f"version {version}; `scouter collector migrate` takes it to {KNOWN_VERSION}"
            )
        files = _check_log(folder / LOG_FOLDER, report, tell)
        try:
            _check_columns(store, report, tell)
            _check_places(store, files, report, tell)
            tell("keys")
            _check_keys(store, report)
            tell("counts")
            _check_counts(store, report)
            _check_tally(store, told, report)
            report.received_ns = read_received(store)
        except duckdb.Error as error:
            report.problems.append(f"{store.path}: it cannot be looked at further: {_line(error)}")
        report.sizes = {
            "database": sum(
                file.stat().st_size for file in folder.glob(f"{store.path.name}*")
            ),
            "span log": sum(each.size_bytes for each in files),
        }  # fmt: skip
    return report


def _check_log(folder: Path, report: StoreReport, tell: Callable[[str], None]) -> list[FileCheck]:
    found: list[FileCheck] = []
    paths = sorted(folder.glob("*.spans"))
    for number, path in enumerate(paths, start=1):
        tell(f"span log, file {number} of {len(paths)}")
        checked = check_file(path)
        found.append(checked)
        report.frames += checked.frames
        if checked.damaged_at is not None:
            report.problems.append(f"{path}: the frame at byte {checked.damaged_at} is damaged")
    return found


def _check_columns(store: OfflineStore, report: StoreReport, tell: Callable[[str], None]) -> None:
    """Every value can be read: DuckDB compares the checksum of each block that it reads."""
    for table in store.tables():
        tell(f"table {table}")
        for (column,) in store.read(_COLUMNS, [table]):
            try:
                store.read(f"SELECT bit_xor(hash({column})) FROM {table}")
            except duckdb.Error as error:
                report.problems.append(
                    f"table {table}: the column {column} is damaged: {_line(error)}"
                )


def _check_keys(store: OfflineStore, report: StoreReport) -> None:
    for table, key in _KEYS.items():
        for *values, count in store.read(
            f"SELECT {key}, count(*) FROM {table} GROUP BY ALL HAVING count(*) > 1 LIMIT 5"
        ):
            report.problems.append(f"{table}: {count} rows with the key {_text(values)}")


def _check_places(
    store: OfflineStore,
    files: Sequence[FileCheck],
    report: StoreReport,
    tell: Callable[[str], None],
) -> None:
    """Every row of a span has its bytes, and no row is in what a crash has left of a frame."""
    _check_torn(store, files, report)
    lost = 0
    reader = _Reader(files)
    for part in store.parts(_SPANS, (), _ROWS):
        for frame, at, size, r_at, r_size, s_at, s_size, checksum, trace_id, span_id in part:
            head = crc32(reader.read(frame + r_at, r_size))
            head = crc32(reader.read(frame + s_at, s_size), head)
            if crc32(reader.read(frame + at, size), head) != checksum:
                lost += 1
                if lost <= _SHOWN:
                    report.problems.append(
                        f"span {span_id} of trace {trace_id}: its bytes at place {frame + at} of "
                        "the log are damaged or gone"
                    )
        report.spans += len(part)
        tell(f"{report.spans} spans")
    if lost > _SHOWN:
        report.problems.append(f"{lost} spans in all whose bytes are damaged or gone")


def _check_torn(store: OfflineStore, files: Sequence[FileCheck], report: StoreReport) -> None:
    for file in files:
        if not file.torn_bytes:
            continue
        end = file.start + file.size_bytes
        sql = "SELECT count(*) FROM spans WHERE frame >= ? AND frame < ?"
        ((spans,),) = store.read(sql, [end - file.torn_bytes, end])
        if spans:
            report.problems.append(
                f"{file.path}: the last {file.torn_bytes} bytes are no whole frame, and {spans} "
                "spans are in them: its header is damaged"
            )
        else:
            report.notes.append(
                f"{file.path.name}: {file.torn_bytes} torn bytes at its end, of requests that were "
                "never acknowledged"
            )


class _Reader:
    """Reads places of the log, mostly in order; what is not there is no bytes."""

    def __init__(self, files: Sequence[FileCheck]) -> None:
        self._files = sorted(files, key=lambda each: each.start)
        self._current: FileCheck | None = None
        self._content = b""

    def read(self, place: int, size: int) -> bytes:
        file = self._current
        if file is None or not file.start <= place < file.start + file.size_bytes:
            file = next((x for x in self._files if x.start <= place < x.start + x.size_bytes), None)
            if file is None:
                return b""
            self._current, self._content = file, file.path.read_bytes()
        return self._content[place - file.start : place - file.start + size]


def _check_tally(store: OfflineStore, told: Told | None, report: StoreReport) -> None:
    """The database has every commit of which the file beside it tells."""
    if told is None:
        return
    if told.is_damaged:
        report.problems.append(f"{store.folder / TALLY_NAME}: lines of it are damaged")
    seq = max(
        store.read(f"SELECT coalesce(max(seq), 0) FROM {table}")[0][0] for table in store.tables()
    )
    if told.seq > seq:
        report.problems.append(f"{store.path} ends with commit {seq}, {told.seq} were made")
    for (space, kind), held in told.held.items():
        sheet = report.sheets.get(space)
        accepted = 0 if sheet is None else sheet.accepted(kind)
        if held.received > accepted:
            report.problems.append(
                f"space {space!r}: {held.received} {kind}s were accepted, the database knows of "
                f"{accepted}"
            )


def _check_counts(store: OfflineStore, report: StoreReport) -> None:
    has_events = bool(store.read(_HAS_EVENTS))
    for space in _spaces(store):
        sheet = read_conservation(store, space, has_events=has_events)
        report.sheets[space] = sheet
        records = sheet.records
        ((waiting,),) = store.read(f"SELECT count(*) {UNSETTLED} WHERE r.space = ?", [space])
        if records.waiting != waiting:
            report.problems.append(
                f"space {space!r}: {records.waiting} records wait by their number, {waiting} have "
                "neither an evaluation nor a dead letter"
            )
        states = (
            records.waiting + records.evaluated + records.skipped + records.expired
            + records.dead_lettered + records.erased + records.lost
        )  # fmt: skip
        if records.accepted != states:
            report.problems.append(
                f"space {space!r}: {records.accepted} records were accepted, {states} have a state"
            )
        for kind, sums in (("spans", sheet.spans), ("log events", sheet.events)):
            if sums.accepted != sums.stored + sums.expired + sums.erased + sums.lost:
                report.problems.append(
                    f"space {space!r}: {sums.accepted} {kind} were accepted, {sums.stored} are "
                    f"stored, {sums.expired} expired, {sums.erased} erased and {sums.lost} lost"
                )
        lost = (records.lost, sheet.spans.lost, sheet.events.lost)
        if any(lost):
            events = f" and {lost[2]} log events" if lost[2] else ""
            report.notes.append(
                f"space {space!r}: {lost[0]} records and {lost[1]} spans{events} were lost, and a "
                "start with --accept-loss went on without them"
            )
    if any(sheet.has_uncounted_losses for sheet in report.sheets.values()):
        report.notes.append("something was lost of which nobody knows how much")
    for space, counted, pending in store.read(_PENDING) if report.version >= _PENDING_SINCE else ():
        report.problems.append(
            f"space {space!r}: {counted} tasks are counted as pending, {pending} are"
        )
    for space, profile_uid, task_id, outcome, n in store.read(_RATES):
        report.problems.append(
            f"space {space!r}, profile {profile_uid}, task {task_id!r}: the hourly counts have "
            f"{abs(n)} {'more' if n > 0 else 'fewer'} {outcome} than there are results"
        )
    ((orphans,),) = store.read(_ORPHANS)
    if orphans:
        report.problems.append(f"{orphans} task results without their evaluation")


def _spaces(store: OfflineStore) -> Iterator[str]:
    rows = store.read(
        "SELECT DISTINCT space FROM (SELECT space FROM records UNION SELECT space FROM spans"
        " UNION SELECT space FROM dead_letters UNION SELECT space FROM totals)"
        " WHERE space <> '' ORDER BY space"
    )
    yield from (row[0] for row in rows)


def _line(error: duckdb.Error) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


def _text(values: Sequence[Any]) -> str:
    return " / ".join(str(each) for each in values)
