"""The care of a DuckDB store: erasure, retention, copies, size and age."""

import time
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import duckdb

from collector.metrics import LOG_APPLIED
from collector.storage.care import maintenance as care
from collector.storage.duckdb import read
from collector.storage.duckdb.erase import LOG_STEP, erase, forget_steps
from collector.storage.duckdb.opened import Opened
from collector.storage.duckdb.transaction import Transaction
from collector.storage.log.scrub import LogScrub
from collector.storage.log.span_codec import encode_batch
from collector.store.erase import Erased, EraseTarget
from scouter.errors import TransientError

_FILES_S: Final = 30.0
"""Longest wait, in seconds, to change or copy whole files while another caller does so."""
_OLDEST_S: Final = 10.0


class Care(Opened):
    """Care; any thread asks."""

    def erase(self, target: EraseTarget) -> "Future[Erased]":
        """Take out everything that a target names."""
        work: Callable[[Transaction], Erased] = lambda tx: erase(tx, self._database, target)  # noqa: E731
        return self._care(work)

    def remove_before(self, before_ns: int) -> int:
        """Take out what is older than a time; returns the number of records and spans.

        Done in slices, each in a commit of its own: what was taken out stays so if one fails.
        """
        removed = 0
        for cut_ns in care.slices(self._database, before_ns):
            work = partial(care.remove_before, database=self._database, before_ns=cut_ns)
            removed += self._remove(work).result()
        return removed

    def keep_within(self, max_bytes: int) -> int:
        """Take out the oldest that came in, and what was made of it, if the store is too large.

        A tenth more than the excess goes, so that the next call need not do it again. Room is
        given back by the row group (`database.ROW_GROUP`) and by the file of the span log.

        Returns:
            The number of records and spans.
        """
        used = self.size_bytes()
        if used <= max_bytes:
            return 0
        cut = care.age_at(self._database, min(1.0, 1.1 * (1 - max_bytes / used)))
        return 0 if cut is None else self.remove_before(cut + 1)

    def compact(self) -> "Future[Any]":
        """Add the changes of every count up; happens by itself now and then."""
        return self._care(lambda tx: care.add_up(tx, self._database))

    def has_rests(self) -> bool:
        """Say whether bytes of what was erased may still be in the files."""
        return bool(self._database.read("SELECT 1 FROM erasures LIMIT 1"))

    def remove_rests(self) -> None:
        """Take the bytes of what was erased out of the files; a start after a crash repeats it.

        The span log's files that hold such spans are written anew, then the database file.

        Raises:
            TransientError: It cannot be done now; it is still to be done then.
        """
        with self._alone_with_files():
            self._scrub_log()
            rewritten = self._committer.rewrite_next()
            self._care(lambda tx: None).result()
            rewritten.result()

    @contextmanager
    def _alone_with_files(self) -> Generator[None]:
        if not self._files.acquire(timeout=_FILES_S):
            raise TransientError("the files of the store are being copied or written anew", 5)
        try:
            yield
        finally:
            self._files.release()

    def _scrub_log(self) -> None:
        """Take the bytes of what was erased out of the span log."""
        # Batches that came before the erasure, and were not filtered, are in the log once this
        # empty one is.
        self._journal.append("", encode_batch([]), 0, Future[None]()).result()
        lost = self._database.read(
            "SELECT seq, space, trace_id, span_id FROM erasures WHERE step = ?", [LOG_STEP]
        )
        if lost:
            scrub = LogScrub((space, trace_id, span_id) for _, space, trace_id, span_id in lost)
            try:
                self._log.rewrite(scrub.concerns, scrub.clean, self._has_spans)
            except OSError as error:
                raise TransientError(f"the span log cannot be written: {error}") from error
            done = max(seq for seq, *_ in lost)
            self._care(lambda tx: forget_steps(tx, self._database, LOG_STEP, done)).result()

    def _has_spans(self, begin: int, end: int) -> bool:
        """Say whether spans have their frame between two places of the log."""
        sql = "SELECT 1 FROM spans WHERE frame >= ? AND frame < ? LIMIT 1"
        return bool(self._database.read(sql, [begin, end]))

    def checkpoint(self) -> None:
        """Write the log into the file proper, which frees the blocks of what was taken out.

        Raises:
            TransientError: It cannot be done now; the next commits do it.
        """
        try:
            with self._database.in_use():
                self._database.checkpoint()
        except duckdb.Error as error:
            self._writer.hurry()  # the thread that commits opens the file again, if it has to
            raise TransientError(f"no checkpoint: {error}") from error

    def backup(self, folder: Path) -> Path:
        """Copy the store as it is now into a folder that `--data` can open; writes go on.

        Erased rows are not in the copy.
        """
        care.refuse_store(folder)
        with self._alone_with_files():
            self._scrub_log()  # of the database only rows are copied
            return care.back_up(self._database, self._log, folder)

    def export(self, folder: Path, tell: Callable[[str], None] = lambda text: None) -> list[Path]:
        """Write every table as it is now into a Parquet file; `tell` is told how far it is."""
        from collector.storage.care.table_export import (
            export_tables,  # 20 MB that a collector lacks
        )

        with self._alone_with_files():
            return export_tables(self._database, self._log, folder, tell)

    def size_bytes(self) -> int:
        """Bytes of the store that hold rows."""
        return care.used_bytes(self._database) + self._log.size_bytes

    def file_bytes(self) -> int:
        """Size on disk, all logs included."""
        return self._database.file_bytes() + self._log.size_bytes

    def oldest_ns(self) -> int | None:
        """Time at which the oldest record or span was received; None in an empty or closed store.

        While there are rows, the answer may be ten seconds old. Scrapes ask for it often, and it
        changes by the hour.
        """
        asked_at, oldest = self._oldest
        if oldest is not None and time.monotonic() < asked_at + _OLDEST_S:
            return oldest
        try:
            oldest = read.read_received(self._database)[0]
        except TransientError:
            return None
        self._oldest = time.monotonic(), oldest
        return oldest

    def newest_ns(self) -> int | None:
        """Time at which the newest record or span was received; None in an empty store.

        Raises:
            TransientError: It cannot be read now.
        """
        return read.read_received(self._database)[1]

    def commit_age_s(self) -> float:
        """Seconds since the last commit, or since the store was opened."""
        return time.monotonic() - self._committer.committed_at

    def pending_bytes(self) -> int:
        """Bytes of acknowledged requests of spans that are not in the database yet."""
        return self._journal.pending_bytes

    def observe_commits(self, observe: Callable[[float], None]) -> None:
        """Have somebody told the seconds that each commit takes, in the writer thread."""
        self._committer.on_commit = observe

    def observe_syncs(self, observe: Callable[[float], None]) -> None:
        """Have somebody told the seconds that each sync of the span log takes, in its thread."""
        self._journal.on_sync = observe

    def _remove(self, work: Callable[[Transaction], object]) -> "Future[Any]":
        """Care that takes out rows; then the files go that no row points into."""
        future = self._care(work)
        future.add_done_callback(self._release)
        return future

    def _release(self, removed: "Future[Any]") -> None:
        if removed.exception() is None and removed.result():
            self._log.release(care.first_frame(self._database, self.totals().get(LOG_APPLIED, 0)))
