"""Spans: lists for people, what was stored last first.

A list goes from the newest commits to the oldest ones in steps that grow, and stops once the page
is full: what is common is found in the first step.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from collector.store.reads import Reads, Values
from collector.store.span_conditions import below, commit_steps, span_condition
from collector.store.span_queries import SEARCHED, SpanPage, SpanPosition, SpanQuery, SpanSummary
from scouter.model.span import SpanKind, StatusCode

# All SQL is put together from this package's own words; values travel as parameters.
# ruff: noqa: S608

_COLUMNS: Final = ", ".join(
    (*SpanPosition._fields, "parent_span_id", "name", "kind", "status", "end_ns", *SEARCHED)
)
_ORDER: Final = "ORDER BY seq DESC, start_ns DESC, trace_id DESC, span_id DESC"


class SpanReads(Reads):
    """Reads of spans."""

    def spans(self, query: SpanQuery) -> SpanPage:
        """List spans by filter, what was stored last first; of one commit, what began last.

        Cost: a few steps for what is common; for what is rare or nowhere a look at the columns that
        are asked for of every span.
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
