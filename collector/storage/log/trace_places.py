"""Where the spans of a trace are in the span log, without a query of the database.

To plan the smallest query takes DuckDB longer than all else that an answer about one trace needs.
So there is a file for each block of spans (`block_filters`) with the columns that spans are read
by, ordered by trace: a look into it takes 0.03 ms. What is in no such file is asked of the
database, which alone knows what is stored. A file goes before a row of its block does, may be lost
or damaged at any time, and is made anew after the next start.

A file has a head, an entry for each trace in ascending order, and in the same order the rows of
each: 39 bytes for a span where a trace has ten. A checksum of head and entries is looked at when a
file is first looked into, and one of a trace's rows each time, so that no more is read than is
wanted.
"""

import json
import logging
import os
import struct
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from operator import itemgetter
from pathlib import Path
from typing import Any, Final, NamedTuple
from zlib import crc32

import duckdb

from collector.storage.duckdb.block_filters import Stretch
from collector.storage.duckdb.database import run
from collector.storage.log.span_codec import READ_COLUMNS
from collector.storage.log.span_log import sync_folder

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_log: Final = logging.getLogger(__name__)
PLACES_FOLDER: Final = "traces"
"""Name of the folder inside a data folder."""
_MARK: Final = b"SPL1"
_MARKED: Final = struct.Struct(">4sI")
"""Mark, checksum of what follows but for the rows."""
_HEAD: Final = struct.Struct(">III")
"""Bytes of the names of spaces, traces, rows."""
_KEY: Final = struct.Struct(">16sI")
"""Trace id, place of the space among the names."""
_ENTRY: Final = struct.Struct(">16sIII")
"""The same, checksum of the rows, number of the first one."""
_ROW: Final = struct.Struct(">qiiiiiiI")
"""The columns `READ_COLUMNS`."""
_SELECT: Final = f"""
    SELECT trace_id, space, {", ".join(READ_COLUMNS)} FROM spans WHERE seq BETWEEN ? AND ?
"""


class _Index(NamedTuple):
    """What the head of a file says."""

    spaces: Sequence[str]
    entries_at: int
    entries: int
    rows_at: int
    rows: int


class TraceRows:
    """Collects the rows of a block's file."""

    def __init__(self) -> None:
        self._parts: defaultdict[tuple[str, str], bytearray] = defaultdict(bytearray)
        """By trace and space."""

    def add(self, space: str, trace_ids: Iterable[str], rows: Iterable[Sequence[int]]) -> None:
        """Take some rows: the columns `READ_COLUMNS` of spans of these traces."""
        parts, pack = self._parts, _ROW.pack
        for trace_id, row in zip(trace_ids, rows, strict=True):
            parts[trace_id, space] += pack(*row)

    def encoded(self) -> bytes | None:
        """The file; None without rows."""
        if not self._parts:
            return None
        spaces = sorted({space for _, space in self._parts})
        number = {space: at for at, space in enumerate(spaces)}
        names = json.dumps(spaces).encode()
        entries: list[bytes] = []
        parts: list[bytearray] = []
        first = 0
        for (trace_id, space), part in sorted(self._parts.items(), key=itemgetter(0)):
            entries.append(_ENTRY.pack(bytes.fromhex(trace_id), number[space], crc32(part), first))
            parts.append(part)
            first += len(part) // _ROW.size
        head = b"".join([_HEAD.pack(len(names), len(entries), first), names, *entries])
        return b"".join([_MARKED.pack(_MARK, crc32(head)), head, *parts])


