"""Totals: what is counted for good, in the transaction that makes it true.

The table has changes: the count of a key is the sum of its rows.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from collector.metrics import RECEIVED, TotalKey, TotalName, Totals, task_label
from collector.store.letters import DeadLetter
from collector.store.reads import NO_NEWER, Reads, Rows
from collector.store.rows import Completeness, EvaluationRow, RecordRow, Scope
from collector.store.span_rows import SpanRow
from scouter.evaluate.outcome import Outcome, Reason

HOUR_NS: Final = 3_600_000_000_000


class RollupKey(NamedTuple):
    """Key by which decided tasks are counted: the columns of the table in order."""

    space: str
    hour_ns: int
    """Beginning of the hour in which the evaluation was made."""
    profile_uid: str
    profile_digest: str
    profile_name: str
    alias: str
    service_version: str
    environment: str
    task_id: str
    position: int
    outcome: str
    gated: int
    """1 for a task that a gate skipped; it counts in the pass rate."""
    score: float | None
    """None where the outcome says it."""


_KEYS: Final = ", ".join(RollupKey._fields)
_OF_RESULTS: Final = f"""
    SELECT t.space, t.evaluated_ns - t.evaluated_ns % {HOUR_NS} AS hour_ns, t.profile_uid,
        t.profile_digest, t.profile_name, t.alias, t.service_version, t.environment, t.task_id,
        t.position, t.outcome,
        CASE WHEN t.outcome = 'skipped' AND t.reason = '{Reason.GATE}' THEN 1 ELSE 0 END AS gated,
        t.score, count(*) AS n
    FROM task_results t
    WHERE t.outcome <> 'pending' AND {{condition}} AND {NO_NEWER.format("t")}
    GROUP BY {", ".join(map(str, range(1, len(RollupKey._fields) + 1)))}
"""
_SPLIT: Final = f"""
    SELECT DISTINCT hour_ns FROM (
        SELECT hour_ns FROM rollups GROUP BY {_KEYS} HAVING count(*) > 1 OR sum(n) = 0
    ) h
"""
_SUMS: Final = f"""
    SELECT {_KEYS}, sum(n)::BIGINT FROM rollups WHERE hour_ns = ANY($1::BIGINT[])
    GROUP BY {_KEYS} HAVING sum(n) <> 0
"""


class RollupReads(Reads):
    """Reads of rollups for who changes them."""

    def rollups_of(self, condition: str, values: Sequence[object]) -> Counter[RollupKey]:
        """Count what stored results have added to the rollups.

        Args:
            condition: SQL about the results `t`.
            values: Its parameters.
        """
        rows = self.read_for_work(_OF_RESULTS.format(condition=condition), values)
        return Counter({RollupKey(*key): n for *key, n in rows})

    def split_hours(self) -> list[int]:
        """The hours with keys of several rows, or of rows that cancel each other."""
        return [hour for (hour,) in self.read_for_work(_SPLIT)]

    def rollups_in(self, hours: Sequence[int]) -> Rows:
        """A row of the table for each key of some hours, without the number of its commit."""
        return self.read_for_work(_SUMS, [hours])


def rollup_keys(row: EvaluationRow) -> Iterator[RollupKey]:
    """The counts that an evaluation adds one to: one for each task that is not pending."""
    hour_ns = row.evaluated_ns - row.evaluated_ns % HOUR_NS
    for position, task in enumerate(row.tasks):
        if task.outcome is Outcome.PENDING:
            continue
        gated = task.outcome is Outcome.SKIPPED and task.reason == Reason.GATE
        yield RollupKey(
            row.space, hour_ns, row.profile_uid, row.profile_digest, row.profile_name, row.alias,
            row.service_version, row.environment, task.task_id, position, task.outcome.value,
            int(gated), task.own_score,
        )  # fmt: skip


_ALL: Final = """
    SELECT name, space, profile, alias, task, label, sum(n)::BIGINT FROM totals
    GROUP BY name, space, profile, alias, task, label
"""


class TotalReads(Reads):
    """Reads of the totals."""

    def stored_totals(self) -> dict[TotalKey, int]:
        """All counts. Cost: linear in the rows since they were added up."""
        return {
            TotalKey(TotalName(name), *parts): n for name, *parts, n in self.read_for_work(_ALL)
        }


def span_label(*, is_event: int) -> str:
    """The label under which a span or log event is counted."""
    return "event" if is_event else "span"


def of_spans(rows: Iterable[SpanRow], replaced: Iterable[tuple[str, ...]]) -> Counter[TotalKey]:
    """Count accepted spans.

    Args:
        rows: The spans of a commit.
        replaced: The keys of those of which a version was stored before.
    """
    known = set(replaced)
    found = Counter(
        (RECEIVED[span_label(is_event=row.is_event)], row.space)
        for row in rows
        if not known or (row.space, row.trace_id, row.span_id) not in known
    )
    return Counter({TotalKey(*name): n for name, n in found.items()})


def of_records(rows: Iterable[RecordRow]) -> Counter[TotalKey]:
    """Count accepted records."""
    found = Counter[TotalKey]()
    for row in rows:
        parts = (row.space, row.profile_name, row.alias)
        found[TotalKey(TotalName.RECORDS_RECEIVED, *parts)] += 1
        if row.is_derived:
            found[TotalKey(TotalName.RECORDS_DERIVED, *parts)] += 1
    return found


def of_letters(rows: Iterable[DeadLetter]) -> Counter[TotalKey]:
    """Count what was put aside."""
    return Counter(TotalKey(TotalName.DEAD_LETTERS, row.space, label=row.reason) for row in rows)


def of_evaluation(row: EvaluationRow) -> Counter[TotalKey]:
    """Count an evaluation, as far as it is a first one, and its pending tasks."""
    found = Counter[TotalKey]()
    if row.pending:
        found[TotalKey(TotalName.PENDING, row.space)] += row.pending
    if row.revision > 1:
        return found
    parts = (row.space, row.profile_name, row.alias)
    for task in row.tasks:
        label = task_label(task.outcome, task.reason)
        found[TotalKey(TotalName.TASKS, *parts, task.task_id, label)] += 1
    is_record = row.scope is Scope.RECORD
    name = TotalName.RECORDS if is_record else TotalName.SESSIONS
    found[TotalKey(name, *parts, label=row.outcome.value)] += 1
    if is_record and row.completeness is Completeness.DEADLINE:
        found[TotalKey(TotalName.INCOMPLETE, *parts)] += 1
    return found


def added(totals: Totals, more: Mapping[TotalKey, int]) -> Totals:
    """Totals with some more; those before stay as they are for who reads them."""
    return {**totals, **{key: totals.get(key, 0) + n for key, n in more.items()}}
