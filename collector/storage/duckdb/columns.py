"""Records and evaluations as columns, made in the thread that hands them over.

Values that are the same for all task results of a record, and texts that are the same for all
records, are written once.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

from collector.metrics import TotalKey, TotalName, task_label
from collector.storage.duckdb.arrow import Columns, Schema
from collector.storage.duckdb.rollup import GATE, HOUR_NS, RollupKey
from collector.storage.duckdb.stored_keys import text_hash
from collector.store.evaluation_codec import encode_evaluation
from collector.store.json_text import dump_json
from collector.store.rows import Completeness, EvaluationRow, RecordRow, Scope, TaskRow
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.score import ASSERTIONS, own_score

_SHARED: Final = (
    "space", "evaluation_id", "record_uid", "revision", "profile_uid", "profile_digest",
    "profile_name", "alias", "session_id", "service_name", "service_version", "environment",
    "created_ns", "evaluated_ns",
)  # fmt: skip
"""Columns that task results have from their evaluation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordColumns:
    """Rows of `records`."""

    rows: Sequence[RecordRow]
    hashes: Sequence[int]
    """Hashes of the records' uids."""
    records: Columns


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationColumns:
    """Rows of `evaluations` and `task_results`, and what they add to the counts."""

    rows: Sequence[EvaluationRow]
    hashes: Sequence[int]
    """Hashes of the uids of the evaluations' records."""
    evaluations: Columns
    task_results: Columns | None
    """None without any task."""
    totals: Mapping[TotalKey, int]
    """Counts to add: outcomes of the first evaluations on records, and pending tasks."""
    rollups: Mapping[RollupKey, int]
    """Counts by hour to add, as if each evaluation was the first one on its record."""


def record_columns(rows: Sequence[RecordRow], schemas: Mapping[str, Schema]) -> RecordColumns:
    """Turn records into columns.

    Args:
        rows: At least one.
        schemas: By table.

    Raises:
        DataError, pyarrow.ArrowException, UnicodeEncodeError, OverflowError: A value does not fit
            its column.
    """
    hashes = [text_hash(row.uid) for row in rows]
    columns = schemas["records"].columns(
        {
            "space": [row.space for row in rows],
            "received_ns": [row.received_ns for row in rows],
            "uid_hash": hashes,
            "uid": [row.uid for row in rows],
            "digest": [row.digest for row in rows],
            "profile_ref": [row.profile_ref for row in rows],
            "profile_uid": [row.profile_uid for row in rows],
            "profile_name": [row.profile_name for row in rows],
            "alias": [row.alias for row in rows],
            "record_id": [row.record_id for row in rows],
            "session_id": [row.session_id for row in rows],
            "trace_id": [row.trace_id for row in rows],
            "created_ns": [row.created_ns for row in rows],
            "context": [dump_json(row.context) for row in rows],
            "tags": [dump_json(row.tags) if row.tags else "{}" for row in rows],
        }
    )
    return RecordColumns(rows=rows, hashes=hashes, records=columns)


def evaluation_columns(
    rows: Sequence[EvaluationRow], schemas: Mapping[str, Schema]
) -> EvaluationColumns:
    """Turn evaluations into columns, and count them.

    Args:
        rows: At least one.
        schemas: By table.

    Raises:
        DataError, pyarrow.ArrowException, UnicodeEncodeError, OverflowError: A value does not fit
            its column.
    """
    hashes = [text_hash(row.record_uid) for row in rows]
    pending = [row.pending for row in rows]
    evaluations = schemas["evaluations"].columns(
        {
            "space": [row.space for row in rows],
            "evaluation_id": [row.evaluation_id for row in rows],
            "uid_hash": hashes,
            "record_uid": [row.record_uid for row in rows],
            "revision": [row.revision for row in rows],
            "record_id": [row.record_id for row in rows],
            "session_id": [row.session_id for row in rows],
            "trace_id": [row.trace_id for row in rows],
            "profile_uid": [row.profile_uid for row in rows],
            "profile_digest": [row.profile_digest for row in rows],
            "profile_name": [row.profile_name for row in rows],
            "alias": [row.alias for row in rows],
            "outcome": [str(row.outcome) for row in rows],
            "completeness": [str(row.completeness) for row in rows],
            "missing_parents": [row.missing_parents for row in rows],
            "reads_spans": [row.reads_spans for row in rows],
            "service_name": [row.service_name for row in rows],
            "service_version": [row.service_version for row in rows],
            "environment": [row.environment for row in rows],
            "tags": [dump_json(row.tags) if row.tags else "{}" for row in rows],
            "created_ns": [row.created_ns for row in rows],
            "evaluated_ns": [row.evaluated_ns for row in rows],
            "duration_ns": [row.duration_ns for row in rows],
            "input_seq": [row.input_seq for row in rows],
            "scope": [str(row.scope) for row in rows],
            "pending": pending,
            "was_decided": [row.was_decided for row in rows],
            "is_partial": [row.is_partial for row in rows],
            "body": [encode_evaluation(row) for row in rows],
        }
    )
    totals, rollups = _count(rows)
    for row, n in zip(rows, pending, strict=True):
        if n:
            totals[TotalKey(TotalName.PENDING, row.space)] += n
    return EvaluationColumns(
        rows=rows,
        hashes=hashes,
        evaluations=evaluations,
        task_results=_task_results(rows, evaluations, schemas["task_results"]),
        totals=totals,
        rollups=rollups,
    )


