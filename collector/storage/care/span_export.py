"""Stored spans as Arrow tables, with what only the span log holds of them."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from collections.abc import Iterator, Sequence
from typing import Any, Final

import pyarrow as pa

from collector.storage.log.span_codec import PROMOTED, READ_COLUMNS, decode_spans
from collector.storage.log.span_log import SpanLog
from collector.store.json_text import dump_json
from scouter.model.span import Span

_ROW: Final = {
    "seq": pa.int64(), "space": pa.string(), "received_ns": pa.int64(), "trace_id": pa.string(),
    "span_id": pa.string(), "parent_span_id": pa.string(), "name": pa.string(), "kind": pa.int8(),
    "start_ns": pa.int64(), "end_ns": pa.int64(), "status": pa.int8(),
    "service_name": pa.string(), "service_version": pa.string(), "environment": pa.string(),
    "process": pa.string(), **dict.fromkeys(PROMOTED, pa.string()), "is_event": pa.bool_(),
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
_PART_BYTES: Final = 4 * 2**20
"""Bytes of spans that are decoded together; their objects take several times as much."""
SPANS: Final = (
    f"SELECT {', '.join((*_ROW, *READ_COLUMNS))} FROM spans WHERE rowid >= $1 AND rowid < $2"  # noqa: S608 our own words
)
"""SQL for the rows of some spans, as `span_tables` takes them."""


def span_tables(rows: pa.Table, log: SpanLog) -> Iterator[pa.Table]:
    """Spans with all that the span log holds of them, in parts of bounded size.

    Args:
        rows: Rows that `SPANS` has read; none give one table without rows.
        log: Holds the bytes of the spans.

    Cost: linear; about 30 µs for a span.
    """
    schema = pa.schema([*_ROW.items(), *_READ.items()])
    if not rows.num_rows:
        yield schema.empty_table()
    for part in _parts(rows):
        columns = zip(*_rows(part, log), strict=True)
        arrays = [
            pa.array(values, kind) for values, kind in zip(columns, schema.types, strict=True)
        ]
        yield pa.Table.from_arrays(arrays, schema=schema)


def _parts(rows: pa.Table) -> Iterator[list[tuple[Any, ...]]]:
    """The rows as tuples, so many together as take a bounded size in the log."""
    size_at = len(_ROW) + READ_COLUMNS.index("span_size")
    part: list[tuple[Any, ...]] = []
    size = 0
    for row in zip(*(column.to_pylist() for column in rows.columns), strict=True):
        part.append(row)
        size += row[size_at]
        if size >= _PART_BYTES:
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
