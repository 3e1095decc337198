"""Results of one task: the newest ones, without the texts of their evaluations."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from collector.store.commit import text_hash
from collector.store.evaluation_queries import (
    PROFILE,
    NewestResult,
    NewestResultsQuery,
    TaskValue,
    TaskValuesQuery,
    latest,
    time_conditions,
)
from collector.store.json_text import TASK, USAGE, decode_evaluation, dump_json
from collector.store.reads import NO_NEWER, Reads, Values
from collector.store.rows import Scope, TaskRow
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.tasks.score import FEEDBACK
from scouter.model.score import SCORE_OF

_N: Final = "BIGINT"
_TIMES: Final = """
    SELECT s.trace_id, max(s.end_ns) - min(s.start_ns) FROM spans s
    WHERE s.space = $1::TEXT AND s.trace_id = ANY($2::TEXT[]) AND s.is_event = 0
    GROUP BY s.trace_id
"""
_BODIES: Final = """
    SELECT e.record_uid, e.revision, e.body FROM evaluations e
    WHERE e.space = $1::TEXT AND e.uid_hash = ANY($2::BIGINT[])
"""


_FEEDBACK: Final = f"""
    SELECT e.trace_id, (SELECT max(substr(tag, length($2::TEXT) + 2))
        FROM (SELECT unnest(e.tags) AS tag) u WHERE starts_with(tag, $2::TEXT || '=')), t.outcome
    FROM task_results t JOIN evaluations e ON e.seq = t.seq AND e.evaluation_id = t.evaluation_id
    WHERE t.space = $1 AND t.task_type = '{FEEDBACK}' AND t.outcome IN ('passed', 'failed')
    ORDER BY t.seq DESC, t.evaluation_id LIMIT 10000
"""
_BESIDE: Final = """
    SELECT e.record_uid, coalesce(e.trace_id, ''), t.outcome
    FROM task_results t JOIN evaluations e ON e.seq = t.seq AND e.evaluation_id = t.evaluation_id
    WHERE t.space = $1 AND t.alias = $2 AND t.task_id = $3 AND t.outcome IN ('passed', 'failed')
      AND e.scope = 'record' AND {}
      AND (e.trace_id = ANY($4::TEXT[]) OR e.record_uid = ANY($5::TEXT[]))