class TracePlaces:
    """The files of a store. Any thread looks; the thread that commits does all else.

    Args:
        folder: Where they are; made if it is not there.
        blocks: Those of spans, in any order. Files of other blocks are removed.

    Raises:
        OSError: The folder cannot be used.
    """

    def __init__(self, folder: Path, blocks: Iterable[Stretch]) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, exist_ok=True)
        self._sizes: dict[Stretch, int] = {}
        """Of each block that has a file, its bytes."""
        self._read: dict[Stretch, _Index] = {}
        """Of each block whose file was looked into."""
        self._damaged: set[Stretch] = set()
        known = {_name(each): each for each in blocks}
        for entry in list(os.scandir(folder)):
            if (block := known.pop(entry.name, None)) is not None:
                self._sizes[block] = entry.stat().st_size
            else:
                os.unlink(entry.path)
        self.missing: Final = sorted(known.values())
        """Blocks that had no file at the start, the newest last: whoever makes one takes it out."""

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(self._sizes.copy().values())

    def find(self, block: Stretch, space: str, trace_id: str) -> list[tuple[Any, ...]] | None:
        """The rows of a trace in a block: the columns `READ_COLUMNS`.

        Returns:
            None if only the database can tell.

        Cost: 0.03 ms.
        """
        if block not in self._sizes or block in self._damaged:
            return None
        path = self._folder / _name(block)
        try:
            with path.open("rb", buffering=0) as file:
                index = self._read.get(block) or _decoded(file.fileno())
                found = index and _find(index, file.fileno(), space, bytes.fromhex(trace_id))
        except OSError as error:
            _log.debug("places of spans cannot be read: %s", error)  # or the file went meanwhile
            return None
        if index is None or found is None:
            _log.warning("%s is damaged, its traces take longer", path)
            self._damaged.add(block)
            with suppress(OSError):
                path.unlink(missing_ok=True)  # the next start has it made anew
            return None
        self._read[block] = index
        return found

    def write(
        self, connection: duckdb.DuckDBPyConnection, block: Stretch, rows: TraceRows | None = None
    ) -> None:
        """Make the file of a block; where the disk has no room for it, the block has none.

        Args:
            connection: That of the thread.
            block: The block.
            rows: All of its rows, where they were collected; else they are read.
        """
        if rows is None:
            rows = TraceRows()
            for trace_id, space, *row in run(connection, _SELECT, [*block]):
                rows.add(space, [trace_id], [row])
        data = rows.encoded()
        if data is None:
            return  # retention was here
        path = self._folder / _name(block)
        partial = path.with_suffix(".partial")
        try:
            partial.touch(mode=0o600)
            partial.write_bytes(data)
            self._sizes[block] = len(data)
            partial.replace(path)
        except OSError as error:
            _log.warning("no %s, traces of it take longer: %s", path, error)
            self._sizes.pop(block, None)

    def lose(self, seqs: Collection[int]) -> None:
        """Remove the files of blocks that rows are taken out of, before these are.

        Args:
            seqs: The commits that had stored the rows.

        Raises:
            OSError: A file cannot be removed for good; the rows must stay then.
        """
        if not seqs:
            return  # as nearly every commit; there may be thousands of blocks
        ordered = sorted(set(seqs))
        touched = [
            each
            for each in self._sizes
            if bisect_left(ordered, each.first) < bisect_right(ordered, each.last)
        ]
        for each in touched:
            (self._folder / _name(each)).unlink(missing_ok=True)
        if touched:
            sync_folder(self._folder)  # none may come back with the power
        for each in touched:
            del self._sizes[each]
            self._read.pop(each, None)


def _name(block: Stretch) -> str:
    return f"{block.first}-{block.last}.places"


def _decoded(file: int) -> _Index | None:
    """Read the head of a file; None if it is not as it was written."""
    names_at = _MARKED.size + _HEAD.size
    start = os.pread(file, names_at, 0)
    if len(start) < names_at:
        return None
    mark, checksum = _MARKED.unpack_from(start)
    names, entries, rows = _HEAD.unpack_from(start, _MARKED.size)
    size = names + entries * _ENTRY.size
    if mark != _MARK or names_at + size + rows * _ROW.size != os.fstat(file).st_size:
        return None
    rest = os.pread(file, size, names_at)
    if crc32(rest, crc32(start[_MARKED.size :])) != checksum:
        return None
    return _Index(
        spaces=json.loads(rest[:names]),
        entries_at=names_at + names,
        entries=entries,
        rows_at=names_at + size,
        rows=rows,
    )


def _find(index: _Index, file: int, space: str, trace_id: bytes) -> list[tuple[Any, ...]] | None:
    """The rows of a trace; None if they are not as they were written."""
    if space not in index.spaces:
        return []
    key = _KEY.pack(trace_id, index.spaces.index(space))
    entries = os.pread(file, index.entries * _ENTRY.size, index.entries_at)

    def key_at(at: int) -> bytes:
        return entries[at * _ENTRY.size : at * _ENTRY.size + _KEY.size]

    at = bisect_left(range(index.entries), key, key=key_at)
    if key_at(at) != key:
        return []
    *_, checksum, first = _ENTRY.unpack_from(entries, at * _ENTRY.size)
    behind = (at + 1) * _ENTRY.size
    last = _ENTRY.unpack_from(entries, behind)[-1] if behind < len(entries) else index.rows
    rows = os.pread(file, (last - first) * _ROW.size, index.rows_at + first * _ROW.size)
    return list(_ROW.iter_unpack(rows)) if crc32(rows) == checksum else None