def _task_results(
    rows: Sequence[EvaluationRow], evaluations: Columns, schema: Schema
) -> Columns | None:
    counts = [len(row.tasks) for row in rows]
    tasks = list(chain.from_iterable(row.tasks for row in rows))
    if not tasks:
        return None
    own = schema.columns(
        {
            "position": list(chain.from_iterable(map(range, counts))),
            "task_id": [task.task_id for task in tasks],
            "task_type": [task.task_type for task in tasks],
            "outcome": [str(task.outcome) for task in tasks],
            "reason": [task.reason for task in tasks],
            "score": list(map(_own_score, tasks)),
        }
    )
    return evaluations.repeat(_SHARED, counts).beside(own)


def _own_score(task: TaskRow) -> float | None:
    """The row's score beside the outcome; None for assertions, which most tasks are."""
    return None if task.task_type in ASSERTIONS else own_score(task.score, task.outcome)


class _Head(NamedTuple):
    """Keys by which evaluations are counted."""

    space: str
    hour_ns: int
    profile_uid: str
    profile_digest: str
    profile_name: str
    alias: str
    is_first: bool
    scope: Scope


def _count(rows: Sequence[EvaluationRow]) -> tuple[Counter[TotalKey], Counter[RollupKey]]:
    """Count first evaluations and their tasks, and the tasks of all by hour."""
    groups: defaultdict[_Head, list[EvaluationRow]] = defaultdict(list)
    for row in rows:
        head = _Head(
            row.space, row.evaluated_ns // HOUR_NS * HOUR_NS, row.profile_uid, row.profile_digest,
            row.profile_name, row.alias, row.revision == 1, row.scope,
        )  # fmt: skip
        groups[head].append(row)
    totals: Counter[TotalKey] = Counter()
    rollups: Counter[RollupKey] = Counter()
    for head, group in groups.items():
        tasks = Counter(
            (position, task.task_id, task.outcome, task.reason)
            for row in group
            for position, task in enumerate(row.tasks)
        )
        for (position, task_id, outcome, reason), n in tasks.items():
            if outcome is Outcome.PENDING:
                continue
            gated = outcome is Outcome.SKIPPED and reason == GATE
            rollups[RollupKey(*head[:6], task_id, position, outcome.value, gated)] += n
        if head.is_first:
            totals.update(_totals(head, group, tasks))
    return totals, rollups


def _totals(
    head: _Head,
    group: Sequence[EvaluationRow],
    tasks: Counter[tuple[int, str, Outcome, str | None]],
) -> Counter[TotalKey]:
    found: Counter[TotalKey] = Counter()
    profile = {"profile": head.profile_name, "alias": head.alias}
    for (_, task_id, outcome, reason), n in tasks.items():
        label = task_label(outcome, reason)
        key = TotalKey(TotalName.TASKS, head.space, **profile, task=task_id, label=label)
        found[key] += n
    of_scope = TotalName.RECORDS if head.scope is Scope.RECORD else TotalName.SESSIONS
    for outcome, n in Counter(row.outcome for row in group).items():
        found[TotalKey(of_scope, head.space, **profile, label=outcome.value)] += n
    late = sum(row.completeness is Completeness.DEADLINE for row in group)
    if late and head.scope is Scope.RECORD:
        found[TotalKey(TotalName.INCOMPLETE, head.space, **profile)] += late
    return found
