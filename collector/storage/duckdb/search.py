"""Spans and traces by filter: what was stored last comes first.

A search goes from the newest commits to the oldest ones in steps that grow, and stops once the page
is full: what is common is found in the first step. What is rare or nowhere is mostly passed over by
the filters of `duckdb_blocks`.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from collector.storage.duckdb.attribute_hashes import has_attribute, possible_hashes
from collector.storage.duckdb.block_filters import (
    LAST,
    BlockFilters,
    BlockQuery,
    Stretch,
    value_hash,
    within,
)
from collector.storage.duckdb.blocks import FOUND_BY
from collector.storage.duckdb.read import StoredSpans
from collector.storage.duckdb.transaction import one_of
from collector.storage.log.span_codec import IS_SPAN, READ_COLUMNS, decode_spans, trace_hash
from collector.storage.log.span_log import SpanLog
from collector.storage.port.search import (
    SpanPage,
    SpanPosition,
    SpanQuery,
    SpanSummary,
    TracePage,
    TraceSummary,
)
from scouter.model.span import SpanKind, StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

SEARCHED: Final = tuple(name for name in FOUND_BY if name not in ("name", "status"))
"""Columns that attributes have for themselves."""
_POSITION: Final = SpanPosition._fields
_OWN: Final = ("parent_span_id", "name", "kind", "status", "end_ns")
_COLUMNS: Final = (*_POSITION, *_OWN, *SEARCHED)
_ORDER: Final = "ORDER BY seq DESC, start_ns DESC, trace_id DESC, span_id DESC LIMIT ?"
_STEP: Final = 2
"""Blocks of the first step, that of what has no block yet included."""
_GROWTH: Final = 6
_LAST: Final = 32
"""So many blocks are no two steps more: each query that finds a row reads all columns of it."""
_TRACE_ROWS: Final = 12
"""Matching spans that are read at once for each trace of a page."""
_MOST: Final = 4000
"""Matching spans that are read at once."""


def read_span_page(stored: StoredSpans, query: SpanQuery) -> SpanPage:
    """One page of spans.

    Cost: a few steps for what is common; for what is nowhere 0.3 µs for each 8,192 spans, and for
    what no filter knows (an attribute without a column, a duration) a look at some columns of
    every span in the time asked for.
    """
    found: list[SpanSummary] = []
    for rows in _matching(stored, query, _COLUMNS, query.limit + 1):
        found += map(_summary, rows)
        if len(found) > query.limit:
            break
    page = tuple(found[: query.limit])
    return SpanPage(items=page, next_before=page[-1].position if len(found) > len(page) else None)


def read_trace_page(stored: StoredSpans, query: SpanQuery) -> TracePage:
    """One page of the traces that have a matching span, each at the place of the newest one.

    Args:
        stored: The spans.
        query: Says as of when.
    """
    assert query.as_of is not None  # noqa: S101 the store has filled it in
    places: dict[str, SpanPosition] = {}
    size = min((query.limit + 1) * _TRACE_ROWS, _MOST)
    for rows in _matching(stored, query, _POSITION, size):
        new: dict[str, SpanPosition] = {}
        for row in rows:
            if row[2] not in places:
                new.setdefault(row[2], SpanPosition(*row[:4]))
        for trace_id in _shown_before(stored, query, new):
            del new[trace_id]
        places |= new
        if len(places) > query.limit:
            break
    page = list(places)[: query.limit]
    summaries = _summaries(stored, query.space, page)
    last = places[page[-1]] if len(places) > len(page) else None
    return TracePage(
        items=tuple(summaries[each] for each in page if each in summaries),
        next_before=last,
        as_of=query.as_of,
    )


# --- spans that match ---------------------------------------------------------------------------


def _matching(
    stored: StoredSpans,
    query: SpanQuery,
    columns: Sequence[str],
    size: int,
    *,
    trace_ids: Collection[str] | None = None,
    first: int = 0,
) -> Iterator[list[tuple[Any, ...]]]:
    """Rows of the spans that match, in order, so many at a time at most.

    Args:
        stored: The spans.
        query: The filter; its limit is not looked at.
        columns: What the rows have; they begin with the position.
        size: Rows of one part.
        trace_ids: Only spans of these traces.
        first: Only spans of this commit and later ones.
    """
    where, given = _conditions(query, trace_ids)
    columns = (*columns, *READ_COLUMNS) if query.attributes else columns
    before = query.before
    for step in _steps(_stretches(stored.filters, query, trace_ids, first)):
        while True:
            below, position = ("", ()) if before is None else _below(before)
            rows = stored.database.read(
                f"SELECT {', '.join(columns)} FROM spans WHERE {within(step)} AND {where}{below}"
                f" {_ORDER}",
                [*given, *position, size],
            )
            yield list(_verified(stored.log, query, rows)) if query.attributes else rows
            if len(rows) < size:
                break
            before = SpanPosition(*rows[-1][:4])


def _below(position: SpanPosition) -> tuple[str, tuple[object, ...]]:
    return (
        f" AND seq <= ? AND ({', '.join(_POSITION)}) < (?, ?, ?, ?)",
        (position.seq, *position),
    )


def _conditions(query: SpanQuery, trace_ids: Collection[str] | None) -> tuple[str, list[object]]:
    """The filter as SQL, and its values."""
    filters: list[tuple[str, object]] = [
        ("space = ?", query.space),
        ("name = ?", query.name),
        ("status = ?", None if query.status is None else query.status.value),
        ("start_ns >= ?", query.since_ns),
        ("start_ns < ?", query.until_ns),
        ("end_ns - start_ns >= ?", query.min_duration_ns),
        ("seq <= ?", query.as_of),
        *((f"{name} = ?", query.columns.get(name)) for name in SEARCHED),
    ]
    where = [IS_SPAN, *(sql for sql, value in filters if value is not None)]
    given = [value for _, value in filters if value is not None]
    for key, value in query.attributes:
        hashes = possible_hashes(key, value)
        # One call for each is twenty times as fast as `list_has_any`.
        each = (f"list_contains(attribute_hashes, {number}::UINTEGER)" for number in hashes)
        where.append(f"({' OR '.join(each) or 'false'})")
    if trace_ids is not None:
        where.append(one_of("trace_hash", trace_ids))
        given += map(trace_hash, trace_ids)
        where.append(one_of("trace_id", trace_ids))
        given += trace_ids
    return " AND ".join(where), given


def _stretches(
    filters: BlockFilters, query: SpanQuery, trace_ids: Collection[str] | None, first: int
) -> list[Stretch]:
    named: dict[str, object] = {**query.columns}
    if query.name is not None:
        named["name"] = query.name
    if query.status is not None:
        named["status"] = query.status.value
    values = [[value_hash(query.space, name, value)] for name, value in named.items()]
    if trace_ids is not None:
        values.append([value_hash(query.space, "trace_id", each) for each in trace_ids])
    last = LAST if query.as_of is None else query.as_of
    return filters.stretches(
        BlockQuery(
            table="spans",
            values=values,
            since_ns=query.since_ns,
            until_ns=query.until_ns,
            first=first,
            last=last if query.before is None else min(last, query.before.seq),
        ),
    )


def _steps(stretches: Sequence[Stretch]) -> Iterator[Sequence[Stretch]]:
    """Cut blocks, newest first, into parts that grow from one to the next."""
    at, size = 0, _STEP
    while at < len(stretches):
        yield stretches[at : at + size]
        at, size = at + size, size * _GROWTH
        if len(stretches) - at <= _LAST:
            size = _LAST


def _verified(
    log: SpanLog, query: SpanQuery, rows: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Those rows whose spans have the attributes; other attributes may share their hashes."""
    width = len(READ_COLUMNS)
    spans = {
        (span.trace_id, span.span_id): span
        for span in decode_spans((row[-width:] for row in rows), log)
    }
    for row in rows:
        span = spans.get(row[2:4])
        if span is not None and all(
            has_attribute(span.attributes, key, value) for key, value in query.attributes
        ):
            yield row


