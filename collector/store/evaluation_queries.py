"""Questions about evaluations and results of tasks, and the rows that answer them."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from collector.store.commit import tag_texts
from collector.store.reads import OutcomeFilter, Values, has_outcome
from collector.store.rows import EvaluationRow, TaskRow
from collector.store.span_rows import traces_with
from scouter.evaluate.outcome import Outcome
from scouter.model.span import struct


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationQuery:
    """Filter of the evaluations to list; None means any."""

    space: str
    profile: str | None = None
    """Alias, name, uid or digest."""
    record_id: str | None = None
    """Or its uid."""
    session_id: str | None = None
    """Or the uid of a record without one, which is a session of its own."""
    trace_id: str | None = None
    outcome: OutcomeFilter | None = None
    task_id: str | None = None
    """Only evaluations with such a task; with `task_outcome`, with that outcome of it."""
    task_outcome: OutcomeFilter | None = None
    service_name: str | None = None
    """Service of the evaluation; if it looked at no spans, of a span of its trace.

    The next two fields work alike.
    """
    service_version: str | None = None
    environment: str | None = None
    tags: tuple[tuple[str, str], ...] = ()
    """Keys and values that are all among the evaluation's tags."""
    setup: str | None = None
    """Value that a span of its trace tells, in the form of `setup_text`."""
    user_id: str | None = None
    """That a span of its trace names."""
    attributes: tuple[tuple[str, str], ...] = ()
    """Each of some span of its trace, as of `SpanQuery.attributes`."""
    spans_in: tuple[int, int] | None = None
    """The first and the last commit with spans of these traces, where that was looked up."""
    since_ns: int | None = None
    until_ns: int | None = None
    as_of: int | None = None
    """As it was after this commit, so that pages read over a long time hold each record once."""
    limit: int = 100
    before: tuple[int, int] | None = None
    """Continue below this position: (commit, ordinal in it)."""
    text_bytes: int | None = None
    """The page ends early where the texts of its evaluations are about so long; for exports."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationPage:
    """Evaluations, newest first, and where the next page begins."""

    items: tuple[EvaluationRow, ...]
    next_before: tuple[int, int] | None
    as_of: int
    """Last commit that the listing includes; the query for the next page needs it."""


class TaskOutcome(NamedTuple):
    """The outcome of a task for one record."""

    task_id: str
    task_type: str
    outcome: Outcome
    reason: str | None
    score: float | None
    """As `TaskRow.score`."""


@struct
class OutcomeRow:
    """The outcome of an evaluation and of its tasks."""

    record_uid: str
    record_id: str
    session_id: str
    trace_id: str | None
    outcome: Outcome
    created_ns: int
    duration_ns: int
    tags: Mapping[str, str]
    tasks: tuple[TaskOutcome, ...]
    """In the order of the profile."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestResultsQuery:
    """Results to read."""

    space: str
    alias: str
    task_id: str
    outcome: Outcome | None = None
    """None means any but `pending` and `skipped`."""
    limit: int
    has_values: bool = False
    """True reads the expected and the actual value, too, where they are numbers or flags."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewestResult:
    """The latest result of a task on a record."""

    uid: str
    """Uid of the record."""
    task: TaskRow
    """Without texts: no message, no answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskValuesQuery:
    """Filter of the results of one task; None means any."""

    space: str
    profile: str
    task_id: str
    service_version: str | None = None
    environment: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    limit: int = 2_000
    """Results that are looked at: the newest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskValue:
    """One result of a task."""

    at_ns: int
    """Time of evaluation."""
    outcome: Outcome
    score: float | None
    """None where it has none of its own."""
    duration_ns: int | None
    """From the first span of its trace to the end of the last; None without spans."""


_N: Final = "BIGINT"
_TEXTS: Final = "TEXT[]"
SERVICE: Final = ("service_name", "service_version", "environment")
"""Facts that an evaluation has of the process that it is about.

