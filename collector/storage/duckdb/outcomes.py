"""The newest evaluations of a filter by their columns alone: their texts stay unread."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.evaluations import EvaluationPlace, newest_evaluations
from collector.store.evaluation_queries import EvaluationQuery, OutcomeRow, TaskOutcome
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.score import score_of

# All SQL is put together from this module's own words; values always travel as parameters.


def read_outcomes(database: Database, query: EvaluationQuery) -> list[OutcomeRow]:
    """Outcomes of the newest evaluations that a listing holds, newest first.

    Args:
        database: The open file.
        query: Says as of when, and how many.

    Cost: that of the listing's places, and a look at the ids of all results that are as new as the
        oldest evaluation.
    """
    found: list[EvaluationPlace] = []
    for part in newest_evaluations(database, query):
        found += part
        if len(found) >= query.limit:
            break
    page = found[: query.limit]
    if not page:
        return []
    reach = [page[-1].seq, page[0].seq]
    rows = database.read(
        "SELECT e.evaluation_id, e.record_uid, e.record_id, e.session_id, e.trace_id, e.outcome,"
        " e.created_ns, e.duration_ns FROM evaluations e"
        " SEMI JOIN (SELECT unnest(?::BIGINT[]) AS uid_hash) k ON k.uid_hash = e.uid_hash"
        " WHERE e.seq BETWEEN ? AND ?",
        [[each.uid_hash for each in page], *reach],
    )
    known = {row[0]: row[1:] for row in rows}
    tasks = _tasks(database, page, reach)
    return [
        _outcome_row(known[each.evaluation_id], tasks.get(each.evaluation_id, ()))
        for each in page
        if each.evaluation_id in known  # it may have been erased meanwhile
    ]


def _tasks(
    database: Database, page: Sequence[EvaluationPlace], reach: Sequence[int]
) -> Mapping[str, Sequence[TaskOutcome]]:
    """The results by evaluation, in the order of the profile."""
    rows = database.read(
        "SELECT e.position, e.evaluation_id, e.task_id, e.task_type, e.outcome, e.reason, e.score"
        " FROM task_results e"
        " SEMI JOIN (SELECT unnest(?::VARCHAR[]) AS id) k ON k.id = e.evaluation_id"
        " WHERE e.seq BETWEEN ? AND ?",
        [[each.evaluation_id for each in page], *reach],
    )
    found: defaultdict[str, list[TaskOutcome]] = defaultdict(list)
    for _, evaluation_id, task_id, task_type, text, reason, stated in sorted(
        rows, key=lambda row: row[0]
    ):
        outcome = Outcome(text)
        score = score_of(task_type, outcome, None, stated)
        found[evaluation_id].append(TaskOutcome(task_id, task_type, outcome, reason, score))
    return found


def _outcome_row(values: Sequence[Any], tasks: Sequence[TaskOutcome]) -> OutcomeRow:
    uid, record_id, session_id, trace_id, outcome, created_ns, duration_ns = values
    return OutcomeRow(
        record_uid=uid,
        record_id=record_id,
        session_id=session_id,
        trace_id=trace_id,
        outcome=Outcome(outcome),
        created_ns=created_ns,
        duration_ns=duration_ns,
        tasks=tuple(tasks),
    )