"""


class TaskResultReads(Reads):
    """Reads of the results of one task."""

    def newest_results(self, query: NewestResultsQuery) -> list[NewestResult]:
        """The newest decided results of a task on records, the latest of each, newest first.

        Cost: a few columns of all results of the task; with values also the texts of what is found.
        """
        values = Values()
        conditions = [
            f"e.space = {values.of(query.space)}",
            f"e.alias = {values.of(query.alias)}",
            f"e.task_id = {values.of(query.task_id)}",
            "e.outcome NOT IN ('pending', 'skipped')"
            if query.outcome is None
            else f"e.outcome = {values.of(query.outcome.value)}",
            latest("e", "e.seq", values.of(self.last_seq(), _N)),
            "NOT EXISTS (SELECT 1 FROM evaluations v WHERE v.seq = e.seq AND v.space = e.space"
            f" AND v.evaluation_id = e.evaluation_id AND v.scope = '{Scope.SESSION}')",
        ]
        rows = self.read(
            "SELECT e.record_uid, e.revision, e.position, e.task_type, e.outcome, e.reason, e.score"
            f" FROM task_results e WHERE {' AND '.join(conditions)}"
            f" ORDER BY e.seq DESC, e.record_uid DESC LIMIT {values.of(query.limit, _N)}",
            values,
        )
        whole: Mapping[str, TaskRow] = {}
        if query.has_values:
            whole = self._whole_results(query.space, rows)
        return [NewestResult(uid=row[0], task=_task(query.task_id, row, whole)) for row in rows]

    def feedback_beside(self, space: str, alias: str, task_id: str) -> Confusion:
        """How a task ended on records about which people gave feedback, which counts as true.

        Args:
            space: Of both.
            alias: Of the task's profile.
            task_id: The task.

        Returns:
            Counts of the newest 10,000 feedbacks, each with every record of its trace, or with the
            one that it names.
        """
        said = self.read(_FEEDBACK, [space, SCORE_OF])
        traces = sorted({trace for trace, _, _ in said if trace})
        uids = sorted({uid for _, uid, _ in said if uid})
        task = [space, alias, task_id.lower()]
        judged = self.read(_BESIDE.format(NO_NEWER.format("e")), [*task, traces, uids])
        of_uid = {uid: outcome for uid, _, outcome in judged}
        of_trace: defaultdict[str, list[str]] = defaultdict(list)
        for _, trace, outcome in judged:
            of_trace[trace].append(outcome)
        counts = Counter(
            (feedback == Outcome.PASSED, outcome == Outcome.PASSED)
            for trace, uid, feedback in said
            for outcome in ([of_uid[uid]] if uid in of_uid else [] if uid else of_trace[trace])
        )
        return Confusion(
            good_passed=counts[True, True], good_failed=counts[True, False],
            bad_passed=counts[False, True], bad_failed=counts[False, False],
        )  # fmt: skip

    def _whole_results(self, space: str, rows: Sequence[Sequence[Any]]) -> Mapping[str, TaskRow]:
        """The whole results by uid of the record."""
        wanted: dict[str, tuple[int, int]] = {row[0]: (row[1], row[2]) for row in rows}
        found = self.read(_BODIES, [space, [text_hash(uid) for uid in wanted]])
        return {
            uid: decode_evaluation(body).tasks[wanted[uid][1]]
            for uid, revision, body in found
            if uid in wanted and wanted[uid][0] == revision
        }

    def task_values(self, query: TaskValuesQuery) -> list[TaskValue]:
        """Scores and durations of the newest results of a task, the newest first.

        Cost: linear in the results of the task in that time; then a look at the trace of each span.
        """
        values = Values()
        where = " AND ".join(_conditions(query, values, self.last_seq()))
        rows = self.read(
            "SELECT e.evaluated_ns, e.outcome, e.score, v.trace_id FROM task_results e"
            " JOIN evaluations v ON v.seq = e.seq AND v.evaluation_id = e.evaluation_id"
            f" WHERE {where} ORDER BY e.evaluated_ns DESC, e.evaluation_id"
            f" LIMIT {values.of(query.limit, _N)}",
            values,
        )
        traces = sorted({trace_id for *_, trace_id in rows if trace_id})
        times = dict(self.read(_TIMES, [query.space, traces])) if traces else {}
        return [
            TaskValue(
                at_ns=at_ns, outcome=Outcome(outcome), score=score, duration_ns=times.get(trace_id)
            )
            for at_ns, outcome, score, trace_id in rows
        ]


def _conditions(query: TaskValuesQuery, values: Values, last_seq: int) -> Iterator[str]:
    space = values.of(query.space)
    yield f"e.space = {space} AND e.task_id = {values.of(query.task_id)}"
    yield PROFILE.format(values.of(query.profile))
    yield "e.outcome <> 'pending'"
    yield from time_conditions(query.since_ns, query.until_ns, values)
    yield latest("e", "e.seq", values.of(last_seq, _N))
    filters = [
        (name, values.of(value))
        for name, value in (
            ("service_version", query.service_version), ("environment", query.environment)
        )
        if value is not None
    ]  # fmt: skip
    if filters:
        own, of_span = (
            " AND ".join(f"{table}.{name} = {value}" for name, value in filters)
            for table in ("v", "s")
        )
        unknown = " AND ".join(f"v.{name} = ''" for name, _ in filters)
        yield (
            f"({own} OR {unknown} AND v.trace_id IN"
            f" (SELECT s.trace_id FROM spans s WHERE s.space = {space} AND {of_span}))"
        )


def _task(task_id: str, row: Sequence[Any], whole: Mapping[str, TaskRow]) -> TaskRow:
    uid, _, _, task_type, outcome, reason, score = row
    found = whole.get(uid)
    expected, actual = (None, None) if found is None else (found.expected, found.actual)
    return TaskRow(
        task_id=task_id,
        task_type=task_type,
        outcome=Outcome(outcome),
        reason=reason,
        expected=expected if isinstance(expected, int | float) else None,
        actual=actual if isinstance(actual, int | float) else None,
        stated_score=score,
    )


_OF_EVALUATION: Final = {
    "seq": pa.int64(), "space": pa.string(), "evaluation_id": pa.string(),
    "record_uid": pa.string(), "revision": pa.int32(), "profile_uid": pa.string(),
    "profile_digest": pa.string(), "profile_name": pa.string(), "alias": pa.string(),
    "session_id": pa.string(), "service_name": pa.string(), "service_version": pa.string(),
    "environment": pa.string(), "created_ns": pa.int64(), "evaluated_ns": pa.int64(),
}  # fmt: skip
"""Columns of the evaluation's row."""
_FIELDS: Final = (*(name for name in TASK if name not in ("usage", "stated_score")), "score")
_JSON: Final = frozenset(("expected", "actual", "answer"))
"""Fields that may be any value; their columns have JSON."""
_KINDS: Final = {
    "condition": pa.bool_(), "stage": pa.int32(), "calls": pa.int32(), "cached": pa.int32(),
    "input_tokens": pa.int64(), "output_tokens": pa.int64(), "cost_usd": pa.float64(),
    "unpriced_calls": pa.int32(), "span_ids": pa.list_(pa.string()), "score": pa.float64(),
}  # fmt: skip
_SCHEMA: Final = pa.schema(
    [
        *_OF_EVALUATION.items(),
        ("position", pa.int32()),
        *((name, _KINDS.get(name, pa.string())) for name in (*_FIELDS, *USAGE)),
    ]
)
RESULT_COLUMNS: Final = (*_OF_EVALUATION, "body")
"""Columns of the table `evaluations` that `result_table` takes, in their order."""
EVALUATIONS: Final = (
    f"SELECT {', '.join(RESULT_COLUMNS)} FROM evaluations WHERE rowid >= $1 AND rowid < $2"
)
"""SQL for some evaluations, as `result_table` takes them."""


def result_table(evaluations: pa.Table) -> pa.Table:
    """The results of some evaluations, a row for each.

    Args:
        evaluations: Rows of `RESULT_COLUMNS`.
    """
    rows = list(_rows(evaluations))
    columns = zip(*rows, strict=True) if rows else [()] * len(_SCHEMA)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, _SCHEMA.types, strict=True)]
    return pa.Table.from_arrays(arrays, schema=_SCHEMA)


def _rows(evaluations: pa.Table) -> Iterator[tuple[Any, ...]]:
    for *head, body in zip(*(column.to_pylist() for column in evaluations.columns), strict=True):
        for position, task in enumerate(decode_evaluation(body).tasks):
            yield (*head, position, *_values(task))


def _values(task: TaskRow) -> Iterator[object]:
    for name in _FIELDS:
        value = getattr(task, name)
        yield dump_json(value) if name in _JSON else value
    for name in USAGE:
        yield None if task.usage is None else getattr(task.usage, name)
