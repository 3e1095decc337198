"""Data folders that nobody has open: copied as they are, or verified without a change."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from collector.care.data_folder import LOG_FOLDER, refuse_store
from collector.log.offline import check_log, segment_paths
from collector.store.conservation import ConservationReads
from collector.store.files import (
    FIRST_FILE,
    DamagedStoreError,
    OfflineReads,
    store_files,
    sync_folder,
)
from collector.store.opening import read_mark
from collector.store.retention import RestReads, UpkeepReads
from collector.store.schema import COLUMNS, VERSION
from scouter.client.models.operation import ConservationSheet
from scouter.errors import ConfigError, TransientError


class OfflineStore(OfflineReads, ConservationReads, UpkeepReads, RestReads):
    """The store of a data folder, read without changing it; see `OfflineReads`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Number of files and bytes in a copy."""

    files: int
    size_bytes: int


def copy_data(source: Path, target: Path) -> Copied:
    """Copy store and log of a folder; the name of the store is there only once all else is.

    Args:
        source: A data folder or a backup, which nobody has open.
        target: An empty folder, or one that is not there.

    Raises:
        ConfigError: There is no store in the source, it holds bytes of what was erased, or the
            target holds something or cannot be written.
    """
    with OfflineStore(source) as store:
        if store.has_rests():
            raise ConfigError(
                f"the files in {source} still hold bytes of what was erased, and a copy would, "
                "too; start the collector, which takes them out within ten minutes"
            )
        first = store.path
        log = f"{first.name}.wal"
        try:
            if target.exists() and any(target.iterdir()):
                raise ConfigError(f"{target} is not empty; give an empty folder")
            refuse_store(target)
            (target / LOG_FOLDER).mkdir(mode=0o700, parents=True, exist_ok=True)
            target.chmod(0o700)
            pairs = [(path, target / LOG_FOLDER / path.name)
                     for path in segment_paths(source / LOG_FOLDER)]  # fmt: skip
            pairs += [(source / log, target / f"{FIRST_FILE}.wal"), (first, target / FIRST_FILE)]
            size = files = 0
            for path, copy in pairs:
                if path.exists():
                    partial = copy.with_name(f"{copy.name}.partial")
                    partial.touch(mode=0o600)
                    shutil.copyfile(path, partial)
                    partial.replace(copy)
                    files, size = files + 1, size + path.stat().st_size
            sync_folder(target)
        except OSError as error:
            raise ConfigError(
                f"cannot copy {source} to {target}: {error.strerror or error}"
            ) from error
    return Copied(files=files, size_bytes=size)


_KEYS: Final = {
    "spans": "space, trace_id, span_id",
    "records": "space, uid",
    "evaluations": "space, record_uid, revision",
    "dead_letters": "letter_id",
}
_SPACES: Final = """
    SELECT DISTINCT space FROM (
        SELECT space FROM records UNION SELECT space FROM spans
        UNION SELECT space FROM dead_letters UNION SELECT space FROM totals
    ) s WHERE space <> '' ORDER BY space
"""
_ORPHANS: Final = """
    SELECT count(*) FROM task_results t WHERE NOT EXISTS (
        SELECT 1 FROM evaluations e WHERE e.space = t.space AND e.evaluation_id = t.evaluation_id)
"""
_BODILESS: Final = """
    SELECT count(*) FROM spans s WHERE NOT EXISTS (
        SELECT 1 FROM bodies b WHERE b.space = s.space AND b.trace_id = s.trace_id)
"""


@dataclass(slots=True, kw_only=True)
class StoreReport:
    """Result of checking a data folder."""

    version: int = VERSION
    sheets: dict[str, ConservationSheet] = field(default_factory=dict[str, ConservationSheet])
    """Counts of records, spans and events by space."""
    problems: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    """Facts that are no problems, and good to know."""
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Bytes by part."""
    spans: int = 0
    items: int = 0
    """Of the log."""
    received_ns: tuple[int | None, int | None] = (None, None)
    """Times at which the oldest and the newest stored record or span were received."""


