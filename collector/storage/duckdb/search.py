"""Spans and traces by filter: what was stored last comes first.

A search goes from the newest commits to the oldest ones in steps that grow, and stops once the page
is full: what is common is found in the first step.

A search for traces goes over the spans that meet its first condition. Of the traces that it meets
the other conditions are looked up by their ids, some hundred at a time: that is a look at few row
groups. Where most traces fail, one query for all that is left joins whole conditions instead.
"""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
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
from collector.storage.port.search import (
    SpanPage,
    SpanPosition,
    SpanQuery,
    SpanSummary,
    TracePage,
    TraceQuery,
    TraceSummary,
)
from scouter.model.span import SpanKind, StatusCode

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

SEARCHED: Final = ("service_name", "service_version", "environment", *PROMOTED)
"""Columns that attributes have for themselves."""
_POSITION: Final = SpanPosition._fields
_OWN: Final = ("parent_span_id", "name", "kind", "status", "end_ns")
_COLUMNS: Final = (*_POSITION, *_OWN, *SEARCHED)
_ORDER: Final = "ORDER BY seq DESC, start_ns DESC, trace_id DESC, span_id DESC LIMIT ?"
_STEP: Final = 16
"""Commits of the first step."""
_GROWTH: Final = 8
_TRACE_ROWS: Final = 12
"""Matching spans that are read at once for each trace of a page."""
_MOST: Final = 4000
"""Matching spans that are read at once."""
_FAILED: Final = 8
"""Traces that fail for each one that does not, from which on whole conditions are joined."""


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


def read_trace_page(stored: StoredSpans, query: TraceQuery) -> TracePage:
    """One page of the traces that meet all conditions, each at the place of its newest match.

    Args:
        stored: The spans.
        query: Says as of when.
    """
    assert query.as_of is not None  # noqa: S101 the store has filled it in
    places: dict[str, SpanPosition] = {}
    size = min((query.limit + 1) * _TRACE_ROWS, _MOST)
    search = TraceSearch(stored, query)
    for rows in search.spans(_POSITION, size, is_each_once=True):
        new: dict[str, SpanPosition] = {}
        for row in rows:
            new.setdefault(row[2], SpanPosition(*row[:4]))
        for trace_id in _shown_before(stored, search.first, new):
            del new[trace_id]
        places |= new
        if len(places) > query.limit:
            break
    page = list(places)[: query.limit]
    summaries = read_summaries(stored, query.space, page)
    last = places[page[-1]] if len(places) > len(page) else None
    return TracePage(
        items=tuple(summaries[each] for each in page if each in summaries),
        next_before=last,
        as_of=query.as_of,
    )