def _summary(row: Sequence[Any]) -> SpanSummary:
    position = SpanPosition(*row[:4])
    parent_span_id, name, kind, status, end_ns = row[4:9]
    columns = dict(zip(SEARCHED, row[9:], strict=False))
    return SpanSummary(
        position=position,
        parent_span_id=parent_span_id,
        name=name,
        kind=SpanKind(kind),
        status=StatusCode(status),
        end_ns=end_ns,
        columns={key: value for key, value in columns.items() if value},
    )


# --- traces -------------------------------------------------------------------------------------


def _shown_before(stored: StoredSpans, query: SpanQuery, trace_ids: Collection[str]) -> set[str]:
    """Those traces that belong on an earlier page: a newer span of theirs matches, too."""
    if query.before is None or not trace_ids:
        return set()
    rows = _matching(
        stored,
        replace(query, before=None),
        _POSITION,
        _MOST,
        trace_ids=trace_ids,
        first=query.before.seq,
    )
    return {row[2] for part in rows for row in part if row[:4] >= query.before}


def _summaries(
    stored: StoredSpans, space: str, trace_ids: Sequence[str]
) -> dict[str, TraceSummary]:
    """Traces by id, counted over all of their spans."""
    if not trace_ids:
        return {}
    rows = stored.database.read(
        f"""
        SELECT trace_id,
            coalesce(arg_min(name, start_ns) FILTER (parent_span_id IS NULL),
                     arg_min(name, start_ns)),
            coalesce(arg_min(service_name, start_ns) FILTER (parent_span_id IS NULL),
                     arg_min(service_name, start_ns)),
            min(start_ns), max(end_ns), count(*), count(*) FILTER (status = ?),
            sum(input_tokens)::BIGINT, sum(output_tokens)::BIGINT
        FROM spans
        WHERE {within(stored.filters.of_traces(space, trace_ids))}
          AND {one_of("trace_hash", trace_ids)} AND {one_of("trace_id", trace_ids)}
          AND space = ? AND {IS_SPAN}
        GROUP BY trace_id
        """,
        [StatusCode.ERROR.value, *map(trace_hash, trace_ids), *trace_ids, space],
    )
    fields = tuple(TraceSummary.__dataclass_fields__)
    return {row[0]: TraceSummary(**dict(zip(fields, row, strict=True))) for row in rows}
