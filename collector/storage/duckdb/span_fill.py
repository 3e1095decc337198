"""Columns that an earlier version of the program did not have, filled for the spans it stored.

Newest first, beside everything else, some thousand spans to a commit. A program that ends in
between goes on where it stopped.
"""

import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from collector.storage.duckdb.commit_ranges import Stretch
from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.transaction import Transaction
from collector.storage.log.span_codec import FACT_COLUMNS, READ_COLUMNS, decode_spans, fact_columns
from collector.storage.log.span_log import SpanLog
from scouter.errors import DataError, TransientError
from scouter.model.genai.facts import Kind
from scouter.model.span import Span

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_log: Final = logging.getLogger(__name__)
_ROWS: Final = 8192
"""Spans of one commit, about; more where one commit stored more."""
_BYTES: Final = 8 * 2**20
"""Bytes of spans that are in memory together."""
_TELL_S: Final = 30.0
_RETRY_S: Final = 10.0
_PLACE: Final = ("frame", "span_at")
"""Columns with the place of a span's bytes, which no other span has."""
_HEAD: Final = ("space", "trace_id", "span_id")
_SIZE: Final = len(_HEAD) + READ_COLUMNS.index("span_size")
_AT: Final = tuple(len(_HEAD) + READ_COLUMNS.index(name) for name in _PLACE)
_LOST: Final = tuple(Kind.OTHER.value if name == "genai_kind" else None for name in FACT_COLUMNS)
"""Facts that are stored for spans whose bytes are gone."""

Row = tuple[Any, ...]
Care = Callable[[Callable[[Transaction], None]], "Future[None]"]
"""Has work done inside the next commit."""


class SpanFill:
    """Fills what is missing; one thread runs it.

    Args:
        database: The open file.
        log: Has the spans' bytes.
        care: Commits.
        closing: Set when it has to end.
    """

    def __init__(
        self,
        database: Database,
        log: SpanLog,
        care: Care,
        closing: threading.Event,
    ) -> None:
        self._database, self._span_log = database, log
        self._care, self._closing = care, closing
        self.done = threading.Event()
        """Set once there is nothing left to fill."""

    def run(self) -> None:
        """Fill everything; a fault is logged, and waited out."""
        while not self._closing.is_set():
            try:
                if self._fill():
                    self.done.set()
                    return
            except (TransientError, DataError) as error:
                _log.warning("columns of older spans have to wait: %s", error)
                self._closing.wait(_RETRY_S)
            except Exception:  # noqa: BLE001 a store with empty columns is better than none
                _log.exception("columns of older spans stay empty until the next start")
                return

    def _fill(self) -> bool:
        stretches = self._stretches()
        total = sum(rows for _, rows in stretches)
        if total:
            _log.info("filling columns of %d spans that an earlier version stored", total)
        told, filled = time.monotonic(), 0
        for stretch, rows in stretches:
            began = time.monotonic()
            self._fill_one(stretch)
            filled += rows
            if time.monotonic() - told > _TELL_S:
                told = time.monotonic()
                _log.info("columns of %d of %d older spans are filled", filled, total)
            # Half of the time belongs to everybody else.
            if self._closing.wait(min(1.0, time.monotonic() - began)):
                return False
        if total:
            _log.info("the columns of all %d older spans are filled", total)
        return True

    def _stretches(self) -> list[tuple[Stretch, int]]:
        """Ranges of commits with spans left to fill, newest first, and their numbers of spans."""
        if not self._database.read("SELECT 1 FROM spans WHERE genai_kind IS NULL LIMIT 1"):
            return []
        rows = self._database.read(
            f"""
            SELECT min(seq), max(seq), sum(n)::BIGINT FROM (
                SELECT seq, n, sum(n) OVER (ORDER BY seq DESC) // {_ROWS} AS part
                FROM (SELECT seq, count(*) AS n FROM spans WHERE genai_kind IS NULL GROUP BY seq)
            ) GROUP BY part ORDER BY part
            """
        )
        return [(Stretch(first, last), n) for first, last, n in rows]

    def _fill_one(self, stretch: Stretch) -> None:
        rows = self._database.read(
            f"SELECT {', '.join((*_HEAD, *READ_COLUMNS))} FROM spans"
            " WHERE seq BETWEEN ? AND ? AND genai_kind IS NULL",
            stretch,
        )
        found: list[Row] = []
        for part in _parts(rows):
            facts = self._facts(part)
            found += [
                (*(row[at] for at in _AT), *facts.get(row[: len(_HEAD)], _LOST)) for row in part
            ]
        work = partial(_store, database=self._database, stretch=stretch)
        self._care(partial(work, rows=found)).result()

    def _facts(self, rows: Sequence[Row]) -> dict[Row, Row]:
        """The columns of some spans by space, trace id and span id."""
        by_space: defaultdict[str, list[Row]] = defaultdict(list)
        for row in rows:
            by_space[row[0]].append(row[len(_HEAD) :])
        found: dict[Row, Row] = {}
        for space, places in by_space.items():
            spans: list[Span] = decode_spans(places, self._span_log)
            if spans:
                for span, facts in zip(spans, zip(*fact_columns(spans), strict=True), strict=True):
                    found[space, span.trace_id, span.span_id] = facts
        return found


def _parts(rows: Sequence[Row]) -> Iterator[Sequence[Row]]:
    """Cut rows, in the order of the log, where their spans get too large to be read together."""
    part: list[Row] = []
    size = 0
    for row in sorted(rows, key=lambda row: (row[len(_HEAD)], row[_AT[1]])):
        if part and size + row[_SIZE] > _BYTES:
            yield part
            part, size = [], 0
        part.append(row)
        size += row[_SIZE]
    if part:
        yield part


def _store(tx: Transaction, *, database: Database, stretch: Stretch, rows: Sequence[Row]) -> None:
    """Write columns of spans; of one that is gone meanwhile there is nothing to write."""
    if not rows:
        return
    connection = database.connection()
    types = dict(
        run(
            connection,
            "SELECT column_name, data_type FROM duckdb_columns() WHERE table_name = 'spans'"
            " AND database_name = 'store'",
        )
    )
    names = (*_PLACE, *FACT_COLUMNS)
    values = ", ".join(f"unnest(?::{types[name]}[]) AS {name}" for name in names)
    run(
        connection,
        f"UPDATE spans SET {', '.join(f'{name} = k.{name}' for name in FACT_COLUMNS)}"
        f" FROM (SELECT {values}) k WHERE spans.frame = k.frame AND spans.span_at = k.span_at"
        f" AND spans.seq BETWEEN {stretch.first:d} AND {stretch.last:d}",
        [list(column) for column in zip(*rows, strict=True)],
    )
