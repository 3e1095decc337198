"""Cost of stored keys for the records and spans that come in.

`python -m tests.bench.known` makes a store with 100 thousand records and one with 10 million
(`--rows N`), each with as many spans. It puts new records and spans in, in process, and compares
the CPU time of each, and the time until the keys are known. `--short` is for tests.

DuckDB itself makes the rows: the cost of a lookup depends on their number.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import duckdb

from collector.store.file_store import FileStore
from collector.store.files import store_files
from collector.store.schema import COLUMNS
from scouter.model.span import Resource, Span
from tests.bench.figures import Figures
from tests.contracts.store_data import SPACE, record
from tests.support.store_appends import AppendingStore

_BATCH: Final = 500
_ROUNDS: Final = 3
_AHEAD: Final = 4
"""Batches that may wait for the store."""
_HASH: Final = "(hash({of})::HUGEINT - 9223372036854775808)::BIGINT"
_SPAN: Final = Span(
    trace_id="0" * 32,
    span_id="0" * 16,
    name="chat",
    start_ns=1,
    end_ns=2,
    attributes={"gen_ai.operation.name": "chat"},
    resource=Resource(attributes={"service.name": "bench-agent"}),
)


def fill(folder: Path, rows: int) -> None:
    """Make so many records, and spans of traces of ten."""
    trace, hashed = "md5((n // 10)::VARCHAR)", _HASH.format(of="n // 10")
    tables: dict[str, tuple[str, Mapping[str, str]]] = {
        "records": ("range({rows})", {
            "uid": "md5(n::VARCHAR)", "uid_hash": _HASH.format(of="n"), "digest": "'d'",
            "profile_name": "'p'", "alias": "'p'", "created_ns": "1", "context": "'{}'",
        }),
        "spans": ("range({rows})", {
            "trace_id": trace, "span_id": "lpad(to_hex(n), 16, '0')", "name": "'chat'",
            "start_ns": "1", "end_ns": "2", "checksum": "1", "size_bytes": "9", "is_event": "0",
        }),
        "bodies": ("range(0, {rows}, 10)", {
            "trace_id": trace, "trace_hash": hashed, "spans": "10", "size_bytes": "90",
        }),
        "offsets": ("range(0, {rows}, {batch})", {"log_offset": "0", "low_seq": "0"}),
    }  # fmt: skip
    FileStore(folder).close()
    (path,) = store_files(folder)
    with duckdb.connect(path) as connection:
        for table, (numbers, given) in tables.items():
            common = {"seq": f"1 + n // {_BATCH}", "space": f"'{SPACE}'", "received_ns": "1"}
            values = [(common | dict(given)).get(name, "NULL") for name, _ in COLUMNS[table]]
            source = numbers.format(rows=rows, batch=_BATCH)
            connection.execute(
                f"INSERT INTO {table} SELECT {', '.join(values)} FROM {source} t(n)"  # noqa: S608
            )


def measure(folder: Path, stored: int, sent: int) -> tuple[float, float]:
    """Put new records and spans into a store.

    Returns:
        Seconds of CPU for a record, and for a span.
    """
    rng = random.Random()  # others than in the last round
    records = [
        [record(rng.randbytes(16).hex(), trace_id=rng.randbytes(16).hex()) for _ in range(_BATCH)]
        for _ in range(sent // _BATCH)
    ]
    spans: list[list[Span]] = []
    for _ in range(sent // _BATCH):
        traces = [rng.randbytes(16).hex() for _ in range(_BATCH // 10)]
        spans.append([
            replace(_SPAN, trace_id=trace, span_id=rng.randbytes(8).hex())
            for trace in traces for _ in range(10)
        ])  # fmt: skip
    began = time.perf_counter()
    with closing(AppendingStore(folder)) as store:
        opened_s = time.perf_counter() - began
        record_s, records_s = _put(records, store.append_records)
        span_s, spans_s = _put(spans, lambda batch: store.append_spans(SPACE, batch, 1))
    print(
        f"{stored:>10,} stored: {record_s * 1e6:.1f} µs of CPU for a record ({records_s:,.0f}/s), "
        f"{span_s * 1e6:.1f} for a span ({spans_s:,.0f}/s); open, and all keys known, in "
        f"{opened_s:.2f} s",
        flush=True,
    )
    return record_s, span_s


def _put(
    batches: Sequence[list[Any]], append: Callable[[list[Any]], "Future[Any]"]
) -> tuple[float, float]:
    """Seconds of CPU for each thing, and things per second."""
    used, began = time.process_time(), time.perf_counter()
    waiting: deque[Future[Any]] = deque()
    for batch in batches:
        waiting.append(append(batch))
        if len(waiting) > _AHEAD:
            waiting.popleft().result()
    for each in waiting:
        each.result()
    count = sum(map(len, batches))
    return (time.process_time() - used) / count, count / (time.perf_counter() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--short", action="store_true", help="two small stores")
    options = parser.parse_args()
    few, many, sent = (1_000, 50_000, 1_000) if options.short else (100_000, options.rows, 20_000)
    used: dict[int, list[tuple[float, float]]] = {few: [], many: []}
    with tempfile.TemporaryDirectory(prefix="scouter-known-") as name:
        folders = {stored: Path(name) / str(stored) for stored in used}
        for stored, folder in folders.items():
            fill(folder, stored)
        for _ in range(1 if options.short else _ROUNDS):
            for stored, folder in folders.items():
                used[stored].append(measure(folder, stored, sent))
    figures = Figures("known", is_short=options.short)
    for at, what in enumerate(("record", "span")):
        many_s, few_s = (statistics.median(each[at] for each in used[n]) for n in (many, few))
        bound = 1.2 if what == "span" else None
        figures.add(f"CPU per {what}, many stored / few", many_s / few_s, "x", at_most=bound)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
