"""Rates: counts of the outcomes of tasks, over all time or bucket by bucket, of the latest alone.

Whole hours are read from the rollups; the rest of a time, and buckets that are shorter, from the
results. Results of evaluations that do not know their process are counted by a span of their trace.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeAlias

from collector.store.evaluation_queries import PROFILE, latest, time_conditions
from collector.store.json_text import USAGE
from collector.store.reads import LAST, Reads, Values
from collector.store.totals import HOUR_NS
from scouter.evaluate.judge.port import JudgeUsage
from scouter.evaluate.outcome import DECIDED, Outcome, Reason


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskQuery:
    """Filter of the task results to count; None means any."""

    space: str
    profile: str | None = None
    service_version: str | None = None
    environment: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None


class Scores(NamedTuple):
    """The scores of some results in a few numbers."""

    n: int
    """Results that have a score: those that passed or failed."""
    mean: float | None
    """None of none."""
    sd: float | None
    """The standard deviation, with n - 1; None of fewer than two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskCounts:
    """Outcomes of one task of one profile, and what its scores sum up to."""

    profile_uid: str
    profile_digest: str
    profile_name: str
    alias: str
    task_id: str
    passed: int
    failed: int
    errored: int
    skipped: int
    gated: int
    """Part of `skipped` that a gate skipped; it counts in the pass rate."""
    own: int = 0
    """Results with a score of their own; that of all others is their outcome's, 1 or 0."""
    own_passed: int = 0
    own_mean: float = 0.0
    own_squares: float = 0.0
    """Sum of the squared distances of those scores from their mean."""

    @property
    def scores(self) -> Scores:
        """Mean and standard deviation of all scores.

        Source: two groups joined as by Chan, Golub and LeVeque 1979, Updating formulae.
        """
        n = self.passed + self.failed
        if not n:
            return Scores(0, None, None)
        others = n - self.own
        mean_of_others = (self.passed - self.own_passed) / others if others else 0.0
        apart = self.own_mean - mean_of_others
        mean = mean_of_others + apart * self.own / n
        squares = self.own_squares + others * mean_of_others * (1.0 - mean_of_others)
        squares += apart * apart * self.own * others / n
        return Scores(n, mean, math.sqrt(squares / (n - 1)) if n > 1 else None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesQuery:
    """Filter of the task results to count in each bucket of time; None means any."""

    space: str
    profile: str | None = None
    task_id: str | None = None
    service_version: str | None = None
    environment: str | None = None
    since_ns: int
    until_ns: int
    bucket_ns: int
    """Buckets begin at multiples of it since 1970; the first and the last may be cut."""
    limit: int = 50_000
    """Most items; the first ones are taken. Lines of rates have no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesItem:
    """Outcomes of one task in one bucket."""

    start_ns: int
    counts: TaskCounts


class RateLine(NamedTuple):
    """The rate of one task over time, in columns: one place for each bucket with a rate."""

    profile_uid: str
    task_id: str
    start_ns: list[int]
    """Beginnings of the buckets, in order."""
    passed: list[int]
    total: list[int]
    """Results that the rate counts, 1 at least."""


class Extent(NamedTuple):
    """The time that has results, and how many there are."""

    first_ns: int
    """Of the first one; where there are many, the begin of its hour."""
    results: int


_N: Final = "BIGINT"
_COLUMNS: Final = (
    "e.profile_uid, e.profile_digest, e.profile_name, e.alias, e.task_id, e.position, e.outcome,"
    " e.score"
)
_NAMES: Final = tuple(TaskCounts.__dataclass_fields__)
_KEY: Final = "profile_uid, task_id"
_SCORED: Final = "score IS NOT NULL"
_TINY: Final = "1e-150"
"""Numbers below it count as 0: PostgreSQL refuses to compute with what it cannot tell from that."""
_MEAN: Final = f"""
    coalesce(sum(n * score) FILTER (WHERE {_SCORED}) OVER (PARTITION BY {{key}})
        / nullif(sum(n) FILTER (WHERE {_SCORED}) OVER (PARTITION BY {{key}}), 0), 0)
"""


def _count(condition: str) -> str:
    return f"coalesce(sum(n) FILTER (WHERE {condition}), 0)::BIGINT"


def _of(outcome: str) -> str:
    return _count(f"outcome = '{outcome}'")


_TOTAL: Final = _count("gated = 1 OR outcome <> 'skipped'")
_COUNTS: Final = f"""
    min(profile_digest), min(profile_name), min(alias), task_id,
    {", ".join(_of(word) for word in DECIDED)}, {_count("gated = 1")},
    {_count(_SCORED)}, {_count(f"{_SCORED} AND outcome = 'passed'")}, max(mean),
    coalesce(sum(n * (score - mean) * (score - mean))
        FILTER (WHERE {_SCORED} AND abs(score - mean) > {_TINY}), 0)
"""
_HAVING: Final = "HAVING sum(n) > 0"
_USED: Final = ", ".join(
    f"sum({name})::BIGINT"
    if name in ("calls", "cached", "unpriced_calls")
    # Answers that were there already take nothing, and do not make a sum known.
    else f"coalesce(sum({name}) FILTER (WHERE calls > 0), CASE WHEN sum(calls) = 0 THEN 0 END)::"
    + ("DOUBLE PRECISION" if name == "cost_usd" else "BIGINT")
    for name in USAGE
)
"""Sums of `JudgeUsage` over results."""
_Query: TypeAlias = TaskQuery | SeriesQuery


class RateReads(Reads):
    """Reads of the outcomes of tasks."""

    def task_counts(self, query: TaskQuery) -> list[TaskCounts]:
        """Count the outcomes of each profile's tasks, in the order of alias and profile.

        Cost: the rollups of the hours requested, and the results of the rest of at most two hours.
        """
        values = Values()
        rows = self.read(
            f"SELECT profile_uid, {_COUNTS} FROM ({self._rates_with_mean(query, _KEY, values)}) r"
            f" GROUP BY {_KEY} {_HAVING} ORDER BY min(alias), min(position), task_id, profile_uid",
            values,
        )
        return [TaskCounts(**dict(zip(_NAMES, row, strict=True))) for row in rows]

    def task_usage(self, query: TaskQuery) -> dict[tuple[str, str], JudgeUsage]:
        """By profile's uid and task what judges took for the results of a time, the latest of each.

        What a judge took for an earlier revision, with another question, is not in it.

        Cost: a few columns of the results of that time.
        """
        values = Values()
        where = " AND ".join((*_conditions(query, values), *_service(query, "e", values)))
        last = values.of(LAST, _N)
        rows = self.read(
            f"SELECT {_KEY}, {_USED} FROM task_results e WHERE {where} AND e.calls IS NOT NULL"
            f" AND {latest('e', 'e.seq', last)} GROUP BY {_KEY}",
            values,
        )
        return {
            (uid, task_id): JudgeUsage(**dict(zip(USAGE, sums, strict=True)))
            for uid, task_id, *sums in rows
        }

    def extent(self, query: TaskQuery, few: int) -> Extent | None:
        """The time that has the results which `task_counts` counts; None without any.

        Args:
            query: The filter.
            few: Up to so many results the moment of the first one is found; else its hour.
        """
        values = Values()
        ((first_ns, results),) = self.read(
            "SELECT min(at_ns), sum(n)::BIGINT FROM (SELECT at_ns, sum(n) AS n"
            f" FROM ({self._rate_parts(query, values)}) p GROUP BY at_ns HAVING sum(n) > 0) e",
            values,
        )
        if first_ns is None:
            return None
        found = Extent(first_ns, results)
        if first_ns % HOUR_NS or results > few:
            return found
        # A rollup knows the hour alone; its results know the moment.
        end_ns = min(first_ns + HOUR_NS, query.until_ns or first_ns + HOUR_NS)
        since_ns = max(first_ns, query.since_ns or 0)
        values = Values()
        exact = self._rate_results(replace(query, since_ns=since_ns, until_ns=end_ns), values)
        ((at_ns,),) = self.read(f"SELECT min(at_ns) FROM ({exact}) p", values)
        return found if at_ns is None else found._replace(first_ns=at_ns)

    def task_series(self, query: SeriesQuery) -> list[SeriesItem]:
        """Outcomes by bucket, profile and task, in this order; buckets without any are left out.

        Cost: as of `task_counts`; where a bucket is no number of whole hours, all results of the
        time requested.
        """
        values = Values()
        key = f"start_ns, {_KEY}"
        rows = self.read(
            f"SELECT start_ns, profile_uid, {_COUNTS}"
            f" FROM ({self._rates_with_mean(query, key, values)}) r GROUP BY {key} {_HAVING}"
            " ORDER BY start_ns, min(alias), min(position), task_id, profile_uid"
            f" LIMIT {values.of(query.limit, _N)}",
            values,
        )
        return [
            SeriesItem(start_ns=start_ns, counts=TaskCounts(**dict(zip(_NAMES, row, strict=True))))
            for start_ns, *row in rows
        ]

    def rate_lines(self, query: SeriesQuery) -> list[RateLine]:
        """The rate of each profile and task over time, in columns; without those that have none.

        Cost: as of `task_series`.
        """
        values = Values()
        start, parts = _start(query, values), self._rate_parts(query, values)
        rows = self.read(
            f"SELECT {_KEY}, array_agg(start_ns ORDER BY start_ns),"
            " array_agg(passed ORDER BY start_ns), array_agg(total ORDER BY start_ns) FROM ("
            f"SELECT {start} AS start_ns, {_KEY}, {_of(Outcome.PASSED)} AS passed,"
            f" {_TOTAL} AS total FROM ({parts}) p GROUP BY 1, {_KEY}"
            f" HAVING {_TOTAL} > 0) r GROUP BY {_KEY}",
            values,
        )
        return [RateLine(*row) for row in rows]

    def _rates_with_mean(self, query: _Query, key: str, values: Values) -> str:
        """Counts beside the mean of the scores that are counted together with them."""
        start = f"{_start(query, values)} AS start_ns, " if isinstance(query, SeriesQuery) else ""
        # What a revision took out is left out before anything is computed: sums stay exact.
        return (
            f"SELECT c.*, {_MEAN.format(key=key)} AS mean FROM (SELECT {start}profile_uid, task_id,"
            " outcome, gated,"
            f" CASE WHEN abs(score) <= {_TINY} THEN 0 ELSE score END AS score,"
            " min(profile_digest) AS profile_digest,"
            " min(profile_name) AS profile_name, min(alias) AS alias, min(position) AS position,"
            f" sum(n)::BIGINT AS n FROM ({self._rate_parts(query, values)}) p"
            f" GROUP BY {key}, outcome, gated, score HAVING sum(n) > 0) c"
        )

    def _rate_parts(self, query: _Query, values: Values) -> str:
        """The sources of counts of a time: rollups for whole hours, results for the rest."""
        since_ns, until_ns = query.since_ns, query.until_ns
        first = None if since_ns is None else -(-since_ns // HOUR_NS) * HOUR_NS
        last = None if until_ns is None else until_ns // HOUR_NS * HOUR_NS
        has_hours = first is None or last is None or first <= last
        if not has_hours or (isinstance(query, SeriesQuery) and query.bucket_ns % HOUR_NS):
            return self._rate_results(query, values)
        parts = [_rollups(query, first, last, values)]
        if self._has_unknown_service(query, first, last):
            of_traces = replace(query, since_ns=first, until_ns=last)  # pyright: ignore[reportArgumentType] rollups of a series have both
            parts.append(_of_traces(of_traces, values))
        if first is not None and first != since_ns:
            parts.append(self._rate_results(replace(query, until_ns=first), values))
        if last is not None and last != until_ns:
            parts.append(self._rate_results(replace(query, since_ns=last), values))
        return " UNION ALL ".join(parts)

    def _rate_results(self, query: _Query, values: Values) -> str:
        """Every result counts one."""
        own = " AND ".join((*_conditions(query, values), *_service(query, "e", values)))
        part = _of_results(own, values)
        filters = _filters(query)
        return f"{part} UNION ALL {_of_traces(query, values)}" if filters else part

    def _has_unknown_service(self, query: _Query, first: int | None, last: int | None) -> bool:
        """Say whether the process is requested, and some rollups do not know it."""
        if not _filters(query):
            return False
        values = Values()
        conditions = [
            f"e.space = {values.of(query.space)}",
            *(f"e.{name} = ''" for name, _ in _filters(query)),
            *time_conditions(first, last, values, "e.hour_ns"),
        ]
        sql = f"SELECT 1 FROM rollups e WHERE {' AND '.join(conditions)} LIMIT 1"
        return bool(self.read(sql, values))


def _start(query: SeriesQuery, values: Values) -> str:
    return f"at_ns - at_ns % {values.of(query.bucket_ns, _N)}"


def _conditions(query: _Query, values: Values, *, has_time: bool = True) -> Iterator[str]:
    yield f"e.space = {values.of(query.space)}"
    if query.profile is not None:
        yield PROFILE.format(values.of(query.profile))
    if isinstance(query, SeriesQuery) and query.task_id is not None:
        yield f"e.task_id = {values.of(query.task_id)}"
    if has_time:
        yield from time_conditions(query.since_ns, query.until_ns, values)


def _filters(query: _Query) -> Sequence[tuple[str, str]]:
    """Conditions on the process."""
    filters = (("service_version", query.service_version), ("environment", query.environment))
    return [(name, value) for name, value in filters if value is not None]


def _service(query: _Query, table: str, values: Values) -> Iterator[str]:
    for name, value in _filters(query):
        yield f"{table}.{name} = {values.of(value)}"


def _rollups(query: _Query, first: int | None, last: int | None, values: Values) -> str:
    where = " AND ".join(
        (
            *_conditions(query, values, has_time=False),
            *_service(query, "e", values),
            *time_conditions(first, last, values, "e.hour_ns"),
        )
    )
    return f"SELECT {_COLUMNS}, e.gated, e.n, e.hour_ns AS at_ns FROM rollups e WHERE {where}"


def _of_traces(query: _Query, values: Values) -> str:
    """Results of evaluations that do not know their process, by a span of their trace."""
    space = values.of(query.space)
    unknown = " AND ".join(f"v.{name} = ''" for name, _ in _filters(query))
    in_span = " AND ".join(_service(query, "s", values))
    own = " AND ".join(
        (*_conditions(query, values), *(f"e.{name} = ''" for name, _ in _filters(query)))
    )
    return _of_results(
        f"{own} AND e.evaluation_id IN (SELECT v.evaluation_id FROM evaluations v"
        f" WHERE v.space = {space} AND {unknown} AND v.trace_id IN"
        f" (SELECT s.trace_id FROM spans s WHERE s.space = {space} AND {in_span}))",
        values,
    )


def _of_results(where: str, values: Values) -> str:
    last = values.of(LAST, _N)
    return (
        f"SELECT {_COLUMNS}, CASE WHEN e.outcome = '{Outcome.SKIPPED}'"
        f" AND e.reason = '{Reason.GATE}' THEN 1 ELSE 0 END AS gated, 1 AS n,"
        f" e.evaluated_ns AS at_ns FROM task_results e WHERE {where}"
        f" AND e.outcome <> 'pending' AND {latest('e', 'e.seq', last)}"
    )