def check_data(folder: Path, tell: Callable[[str], None] = lambda text: None) -> StoreReport:
    """Read everything of a data folder.

    Args:
        folder: The data folder.
        tell: Is called with what is looked at.

    Raises:
        ConfigError: There is no store, a collector has it open, or another version wrote it.

    Cost: reads every byte of the log, and each table once or twice.
    """
    report, mark = StoreReport(), read_mark(folder)
    tell("log")
    end = identity = None
    for segment in check_log(folder / LOG_FOLDER):
        report.items += segment.items
        end, identity = segment.end, identity or segment.identity
        if segment.damaged_bytes:
            report.problems.append(f"{segment.path}: {segment.damaged_bytes} bytes are damaged")
        if segment.torn_bytes:
            report.notes.append(
                f"{segment.path.name}: {segment.torn_bytes} torn bytes at its end, of requests "
                "that were never acknowledged"
            )
    if not store_files(folder) and (mark is not None or end is not None):
        report.problems.append(f"the store in {folder} is gone")
        return report
    try:
        with OfflineStore(folder) as store:
            _check_store(store, report, tell)
            ((offset,),) = store.read("SELECT coalesce(max(log_offset), 0) FROM offsets")
            ((number,),) = store.read("SELECT max(folder) FROM identity")
            if end is None and offset:
                report.problems.append(f"the log in {folder} is gone")
            elif end is not None and end < offset:
                report.problems.append(
                    f"the log ends {offset - end} bytes before what the store has read of it"
                )
            if mark is not None and mark.seq > store.last_seq():
                report.problems.append(
                    f"{store.path} ends with commit {store.last_seq()}, {mark.seq} were made"
                )
            others = {identity, None if mark is None else mark.identity} - {None, 0, number}
            if others:
                report.problems.append(f"{store.path} is of another data folder")
    except DamagedStoreError as error:
        report.problems.append(str(error))
    for name, paths in (
        ("store", folder.glob("store-*")),
        ("log", (folder / LOG_FOLDER).glob("*")),
    ):
        report.sizes[name] = sum(path.stat().st_size for path in paths)
    return report


def _check_store(store: OfflineStore, report: StoreReport, tell: Callable[[str], None]) -> None:
    for table, columns in COLUMNS.items():
        tell(f"table {table}")
        for name, _ in columns:  # DuckDB compares the checksum of each block that it reads
            try:
                store.read(f"SELECT bit_xor(hash({name})) FROM {table}")
            except (ConfigError, TransientError) as error:
                report.problems.append(f"table {table}: the column {name} is damaged: {error}")
    tell("keys")
    for table, key in _KEYS.items():
        for *values, count in store.read(
            f"SELECT {key}, count(*) FROM {table} GROUP BY {key} HAVING count(*) > 1 LIMIT 5"
        ):
            text = " / ".join(map(str, values))
            report.problems.append(f"{table}: {count} rows with the key {text}")
    tell("counts")
    for sql, what in ((_ORPHANS, "task results without their evaluation"),
                      (_BODILESS, "spans whose bytes are gone")):  # fmt: skip
        ((count,),) = store.read(sql)
        if count:
            report.problems.append(f"{count} {what}")
    for (space,) in store.read(_SPACES):
        _check_sheet(space, store.conservation(space), report)
    ((report.spans,),) = store.read("SELECT count(*) FROM spans")
    report.received_ns = store.oldest_ns(), store.newest_ns()


def _check_sheet(space: str, sheet: ConservationSheet, report: StoreReport) -> None:
    report.sheets[space] = sheet
    records = sheet.records
    states = (
        records.waiting + records.evaluated + records.skipped + records.expired
        + records.dead_lettered + records.erased + records.lost
    )  # fmt: skip
    if records.accepted != states or records.waiting < 0:
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
    if sheet.has_uncounted_losses:
        note = "something was lost of which nobody knows how much"
        if note not in report.notes:
            report.notes.append(note)
