"""Traces: lists for people, in the order of their newest spans that meet the first condition."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from collector.store.bodies import best_spans, trace_hash
from collector.store.evaluation_codec import decode_evaluation
from collector.store.reads import Values, within
from collector.store.rows import StoredTrace
from collector.store.span_conditions import (
    below,
    commit_steps,
    not_shown_before,
    span_condition,
    trace_conditions,
)
from collector.store.span_queries import SpanPosition, SpanQuery, TracePage, TraceQuery
from collector.store.trace_summaries import SummaryReads

# All SQL is put together from this package's own words; values travel as parameters.
# ruff: noqa: S608

_COMMITS: Final = "SELECT DISTINCT seq FROM bodies WHERE trace_hash = $1"
_EVALUATIONS: Final = """
    SELECT revision, record_uid, body FROM evaluations WHERE space = $1 AND trace_id = $2
    ORDER BY seq DESC, ordinal DESC LIMIT $3::BIGINT
"""
_AROUND: Final = """
    SELECT min(seq), max(seq) FROM bodies
    WHERE seq <= $1 AND space = $2 AND trace_hash IN (
        SELECT trace_hash FROM bodies WHERE seq BETWEEN $3 AND $4 AND space = $2)
"""


class TraceReads(SummaryReads):
    """Reads of traces."""

    def trace(self, space: str, trace_id: str, limit: int) -> StoredTrace:
        """Read a trace with the latest evaluation on each of its records.

        Args:
            space: Its space.
            trace_id: The trace.
            limit: Evaluations that are read at most, superseded ones included; the newest ones.
        """
        number, values = trace_hash(trace_id), Values()
        where = (
            f"{within((seq for (seq,) in self.read(_COMMITS, [number])), values)}"
            f" AND trace_hash = {values.of(number, 'BIGINT')}"
            f" AND space = {values.of(space)} AND trace_id = {values.of(trace_id)}"
        )
        bodies = self.read(f"SELECT body FROM bodies WHERE {where} ORDER BY seq", values)
        latest: dict[str, int] = {}
        rows = self.read(_EVALUATIONS, [space, trace_id, limit])
        for revision, uid, _ in rows:
            latest[uid] = max(revision, latest.get(uid, 0))
        return StoredTrace(
            spans=best_spans(body for (body,) in bodies),
            evaluations=tuple(
                decode_evaluation(body) for revision, uid, body in rows if revision == latest[uid]
            ),
        )

    def traces(self, query: TraceQuery) -> TracePage:
        """List traces that meet all conditions, once each, as their newest spans came.

        These are the spans that meet the first condition. Without `as_of` the listing is as of now.

        Cost: linear in the columns that are asked for of the commits that are looked at; what is
        common is found in the newest ones.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        query, before = replace(query, as_of=as_of), query.before
        places: dict[str, SpanPosition] = {}
        for first, last in commit_steps(as_of if before is None else min(as_of, before.seq)):
            for row in self._newest_places(query, first, last, query.limit + 1 + len(places)):
                places.setdefault(row[2], SpanPosition(*row))
            if len(places) > query.limit:
                break
        page = list(places)[: query.limit]
        return TracePage(
            items=tuple(self.trace_summaries(query.space, page).values()),
            next_before=places[page[-1]] if len(places) > len(page) else None,
            as_of=as_of,
        )

    def _newest_places(
        self, query: TraceQuery, first: int, last: int, limit: int
    ) -> Sequence[tuple[Any, ...]]:
        """The newest places of traces in some commits, in order."""
        head, *others = query.criteria() or [of_period(query)]
        head = replace(head, judged=query.judged, before=query.before)
        around = (first, last)
        if others or query.before is not None or query.without_tool is not None:
            around = self.commits_around(query, first, last)
        values = Values()
        commits = f"seq BETWEEN {values.of(first, 'BIGINT')} AND {values.of(last, 'BIGINT')}"
        where = (
            span_condition(head, values)
            + below(head.before, last, values)
            + trace_conditions(query, others, around, values)
            + not_shown_before(head, around[1], values)
        )
        return self.read(
            f"""
            SELECT seq, start_ns, trace_id, span_id FROM (
                SELECT DISTINCT ON (trace_id) seq, start_ns, trace_id, span_id FROM spans
                WHERE {commits} AND {where}
                ORDER BY trace_id, seq DESC, start_ns DESC, span_id DESC
            ) newest
            ORDER BY seq DESC, start_ns DESC, trace_id DESC, span_id DESC
            LIMIT {values.of(limit, "BIGINT")}
            """,
            values,
        )

    def commits_around(self, query: SpanQuery, first: int, last: int) -> tuple[int, int]:
        """The first and the last commit with spans of the traces that some commits have."""
        ((begin, end),) = self.read(_AROUND, [query.as_of, query.space, first, last])
        return (first, last) if begin is None else (begin, end)


def of_period(query: TraceQuery) -> SpanQuery:
    """The filter of traces without its conditions on spans but their time."""
    return SpanQuery(
        space=query.space, since_ns=query.since_ns, until_ns=query.until_ns, as_of=query.as_of,
        judged=query.judged, before=query.before,
    )  # fmt: skip