One that looked at no spans may not know it; a span of its trace does.
"""
PROFILE: Final = "{} IN (e.alias, e.profile_name, e.profile_uid, e.profile_digest)"
_FILTERS: Final = (
    ("profile", PROFILE),
    ("record_id", "{} IN (e.record_id, e.record_uid)"),
    ("session_id", "coalesce(nullif(e.session_id, ''), e.record_uid) = {}"),
    ("trace_id", "e.trace_id = {}"),
)
"""Of texts."""


def evaluation_condition(query: EvaluationQuery, first: int, last: int, values: Values) -> str:
    """SQL that is true of evaluations `e` that a filter names and that are the latest of all.

    Args:
        query: The filter; its place is not looked at.
        first: The first commit that is looked at.
        last: The last one.
        values: Gets the values of parameters.
    """
    return " AND ".join(_parts(query, first, last, values))


def _parts(query: EvaluationQuery, first: int, last: int, values: Values) -> Iterator[str]:
    space = values.of(query.space)
    low, high = values.of(first, _N), values.of(last, _N)
    yield f"e.seq BETWEEN {low} AND {high} AND e.space = {space}"
    for name, sql in _FILTERS:
        if (value := getattr(query, name)) is not None:
            yield sql.format(values.of(value))
    if query.outcome is not None:
        yield has_outcome("e", query.outcome, values)
    yield from time_conditions(query.since_ns, query.until_ns, values)
    if query.tags:
        yield has_tags(query.tags, "e.tags", values)
    if query.setup is not None:
        yield (
            f"e.trace_id IN (SELECT s.trace_id FROM spans s WHERE s.space = {space}"
            f" AND s.setup @> {values.of([query.setup], _TEXTS)})"
        )
    yield from traces_with(
        query.space, query.user_id, query.attributes, "e.trace_id", values, query.spans_in
    )
    yield from _service(query, space, values)
    if query.task_id is not None or query.task_outcome is not None:
        task = " AND ".join(task_conditions(query.task_id, query.task_outcome, values))
        yield (
            "e.evaluation_id IN (SELECT t.evaluation_id FROM task_results t"
            f" WHERE t.seq BETWEEN {low} AND {high} AND t.space = {space} AND {task})"
        )
    as_of = high if query.as_of is None else values.of(query.as_of, _N)
    yield latest("e", low, as_of)


def latest(table: str, first: str, as_of: str) -> str:
    """SQL that is true of evaluations or results that no later revision takes the place of.

    Args:
        table: Its name in the query.
        first: SQL for a commit that is not behind theirs.
        as_of: SQL for the last commit that counts.
    """
    return (
        f"NOT EXISTS (SELECT 1 FROM evaluations n WHERE n.seq BETWEEN {first} AND {as_of}"
        f" AND n.revision > 1 AND n.space = {table}.space AND n.record_uid = {table}.record_uid"
        f" AND n.revision > {table}.revision)"
    )


def time_conditions(
    since_ns: int | None, until_ns: int | None, values: Values, column: str = "e.evaluated_ns"
) -> Iterator[str]:
    """The bounds of a time as conditions of a column."""
    if since_ns is not None:
        yield f"{column} >= {values.of(since_ns, _N)}"
    if until_ns is not None:
        yield f"{column} < {values.of(until_ns, _N)}"


def task_conditions(
    task_id: str | None, outcome: OutcomeFilter | None, values: Values
) -> Iterator[str]:
    """The filter of results `t` by their task."""
    if task_id is not None:
        yield f"t.task_id = {values.of(task_id)}"
    if outcome is not None:
        yield has_outcome("t", outcome, values)


def has_tags(tags: Iterable[tuple[str, str]], column: str, values: Values) -> str:
    """SQL that is true of rows with all of some tags in a column."""
    texts = [text for pair in tags for text in tag_texts(dict([pair]))]
    return f"{column} @> {values.of(texts, _TEXTS)}"  # in DuckDB a tenth of the time of `= ANY`


def service_filters(query: EvaluationQuery) -> dict[str, str]:
    """Conditions on the process, by column."""
    filters = ((name, getattr(query, name)) for name in SERVICE)
    return {name: value for name, value in filters if value is not None}


def _service(query: EvaluationQuery, space: str, values: Values) -> Iterator[str]:
    filters = [(name, values.of(value)) for name, value in service_filters(query).items()]
    if not filters:
        return
    own, of_span = (
        " AND ".join(f"{table}.{name} = {value}" for name, value in filters) for table in ("e", "s")
    )
    yield (
        f"({own} OR e.reads_spans = 0 AND e.trace_id IN"
        f" (SELECT s.trace_id FROM spans s WHERE s.space = {space} AND {of_span}))"
    )
