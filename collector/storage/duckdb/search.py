"""Spans by filter: what was stored last comes first.

A search goes from the newest commits to the oldest ones in steps that grow, and stops once the page
is full: what is common is found in the first step.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Any, Final

from collector.storage.duckdb.commit_ranges import Stretch, within
from collector.storage.duckdb.judged_traces import judged_traces
from collector.storage.duckdb.read import StoredSpans
from collector.storage.duckdb.transaction import one_of
from collector.storage.log.attribute_hashes import has_attribute, possible_hashes
from collector.storage.log.span_codec import (
    IS_SPAN,
    PROMOTED,
    READ_COLUMNS,
    decode_spans,
    trace_hash,
)
from collector.storage.log.span_log import SpanLog
from collector.store.span_queries import SpanPage, SpanPosition, SpanQuery, SpanSummary
from scouter.model.span import SpanKind, StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

SEARCHED: Final = ("service_name", "service_version", "environment", *PROMOTED)
"""Columns that attributes have for themselves."""
POSITION: Final = SpanPosition._fields
"""Columns of a position, the first ones of all rows."""
_OWN: Final = ("parent_span_id", "name", "kind", "status", "end_ns")
_COLUMNS: Final = (*POSITION, *_OWN, *SEARCHED)
_ORDER: Final = "ORDER BY seq DESC, start_ns DESC, trace_id DESC, span_id DESC LIMIT ?"
_STEP: Final = 16
"""Commits of the first step."""
_GROWTH: Final = 8
MOST: Final = 4000
"""Matching spans that are read at once."""


def read_span_page(stored: StoredSpans, query: SpanQuery) -> SpanPage:
    """One page of spans.

    Args:
        stored: The spans.
        query: Says as of when.

    Cost: a few steps for what is common; for what is rare or nowhere a look at the columns that are
    asked for of every span in the time asked for, 5 ns each.
    """
    found: list[SpanSummary] = []
    for rows in matching_spans(stored, query, _COLUMNS, query.limit + 1):
        found += map(_summary, rows)
        if len(found) > query.limit:
            break
    page = tuple(found[: query.limit])
    return SpanPage(items=page, next_before=page[-1].position if len(found) > len(page) else None)


def matching_spans(
    stored: StoredSpans,
    query: SpanQuery,
    columns: Sequence[str],
    size: int,
    *,
    trace_ids: Collection[str] | None = None,
    passed_over: Collection[str] = (),
    first: int = 0,
    has_events: bool = False,
    joined: tuple[str, Sequence[object]] = ("", ()),
) -> Iterator[list[tuple[Any, ...]]]:
    """Rows of the spans that match, in order, so many at a time at most.

    Args:
        stored: The spans.
        query: The filter; its limit is not looked at.
        columns: Columns of the rows; the first is the position.
        size: Rows of one part.
        trace_ids: Only spans of these traces.
        passed_over: No spans of these traces. It may grow from part to part: without it a trace of
            100,000 spans is 160 parts of which each finds the trace that the first one found.
        first: Only spans of this commit and later ones.
        has_events: Log events, too.
        joined: A further condition that costs the same however few spans are looked at, as SQL with
            its values: all commits are then one step.
    """
    where, given = span_conditions(query, trace_ids, has_events=has_events)
    where += joined[0]
    given += joined[1]
    columns = (*columns, *READ_COLUMNS) if query.attributes else columns
    before = query.before
    if trace_ids is None:
        assert query.as_of is not None  # noqa: S101 the store has filled it in
        last = query.as_of if before is None else min(query.as_of, before.seq)
        steps: Iterable[Sequence[Stretch]] = (
            _beside(first, last, before) if joined[0] else commit_steps(last, first)
        )
    else:
        steps = [stored.traces.stretches(map(trace_hash, trace_ids))]
        where += " AND seq >= ?"
        given.append(first)
    for step in steps:
        parts = [step]
        while parts:
            part = parts.pop()
            is_reached = before is not None and part and part[0].last >= before.seq
            below, position = _below(before) if before is not None and is_reached else ("", ())
            others = f" AND NOT {one_of('trace_id', passed_over)}" if passed_over else ""
            rows = stored.database.read(
                f"SELECT {', '.join(columns)} FROM spans WHERE {within(part)} AND {where}{below}"
                f"{others} {_ORDER}",
                [*given, *position, *passed_over, size],
            )
            yield list(_verified(stored.log, query, rows)) if query.attributes else rows
            if len(rows) == size:
                before = SpanPosition(*rows[-1][:4])
                parts += (
                    reversed(_beside(part[-1].first, before.seq, before)) if joined[0] else [part]
                )


def _beside(first: int, last: int, before: SpanPosition | None) -> list[Sequence[Stretch]]:
    """Commits, newest first, with that of a position apart.

    To compare each span with the position reads the ids of all: eight times the cost of a join.
    """
    if before is None or last < before.seq:
        return [[Stretch(first, last)]]
    return [[Stretch(before.seq, before.seq)], [Stretch(first, before.seq - 1)]]


def _below(position: SpanPosition) -> tuple[str, tuple[object, ...]]:
    return (
        f" AND seq <= ? AND ({', '.join(POSITION)}) < (?, ?, ?, ?)",
        (position.seq, *position),
    )


_TOKENS: Final = "coalesce(input_tokens, 0)::BIGINT + coalesce(output_tokens, 0)"


def span_conditions(
    query: SpanQuery, trace_ids: Collection[str] | None, *, has_events: bool = False
) -> tuple[str, list[object]]:
    """The filter as SQL, and its values; without log events unless they are asked for."""
    filters: list[tuple[str, object]] = [
        ("space = ?", query.space),
        ("name = ?", query.name),
        ("status = ?", None if query.status is None else query.status.value),
        ("start_ns >= ?", query.since_ns),
        ("start_ns < ?", query.until_ns),
        ("end_ns - start_ns >= ?", query.min_duration_ns),
        (f"{_TOKENS} >= ?", query.min_tokens),
        ("seq <= ?", query.as_of),
        *((f"{name} = ?", query.columns.get(name)) for name in SEARCHED),
    ]
    where = [sql for sql, value in filters if value is not None]
    if not has_events:
        where.append(IS_SPAN)
    given = [value for _, value in filters if value is not None]
    for key, value in query.attributes:
        hashes = possible_hashes(key, value)
        # One call for each is twenty times as fast as `list_has_any`.
        each = (f"list_contains(attribute_hashes, {number}::UINTEGER)" for number in hashes)
        where.append(f"({' OR '.join(each) or 'false'})")
    if query.judged is not None:
        judged, values = judged_traces(query)
        where.append(f"trace_hash IN ({judged})")
        given += values
    if trace_ids is not None:
        where.append(one_of("trace_hash", trace_ids))
        given += map(trace_hash, trace_ids)
        where.append(one_of("trace_id", trace_ids))
        given += trace_ids
    return " AND ".join(where), given


def commit_steps(last: int, first: int = 0) -> Iterator[Sequence[Stretch]]:
    """Cut commits, newest first, into parts that grow."""
    size = _STEP
    while last >= first:
        begin = max(first, last - size + 1)
        yield [Stretch(begin, last)]
        last, size = begin - 1, size * _GROWTH


def _verified(
    log: SpanLog, query: SpanQuery, rows: Sequence[tuple[Any, ...]]
) -> Iterator[tuple[Any, ...]]:
    """Keep the rows whose spans have the attributes; other attributes may share their hashes."""
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
