"""Traces by filter, in the order of their newest spans that meet its first condition.

A search goes over these spans. Of the traces that it meets the other conditions are looked up by
their ids, some hundred at a time: that is a look at few row groups. Where most traces fail, one
query for all that is left joins whole conditions instead.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from collector.storage.duckdb.commit_ranges import Stretch
from collector.storage.duckdb.read import StoredSpans
from collector.storage.duckdb.search import MOST, POSITION, matching_spans, span_conditions
from collector.storage.duckdb.trace_summaries import read_summaries
from collector.store.span_queries import SpanPosition, SpanQuery, TracePage, TraceQuery

# All SQL is put together from the package's own words; values always travel as parameters.
# ruff: noqa: S608

_TRACE_ROWS: Final = 12
"""Matching spans that are read at once for each trace of a page."""
_NEAR: Final = 8
"""Commits before and behind a span in which most other spans of its trace are."""
_FAILED: Final = 8
"""Traces that fail for each one that does not, from which on whole conditions are joined."""
_Row = tuple[Any, ...]


def read_trace_page(stored: StoredSpans, query: TraceQuery) -> TracePage:
    """One page of the traces that meet all conditions, each at the place of its newest match.

    Args:
        stored: The spans.
        query: Says as of when.
    """
    assert query.as_of is not None  # noqa: S101 the store has filled it in
    places: dict[str, SpanPosition] = {}
    size = min((query.limit + 1) * _TRACE_ROWS, MOST)
    search = TraceSearch(stored, query)
    for rows in search.spans(POSITION, size, is_each_once=True):
        new: dict[str, SpanPosition] = {}
        for row in rows:
            if row[2] not in places:
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
        self._refused = query.refused()
        self._seen: set[str] = set()
        self._met: set[str] = set()

    def spans(
        self,
        columns: Sequence[str],
        size: int,
        *,
        is_each_once: bool = False,
        has_events: bool = False,
    ) -> Iterator[Sequence[_Row]]:
        """Rows of the spans that are gone over, of the traces that meet all, in parts.

        Args:
            columns: As of `matching_spans`, as `size` and `has_events`.
            size: Rows of one part at most.
            is_each_once: Further spans of a trace may be left out.
            has_events: Log events, too.
        """
        parts = matching_spans(
            self._stored,
            self.first,
            columns,
            size,
            passed_over=self._seen if is_each_once else (),
            has_events=has_events,
        )
        for rows in parts:
            for some in self._few(rows):
                yield self._of_met(some)
                if not self._fail_mostly():
                    continue
                below = replace(self.first, before=SpanPosition(*some[-1][:4]))
                joined = trace_conditions(self._query, self._others)
                # What the join has decided but for the hashes of attributes is not looked up again.
                self._others = [each for each in self._others if each.attributes]
                self._refused = None
                long: set[str] = set()
                for more in matching_spans(
                    self._stored,
                    below,
                    columns,
                    size,
                    passed_over=long,
                    has_events=has_events,
                    joined=joined,
                ):
                    yield self._of_met(more)
                    if is_each_once:
                        counts = Counter(row[2] for row in more)
                        long.update(each for each, n in counts.items() if n > _TRACE_ROWS)
                return

    def _few(self, rows: Sequence[_Row]) -> Iterator[Sequence[_Row]]:
        """Cut rows into parts with few traces each: a page is mostly full with the first one."""
        if not self._others and self._refused is None:
            yield rows
            return
        begin = 0
        ids: set[str] = set()
        for at, row in enumerate(rows):
            ids.add(row[2])
            if len(ids) > 2 * self._query.limit or at == len(rows) - 1:
                yield rows[begin : at + 1]
                begin = at + 1
                ids = set[str]()

    def _fail_mostly(self) -> bool:
        failed = len(self._seen) - len(self._met)
        return failed > self._query.limit + _FAILED * len(self._met)

    def _of_met(self, rows: Sequence[_Row]) -> Sequence[_Row]:
        new = {row[2] for row in rows} - self._seen
        if new:
            seqs = [row[0] for row in rows]
            near = Stretch(min(seqs) - _NEAR, max(seqs) + _NEAR)
            left = new
            for each in self._others:
                left = self._that_have(each, left, near)
            if self._refused is not None:
                left = left - self._that_have(self._refused, left, near)
            self._seen |= new
            self._met |= left
        return [row for row in rows if row[2] in self._met]

    def _that_have(
        self, criterion: SpanQuery, trace_ids: Collection[str], near: Stretch
    ) -> set[str]:
        """The traces, among some, with a span that meets a condition.

        Most have it in the commits that are near; those that do not are looked up in all.
        """
        assert criterion.as_of is not None  # noqa: S101 the store has filled it in
        found: set[str] = set()
        close = replace(criterion, as_of=min(criterion.as_of, near.last))
        for asked, first in ((close, max(0, near.first)), (criterion, 0)):
            left = set(trace_ids) - found
            if not left:
                break
            parts = matching_spans(
                self._stored, asked, POSITION, MOST, trace_ids=left, passed_over=found, first=first
            )
            for rows in parts:
                found.update(row[2] for row in rows)
                if len(found) == len(trace_ids):
                    break
        return found


def trace_conditions(
    query: TraceQuery, criteria: Sequence[SpanQuery], commits: str = "true"
) -> tuple[str, list[object]]:
    """Make the SQL that holds for spans of traces that meet conditions, and its values.

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


def _shown_before(stored: StoredSpans, query: SpanQuery, trace_ids: Collection[str]) -> set[str]:
    """Select the traces that belong on an earlier page: a newer span of theirs matches, too."""
    if query.before is None or not trace_ids:
        return set()
    rows = matching_spans(
        stored,
        replace(query, before=None),
        POSITION,
        MOST,
        trace_ids=trace_ids,
        first=query.before.seq,
    )
    return {row[2] for part in rows for row in part if row[:4] >= query.before}
