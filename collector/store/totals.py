"""Totals: what is counted for good, in the transaction that makes it true.

The table has changes: the count of a key is the sum of its rows.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from collector.metrics import RECEIVED, TotalKey, TotalName, Totals, task_label
from collector.store.letters import DeadLetter
from collector.store.reads import Reads
from collector.store.rows import Completeness, EvaluationRow, RecordRow, Scope
from collector.store.span_rows import SpanRow

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
