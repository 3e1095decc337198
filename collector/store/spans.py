"""Spans: lists for people, what was stored last first.

A list goes from the newest commits to the oldest ones in steps that grow, and stops once the page
is full: what is common is found in the first step.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

from collector.store.evaluation_queries import EvaluationQuery, evaluation_condition
from collector.store.reads import LAST, Reads, Values
from collector.store.span_queries import (
    SEARCHED,
    JudgedBy,
    SpanPage,
    SpanPosition,
    SpanQuery,
    SpanSummary,
    TraceQuery,
)
from collector.store.span_rows import has_attribute
from scouter.model.span import SpanKind, StatusCode

_N: Final = "BIGINT"
_STEP: Final = 16
"""Commits of the first step."""
_GROWTH: Final = 8


def commit_steps(last: int, most: int = 2**62) -> Iterator[tuple[int, int]]:
    """Cut the commits up to one into ranges, newest first, that grow.

    Args:
        last: The newest commit.
        most: Commits of the longest range.
    """
    size = _STEP
    while last >= 0:
        first = max(0, last - size + 1)
        yield first, last
        last, size = first - 1, min(size * _GROWTH, most)


def below(position: SpanPosition | None, last: int, values: Values) -> str:
    """SQL that is true of spans behind a position, to be put behind other conditions.

    Args:
        position: Where the page before ended.
        last: The newest commit that is looked at: an older one than the position's is all behind.
        values: Gets the values of parameters.
    """
    if position is None or last < position.seq:
        return ""
    return f" AND (seq, start_ns, trace_id, span_id) < {_place(position, values)}"


def _place(position: SpanPosition, values: Values) -> str:
    seq, start_ns, trace_id, span_id = position
    return (
        f"({values.of(seq, _N)}, {values.of(start_ns, _N)}, {values.of(trace_id)},"
        f" {values.of(span_id)})"
    )


def span_condition(query: SpanQuery, values: Values, *, has_events: bool = False) -> str:
    """The filter of spans, but for its place.

    Args:
        query: The filter; its limit and its place are not looked at.
        values: Gets the values of parameters.
        has_events: Log events, too.
    """
    filters: list[tuple[str, object, str]] = [
        ("space = {}", query.space, "TEXT"),
        ("seq <= {}", query.as_of, _N),
        ("name = {}", query.name, "TEXT"),
        ("status = {}", None if query.status is None else query.status.value, _N),
        ("start_ns >= {}", query.since_ns, _N),
        ("start_ns < {}", query.until_ns, _N),
        ("end_ns - start_ns >= {}", query.min_duration_ns, _N),
        ("coalesce(input_tokens, 0) + coalesce(output_tokens, 0) >= {}", query.min_tokens, _N),
        *((f"{name} = {{}}", query.columns.get(name), "TEXT") for name in SEARCHED),
    ]
    parts = [
        sql.format(values.of(value, kind)) for sql, value, kind in filters if value is not None
    ]
    if not has_events:
        parts.append("is_event = 0")
    parts += [has_attribute(key, value, values) for key, value in query.attributes]
    if query.judged is not None:
        judged = judged_condition(query, values)
        parts.append(f"trace_id IN (SELECT e.trace_id FROM evaluations e WHERE {judged})")
    return " AND ".join(parts)


def trace_conditions(
    query: TraceQuery,
    criteria: Sequence[SpanQuery],
    commits: tuple[int, int],
    values: Values,
    all_commits: tuple[int, int] | None = None,
) -> str:
    """SQL that is true of spans of traces that meet conditions, to be put behind other conditions.

    Args:
        query: The filter; says what the traces must not have.
        criteria: The conditions.
        commits: The first and the last commit in which spans that meet them are looked for.
        values: Gets the values of parameters.
        all_commits: Likewise for spans that the traces must not have; None if they are the same.
    """
    parts = [("IN", each, commits) for each in criteria]
    refused = query.refused()
    if refused is not None:
        parts.append(("NOT IN", refused, all_commits or commits))
    return "".join(
        f" AND trace_id {word} (SELECT trace_id FROM spans"
        f" WHERE seq BETWEEN {values.of(first, _N)} AND {values.of(last, _N)}"
        f" AND {span_condition(each, values)})"
        for word, each, (first, last) in parts
    )


def not_shown_before(query: SpanQuery, last: int, values: Values) -> str:
    """SQL that leaves out the traces of earlier pages, to be put behind other conditions.

    They have a newer span that meets the filter.

    Args:
        query: The filter, and where the page begins.
        last: The newest commit that may have spans of the traces.
        values: Gets the values of parameters.
    """
    before = query.before
    if before is None:
        return ""
    return (
        " AND trace_id NOT IN (SELECT trace_id FROM spans"
        f" WHERE seq BETWEEN {values.of(before.seq, _N)} AND {values.of(last, _N)}"
        f" AND {span_condition(query, values)}"
        f" AND (seq, start_ns, trace_id, span_id) >= {_place(before, values)})"
    )


_ANY: Final = JudgedBy()


def judged_condition(query: SpanQuery, values: Values, first: int = 0) -> str:
    """The filter of evaluations `e` on traces, the latest of their records.

    Args:
        query: Says in which space and as of when, and by what they are filtered, if at all.
        values: Gets the values of parameters.
        first: The first commit that is looked at.
    """
    judged, last = query.judged or _ANY, LAST if query.as_of is None else query.as_of
    evaluations = EvaluationQuery(
        space=query.space, profile=judged.profile, outcome=judged.outcome, task_id=judged.task_id,
        task_outcome=judged.task_outcome, tags=judged.tags,
    )  # fmt: skip
    return f"{evaluation_condition(evaluations, first, last, values)} AND e.trace_id IS NOT NULL"


_COLUMNS: Final = ", ".join(
    (*SpanPosition._fields, "parent_span_id", "name", "kind", "status", "end_ns", *SEARCHED)
)
_ORDER: Final = "ORDER BY seq DESC, start_ns DESC, trace_id DESC, span_id DESC"


class SpanReads(Reads):
    """Reads of spans."""

    def spans(self, query: SpanQuery) -> SpanPage:
        """List spans by filter, what was stored last first; of one commit, what began last.

        Cost: a few steps for what is common; for what is rare or nowhere a look at the columns that
        are requested of every span.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        query, before = replace(query, as_of=as_of), query.before
        rows: list[tuple[Any, ...]] = []
        for first, last in commit_steps(as_of if before is None else min(as_of, before.seq)):
            values = Values()
            commits = f"seq BETWEEN {values.of(first, 'BIGINT')} AND {values.of(last, 'BIGINT')}"
            where = span_condition(query, values) + below(before, last, values)
            limit = values.of(query.limit + 1 - len(rows), "BIGINT")
            rows += self.read(
                f"SELECT {_COLUMNS} FROM spans WHERE {commits} AND {where} {_ORDER} LIMIT {limit}",
                values,
            )
            if len(rows) > query.limit:
                break
        page = tuple(map(_summary, rows[: query.limit]))
        return SpanPage(
            items=page, next_before=page[-1].position if len(rows) > len(page) else None
        )


def _summary(row: Sequence[Any]) -> SpanSummary:
    parent_span_id, name, kind, status, end_ns = row[4:9]
    return SpanSummary(
        position=SpanPosition(*row[:4]),
        parent_span_id=parent_span_id,
        name=name,
        kind=SpanKind(kind),
        status=StatusCode(status),
        end_ns=end_ns,
        columns={key: value for key, value in zip(SEARCHED, row[9:], strict=True) if value},
    )
