"""Stored spans as Arrow tables, with all that their bodies say."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from collector.split import split
from collector.store.bodies import decompress
from collector.store.json_text import dump_json
from collector.store.reads import Reads
from collector.store.span_queries import SEARCHED
from scouter.model.otlp import decode_request
from scouter.model.span import Span

_ROW: Final = {
    "seq": pa.int64(), "space": pa.string(), "trace_id": pa.string(), "span_id": pa.string(),
    "received_ns": pa.int64(), "parent_span_id": pa.string(), "name": pa.string(),
    "kind": pa.int8(), "start_ns": pa.int64(), "end_ns": pa.int64(), "status": pa.int8(),
    "process": pa.string(), **dict.fromkeys(SEARCHED, pa.string()), "is_event": pa.bool_(),
}  # fmt: skip
"""Columns of the table that are taken as they are."""
_READ: Final = {
    "parent_is_remote": pa.bool_(), "dropped_count": pa.int64(),
    **dict.fromkeys(
        ("status_message", "trace_state", "scope_name", "scope_version", "resource", "attributes",
         "events", "links"),
        pa.string(),
    ),
}  # fmt: skip
"""Columns that come from the bodies; attributes, events and links are JSON."""
SPAN_SCHEMA: Final = pa.schema([*_ROW.items(), *_READ.items()])
SPAN_COLUMNS: Final = ", ".join(_ROW)
"""Columns of the table `spans` that `span_table` takes, in their order."""
_KEY: Final = 4
"""The first columns: commit, space, trace and span."""
_PART_BYTES: Final = 4 * 2**20
"""Bytes of spans that are decoded together; their objects take several times as much."""
_SIZES: Final = """
    SELECT seq, sum(size_bytes)::BIGINT FROM spans WHERE seq <= $1 GROUP BY seq ORDER BY seq
"""
_SPANS: Final = f"""
    SELECT {SPAN_COLUMNS} FROM spans WHERE seq BETWEEN $1 AND $2
    ORDER BY seq, space, trace_id, start_ns, span_id
"""
_BODIES: Final = "SELECT seq, space, body FROM bodies WHERE seq BETWEEN $1 AND $2"


def span_tables(reads: Reads, last: int) -> Iterator[pa.Table]:
    """Spans with all that their bodies say of them, in parts of bounded size.

    Args:
        reads: Of the store.
        last: The last commit whose spans are exported.

    Returns:
        Tables in the order of commits; without any span one that has no rows.

    Cost: linear, about 30 µs for a span. A commit is read at once, however long it is.
    """
    sizes = reads.read(_SIZES, [last])
    for part in split(sizes, lambda size: (size[1],), (_PART_BYTES,)):
        commits = [part[0][0], part[-1][0]]
        yield span_table(reads.read(_SPANS, commits), reads.read(_BODIES, commits))
    if not sizes:
        yield SPAN_SCHEMA.empty_table()


def span_table(spans: Iterable[Sequence[Any]], bodies: Iterable[Sequence[Any]]) -> pa.Table:
    """Some spans with all that their bodies say of them.

    Args:
        spans: Rows of `SPAN_COLUMNS`.
        bodies: Commit, space and stored body of all bodies that these spans are in, and maybe
            of others.
    """
    known = {
        (seq, space, span.trace_id, span.span_id): span
        for seq, space, body in bodies
        for span in decode_request(ExportTraceServiceRequest.FromString(decompress(body))).spans
    }
    rows = [(*row[:-1], bool(row[-1]), *_read(known[tuple(row[:_KEY])])) for row in spans]
    columns = zip(*rows, strict=True) if rows else [()] * len(SPAN_SCHEMA)
    arrays = [
        pa.array(values, kind) for values, kind in zip(columns, SPAN_SCHEMA.types, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=SPAN_SCHEMA)


def _read(span: Span) -> tuple[bool | int | str | None, ...]:
    events = [[each.name, each.time_ns, each.attributes] for each in span.events]
    links = [[each.trace_id, each.span_id, each.attributes] for each in span.links]
    return (
        span.parent_is_remote, span.dropped_count, span.status_message, span.trace_state,
        span.scope.name, span.scope.version, dump_json(span.resource.attributes),
        dump_json(span.attributes), dump_json(events), dump_json(links),
    )  # fmt: skip
