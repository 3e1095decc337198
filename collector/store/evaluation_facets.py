"""Counts of evaluations by value: outcome, profile, task, service and tag."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any, Final

from collector.store.commit import tags_of
from collector.store.evaluation_conditions import SERVICE, evaluation_condition, service_filters
from collector.store.evaluation_queries import EvaluationQuery, outcomes_of
from collector.store.facets import TAG, Counts, Facets, IsOver, count_in_steps
from collector.store.reads import Reads, Values

# All SQL is put together from this package's own words; values travel as parameters.
# ruff: noqa: S608

_NAMES: Final = ", ".join(f"e.{name}" for name in SERVICE)


class EvaluationFacetReads(Reads):
    """Counts beside the list of evaluations."""

    def evaluation_facets(self, query: EvaluationQuery, is_over: IsOver) -> Facets:
        """Count what `evaluations` lists, by outcome, profile, task, service and tag.

        A value's count is the length of the list that it leaves where it joins the filter.

        Args:
            query: The filter; its limit and its place are not looked at.
            is_over: Ends the search; see `count_in_steps`.

        Cost: linear in the evaluations that are looked at; where some of them looked at no spans,
        linear in the spans of the store, too.
        """
        as_of = self.last_seq() if query.as_of is None else query.as_of
        return count_in_steps(
            self, "evaluations", "evaluated_ns", query.space, as_of, is_over,
            lambda first: self._facet_counts(query, first, as_of),
        )  # fmt: skip

    def _facet_counts(self, query: EvaluationQuery, first: int, last: int) -> Counts:
        if len(dict(query.tags)) < len(set(query.tags)):
            return {}  # one key with two values
        values = Values()
        where = evaluation_condition(query, first, last, values)
        rows = self.read(
            f"SELECT e.tags, e.reads_spans, e.outcome, e.alias, {_NAMES}, count(*)"
            f" FROM evaluations e WHERE {where}"
            f" GROUP BY e.tags, e.reads_spans, e.outcome, e.alias, {_NAMES}",
            values,
        )
        counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for name, value, n in (
            *_by_group(query, rows),
            *(() if all(row[1] for row in rows) else self._facet_services(query, first, last)),
            *self._facet_tasks(query, first, last),
        ):
            if value:
                counts[name][value] += n
        return counts

    def _facet_tasks(
        self, query: EvaluationQuery, first: int, last: int
    ) -> Iterator[tuple[str, str, int]]:
        """By task: an evaluation has one result of each."""
        values = Values()
        where = evaluation_condition(query, first, last, values)
        low, high = values.of(first, "BIGINT"), values.of(last, "BIGINT")
        more = ""
        if query.task_id is not None:
            more += f" AND t.task_id = {values.of(query.task_id)}"
        if (outcomes := outcomes_of(query.task_outcome)) is not None:
            more += f" AND t.outcome = ANY({values.of(outcomes, 'TEXT[]')})"
        rows = self.read(
            f"SELECT t.task_id, count(*) FROM task_results t WHERE t.seq BETWEEN {low} AND {high}"
            f"{more} AND t.evaluation_id IN (SELECT e.evaluation_id FROM evaluations e"
            f" WHERE {where}) GROUP BY t.task_id",
            values,
        )
        return (("task_id", task_id, n) for task_id, n in rows)

    def _facet_services(
        self, query: EvaluationQuery, first: int, last: int
    ) -> Iterator[tuple[str, str, int]]:
        """By service, those that looked at no spans: the spans of their traces tell it, too."""
        values = Values()
        where = evaluation_condition(query, first, last, values)
        asked = " AND ".join(
            f"t.{name} = {values.of(value)}" for name, value in service_filters(query).items()
        )
        counts = " UNION ALL ".join(
            f"SELECT '{name}' AS name, t.{name} AS value, t.evaluation_id FROM t"
            f" WHERE {asked or 'true'}"
            for name in SERVICE
        )
        names, of_spans = ", ".join(SERVICE), ", ".join(f"s.{name}" for name in SERVICE)
        rows = self.read(
            f"WITH e AS (SELECT e.evaluation_id, {_NAMES}, e.trace_id FROM evaluations e"
            f" WHERE e.reads_spans = 0 AND {where}),"
            f" s AS (SELECT DISTINCT s.trace_id, {of_spans} FROM spans s"
            f" WHERE s.space = {values.of(query.space)}"
            " AND s.trace_id IN (SELECT trace_id FROM e)),"
            f" t AS (SELECT evaluation_id, {names} FROM e"
            f" UNION ALL SELECT e.evaluation_id, {of_spans} FROM e"
            " JOIN s ON s.trace_id = e.trace_id)"
            f" SELECT name, value, count(DISTINCT evaluation_id) FROM ({counts}) c"
            " GROUP BY name, value",
            values,
        )
        return ((name, value, n) for name, value, n in rows)


def _by_group(
    query: EvaluationQuery, rows: list[tuple[Any, ...]]
) -> Iterator[tuple[str, str, int]]:
    """By all that an evaluation itself tells."""
    asked = service_filters(query)
    for tags, reads_spans, outcome, alias, *service, n in rows:
        yield "outcome", outcome, n
        yield "profile", alias, n
        for key, value in tags_of(tags).items():
            if key and "=" not in key:  # as a filter takes it
                yield TAG, f"{key}={value}", n
        own = dict(zip(SERVICE, service, strict=True))
        if reads_spans and asked.items() <= own.items():
            yield from ((name, value, n) for name, value in own.items())