class TraceSearch:
    """Spans of the traces that meet the conditions of a query.

    Args:
        stored: The spans.
        query: Says as of when.
        is_any_span: The spans that are gone over are all of the period, instead of those that meet
            the first condition; all conditions of one span stay as they are.
    """

    def __init__(
        self, stored: StoredSpans, query: TraceQuery, *, is_any_span: bool = False
    ) -> None:
        self._stored, self._query = stored, query
        criteria = query.criteria()
        own = replace(
            query, name=None, columns={}, attributes=(), status=None, min_duration_ns=None,
            min_tokens=None,
        )  # fmt: skip
        if not criteria or (is_any_span and not query.is_same_span):
            self.first: SpanQuery = own
            """Filter of the spans that are gone over, with the place to begin below."""
            self._others: Sequence[SpanQuery] = criteria
        else:
            head, *self._others = criteria
            self.first = replace(head, judged=query.judged, before=query.before)
        self._seen: set[str] = set()
        self._met: set[str] = set()

    def spans(
        self,
        columns: Sequence[str],
        size: int,
        *,
        is_each_once: bool = False,
        has_events: bool = False,
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Rows of the spans that are gone over, of the traces that meet all, in parts.

        Args:
            columns: As of `matching_spans`, as `size` and `has_events`.
            size: Rows of one part at most.
            is_each_once: A trace is in one part only.
            has_events: Log events, too.
        """
        first, joined = self.first, ("", list[object]())
        while True:
            parts = matching_spans(
                self._stored,
                first,
                columns,
                size,
                passed_over=self._seen if is_each_once else (),
                has_events=has_events,
                joined=joined,
            )
            for rows in parts:
                yield self._of_met(rows)
                if not joined[0] and self._fail_mostly():
                    joined = trace_conditions(self._query, self._others)
                    first = replace(first, before=SpanPosition(*rows[-1][:4]))
                    break
            else:
                return

    def _fail_mostly(self) -> bool:
        failed = len(self._seen) - len(self._met)
        return failed > self._query.limit + _FAILED * len(self._met)

    def _of_met(self, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        new = {row[2] for row in rows} - self._seen
        left = new
        for each in self._others:
            left = self._that_have(each, left)
        refused = self._query.refused()
        if refused is not None:
            left = left - self._that_have(refused, left)
        self._seen |= new
        self._met |= left
        return [row for row in rows if row[2] in self._met]

    def _that_have(self, criterion: SpanQuery, trace_ids: Collection[str]) -> set[str]:
        """The traces, among some, with a span that meets a condition."""
        found: set[str] = set()
        if not trace_ids:
            return found
        parts = matching_spans(
            self._stored, criterion, _POSITION, _MOST, trace_ids=trace_ids, passed_over=found
        )
        for rows in parts:
            found.update(row[2] for row in rows)
            if len(found) == len(trace_ids):
                break
        return found


def trace_conditions(
    query: TraceQuery, criteria: Sequence[SpanQuery], commits: str = "true"
) -> tuple[str, list[object]]:
    """What holds of the spans of traces that meet conditions, as SQL, and its values.

    Args:
        query: The filter; says what the traces must not have.
        criteria: The conditions.
        commits: SQL for the commits in which the spans that meet them are.
    """
    where, given = "", list[object]()
    parts = [(f"IN (SELECT trace_hash FROM spans WHERE {commits} AND", each) for each in criteria]
    refused = query.refused()
    if refused is not None:
        parts.append(("NOT IN (SELECT trace_hash FROM spans WHERE", refused))
    for begin, each in parts:
        sql, values = span_conditions(each, None)
        where += f" AND trace_hash {begin} {sql})"
        given += values
    return where, given


# --- spans that match ---------------------------------------------------------------------------


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
            [[Stretch(first, last)]] if joined[0] else commit_steps(last, first)
        )
    else:
        steps = [stored.traces.stretches(map(trace_hash, trace_ids))]
        where += " AND seq >= ?"
        given.append(first)
    for step in steps:
        while True:
            below, position = ("", ()) if before is None else _below(before)
            others = f" AND NOT {one_of('trace_id', passed_over)}" if passed_over else ""
            rows = stored.database.read(
                f"SELECT {', '.join(columns)} FROM spans WHERE {within(step)} AND {where}{below}"
                f"{others} {_ORDER}",
                [*given, *position, *passed_over, size],
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


# --- traces -------------------------------------------------------------------------------------


def _shown_before(stored: StoredSpans, query: SpanQuery, trace_ids: Collection[str]) -> set[str]:
    """Select the traces that belong on an earlier page: a newer span of theirs matches, too."""
    if query.before is None or not trace_ids:
        return set()
    rows = matching_spans(
        stored,
        replace(query, before=None),
        _POSITION,
        _MOST,
        trace_ids=trace_ids,
        first=query.before.seq,
    )
    return {row[2] for part in rows for row in part if row[:4] >= query.before}


def read_summaries(
    stored: StoredSpans, space: str, trace_ids: Sequence[str]
) -> dict[str, TraceSummary]:
    """Traces by id, counted over all of their spans."""
    if not trace_ids:
        return {}
    hashes = list(map(trace_hash, trace_ids))
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
        SEMI JOIN (SELECT unnest(?::BIGINT[]) AS trace_hash) k USING (trace_hash)
        WHERE {within(stored.traces.stretches(hashes))} AND space = ? AND {IS_SPAN}
        GROUP BY trace_id
        """,
        [StatusCode.ERROR.value, hashes, space],
    )
    fields = tuple(TraceSummary.__dataclass_fields__)
    found = {row[0]: TraceSummary(**dict(zip(fields, row, strict=True))) for row in rows}
    return {each: found[each] for each in trace_ids if each in found}  # a hash may be another's
