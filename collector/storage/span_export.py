"""Stored spans as a Parquet file, with what only the span log holds of them."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from collector.storage.json_text import dump_json
from collector.storage.span_codec import PROMOTED, READ_COLUMNS, decode_spans
from collector.storage.span_log import SpanLog
from scouter.model.span import Span

_ROW: Final = {
    "seq": pa.int64(), "space": pa.string(), "received_ns": pa.int64(), "trace_id": pa.string(),
    "span_id": pa.string(), "parent_span_id": pa.string(), "name": pa.string(), "kind": pa.int8(),
    "start_ns": pa.int64(), "end_ns": pa.int64(), "status": pa.int8(),
    "service_name": pa.string(), "service_version": pa.string(), "environment": pa.string(),
    "process": pa.string(), **dict.fromkeys(PROMOTED, pa.string()),
}  # fmt: skip
"""Columns of the table that are taken as they are."""
_READ: Final = {
    "parent_is_remote": pa.bool_(),
    **dict.fromkeys(
        ("status_message", "trace_state", "scope_name", "scope_version", "resource", "attributes",
         "events", "links"),
        pa.string(),
    ),
}  # fmt: skip
"""Columns that come from the span log; attributes, events and links are JSON."""
_PART_ROWS: Final = 5_000
_PART_BYTES: Final = 16 * 2**20
_FETCHED: Final = 200


def export_spans(connection: duckdb.DuckDBPyConnection, log: SpanLog, path: Path) -> None:
    """Write all spans that a connection sees into a file.

    Args:
        connection: Inside a transaction, if the file has to agree with others.
        log: Where the spans' bytes are.
        path: The file; overwritten.

    Raises:
        OSError: It cannot be written.

    Cost: linear; about 30 µs for a span, and 16 MB.
    """
    schema = pa.schema([*_ROW.items(), *_READ.items()])
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        for part in _parts(connection):
            columns = zip(*_rows(part, log), strict=True)
            arrays = [
                pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)
            ]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def _parts(connection: duckdb.DuckDBPyConnection) -> Iterator[list[tuple[Any, ...]]]:
    """Rows of both kinds of columns, in parts of bounded size."""
    names = ", ".join((*_ROW, *READ_COLUMNS))
    cursor = connection.execute(f"SELECT {names} FROM spans")  # noqa: S608 our own words
    size_at = len(_ROW) + READ_COLUMNS.index("span_size")
    part: list[tuple[Any, ...]] = []
    size = 0
    while rows := cursor.fetchmany(_FETCHED):
        part += rows
        size += sum(row[size_at] for row in rows)
        if len(part) >= _PART_ROWS or size >= _PART_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _rows(part: Sequence[tuple[Any, ...]], log: SpanLog) -> Iterator[tuple[Any, ...]]:
    width = len(_ROW)
    spans = {
        (span.trace_id, span.span_id): span
        for span in decode_spans((row[width:] for row in part), log)
    }
    ids = list(_ROW).index("trace_id")
    for row in part:
        span = spans.get(row[ids : ids + 2])
        yield (*row[:width], *((None,) * len(_READ) if span is None else _read(span)))


def _read(span: Span) -> tuple[bool | str | None, ...]:
    events = [[each.name, each.time_ns, each.attributes] for each in span.events]
    links = [[each.trace_id, each.span_id, each.attributes] for each in span.links]
    return (
        span.parent_is_remote, span.status_message, span.trace_state, span.scope.name,
        span.scope.version, dump_json(span.resource.attributes), dump_json(span.attributes),
        dump_json(events), dump_json(links),
    )  # fmt: skip
