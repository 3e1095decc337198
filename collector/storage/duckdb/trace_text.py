"""Traces with a text in their spans: the newest first, for as long as there is time.

There is no index of words: the bytes of the spans of traces that the other filters name are read,
some at a time. Log events are spans of their own, so that a message is found however it came.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

from collector.storage.duckdb.read import StoredSpans
from collector.storage.duckdb.search import matching_spans
from collector.storage.duckdb.trace_search import TraceSearch
from collector.storage.duckdb.trace_summaries import read_summaries
from collector.storage.log.span_codec import READ_COLUMNS
from collector.storage.log.span_text import SpanText
from collector.store.span_queries import SpanPosition, SpanQuery, TracePage, TraceQuery
from collector.store.text_match import TextMatch

_POSITION: Final = SpanPosition._fields
_COLUMNS: Final = (*_POSITION, "received_ns", *READ_COLUMNS)
_RECEIVED: Final = len(_POSITION)
_SIZE: Final = _RECEIVED + 1 + READ_COLUMNS.index("span_size")
_ROWS: Final = 4000
"""Spans of which the places are read at once."""
_FIRST_BYTES: Final = 2**18
_MOST_BYTES: Final = 4 * 2**20
_GROWTH: Final = 4
_Row = tuple[Any, ...]


class _Found(NamedTuple):
    """The newest span of a trace that has the text."""

    position: SpanPosition
    match: TextMatch


def read_trace_text_page(
    stored: StoredSpans, query: TraceQuery, text: str, is_over: Callable[[], bool]
) -> TracePage:
    """One page of the traces that have a span, or a log event, with a text.

    Args:
        stored: The spans.
        query: The other filters, and where the search goes on; says as of when.
        text: Not empty.
        is_over: Asked between two parts; if it is true the search ends there.

    Cost: linear in the bytes of the spans that are read, 100 MB a second.
    """
    assert query.as_of is not None  # noqa: S101 the store has filled it in
    finder = SpanText(stored.log, text)
    places: dict[str, _Found] = {}
    seen: set[str] = set()
    next_before, looked_until_ns = None, None
    search = TraceSearch(stored, query, is_any_span=True)
    for part in _parts(search):
        for found in _found(finder, part, seen, query.limit + 1):
            earlier = _shown_before(stored, search.first, finder, found)
            places |= {each: at for each, at in found.items() if each not in earlier}
            if len(places) > query.limit:
                break
        if len(places) > query.limit:
            break
        if is_over():
            next_before, looked_until_ns = _position(part[-1]), part[-1][_RECEIVED]
            break
    page = list(places)[: query.limit]
    if len(places) > len(page):
        next_before = places[page[-1]].position
    summaries = read_summaries(stored, query.space, page)
    return TracePage(
        items=tuple(
            replace(summaries[each], match=places[each].match) for each in page if each in summaries
        ),
        next_before=next_before,
        as_of=query.as_of,
        looked_until_ns=looked_until_ns,
    )


def traces_with_text(
    stored: StoredSpans,
    query: SpanQuery,
    finder: SpanText,
    trace_ids: Collection[str],
    since: SpanPosition | None = None,
) -> dict[str, TextMatch]:
    """Select the traces that have a span, or a log event, with a text; says where it is.

    Args:
        stored: The spans.
        query: The other filters; its place is not looked at.
        finder: Looks into spans.
        trace_ids: The traces.
        since: Only spans from this place on.

    Cost: linear in the bytes of the spans that are read.
    """
    found: dict[str, TextMatch] = {}
    seen: set[str] = set()
    if not trace_ids:
        return found
    for rows in matching_spans(
        stored,
        replace(query, before=None),
        _COLUMNS,
        _ROWS,
        trace_ids=trace_ids,
        passed_over=seen,
        first=0 if since is None else since.seq,
        has_events=True,
    ):
        some = [row for row in rows if since is None or row[: len(_POSITION)] >= since]
        for new in _found(finder, some, seen, len(trace_ids)):
            found |= {trace_id: each.match for trace_id, each in new.items()}
        if len(found) == len(trace_ids):
            break
    return found


def _parts(search: TraceSearch) -> Iterator[Sequence[_Row]]:
    """Everything that the other filters name, newest first, in parts of so many bytes."""
    most = _FIRST_BYTES
    for rows in search.spans(_COLUMNS, _ROWS, has_events=True):
        begin = size = 0
        for at, row in enumerate(rows):
            size += row[_SIZE]
            if size >= most or at == len(rows) - 1:
                yield rows[begin : at + 1]
                begin, size, most = at + 1, 0, min(most * _GROWTH, _MOST_BYTES)


def _found(
    finder: SpanText, part: Sequence[_Row], seen: set[str], most: int
) -> Iterator[dict[str, _Found]]:
    """The traces with the text, about so many at a time, each at its newest span in a part.

    Args:
        finder: Looks into spans.
        part: Rows of spans.
        seen: The traces that were found before; these join them.
        most: Traces after which there is a pause.
    """
    while part:
        part = [row for row in part if row[2] not in seen]
        found = finder.traces([_for_finder(row) for row in part], most)
        seen.update(found)
        yield {each: _Found(_position(part[at]), match) for each, (at, match) in found.items()}
        last = max((each.at for each in found.values()), default=0)
        part = part[last + 1 :] if len(found) >= most else ()


def _shown_before(
    stored: StoredSpans, query: SpanQuery, finder: SpanText, trace_ids: Collection[str]
) -> Collection[str]:
    """Select the traces of an earlier page: a newer span of theirs has the text, too."""
    if query.before is None:
        return ()
    return traces_with_text(stored, query, finder, trace_ids, query.before)


def _position(row: _Row) -> SpanPosition:
    return SpanPosition(*row[: len(_POSITION)])


def _for_finder(row: _Row) -> _Row:
    return (*row[2:4], *row[_RECEIVED + 1 : _RECEIVED + 1 + len(READ_COLUMNS)])
