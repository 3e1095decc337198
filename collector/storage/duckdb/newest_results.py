"""The newest results of one task, without the texts of their evaluations."""

import json
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from pydantic import JsonValue

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.evaluations import conditions
from collector.storage.duckdb.stored_keys import text_hash
from collector.store.evaluation_queries import NewestResult, NewestResultsQuery
from collector.store.rows import Scope, TaskRow
from scouter.evaluate.outcome import Outcome

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_EXPECTED, _ACTUAL = 4, 5
"""Places of both values in the text of a result; see `task_codec`."""
_SHORT: Final = "('BIGINT', 'UBIGINT', 'DOUBLE', 'BOOLEAN')"
"""Types of JSON that no text hides in."""


class _Found(NamedTuple):
    seq: int
    uid: str
    revision: int
    position: int
    task_type: str
    outcome: str
    reason: str | None
    score: float | None


def read_newest_results(database: Database, query: NewestResultsQuery) -> list[NewestResult]:
    """The newest decided results of a task on records, latest revisions only, newest first.

    Cost: a few columns of all results of the task, where its outcome is asked for, too; then a look
    at the hashes of the evaluations that are as new as the oldest result.
    """
    where, given = conditions(
        ("e.space = ?", query.space), ("e.alias = ?", query.alias),
        ("e.task_id = ?", query.task_id), ("e.outcome = ?", query.outcome and query.outcome.value),
    )  # fmt: skip
    columns = "e.seq, e.record_uid, e.revision, e.position, e.task_type, e.outcome, e.reason"
    rows = database.read(
        f"SELECT {columns}, e.score FROM task_results e WHERE {where}"
        " AND e.outcome NOT IN ('pending', 'skipped') ORDER BY e.seq DESC LIMIT ?",
        [*given, query.limit],
    )
    found = _latest(database, query.space, [_Found(*row) for row in rows])
    values = _values(database, query.space, found if query.has_values else ())
    return [
        NewestResult(
            uid=each.uid,
            task=TaskRow(
                task_id=query.task_id,
                task_type=each.task_type,
                outcome=Outcome(each.outcome),
                reason=each.reason,
                expected=_json(expected),
                actual=_json(actual),
                stated_score=each.score,
            ),
        )
        for each in found
        for expected, actual in [values.get(each.uid, (None, None))]
    ]


def _latest(database: Database, space: str, found: Sequence[_Found]) -> list[_Found]:
    """Leave results out that another revision took the place of, and those on sessions."""
    if not found:
        return []
    rows = database.read(
        "SELECT e.record_uid, max(e.revision) FROM evaluations e"
        " SEMI JOIN (SELECT unnest(?::BIGINT[]) AS uid_hash) k ON k.uid_hash = e.uid_hash"
        " WHERE e.seq >= ? AND e.space = ? AND e.scope = ? GROUP BY e.record_uid",
        [
            [text_hash(each.uid) for each in found],
            min(each.seq for each in found),
            space,
            Scope.RECORD.value,
        ],
    )
    latest: Mapping[str, int] = dict(rows)
    return [each for each in found if latest.get(each.uid) == each.revision]


def _values(
    database: Database, space: str, found: Sequence[_Found]
) -> Mapping[str, tuple[str | None, str | None]]:
    """By uid the expected and the actual value as JSON, where they are numbers or flags."""
    if not found:
        return {}
    parts = ", ".join(
        f"CASE WHEN json_type(e.body, {path}) IN {_SHORT} THEN json_extract_string(e.body, {path})"
        " END"
        for place in (_EXPECTED, _ACTUAL)
        for path in [f"concat('$[1][', k.position, '][{place}]')"]
    )
    rows = database.read(
        f"SELECT e.record_uid, {parts} FROM evaluations e JOIN (SELECT unnest(?::BIGINT[])"
        " AS uid_hash, unnest(?::INTEGER[]) AS revision, unnest(?::INTEGER[]) AS position) k"
        " ON k.uid_hash = e.uid_hash AND k.revision = e.revision WHERE e.seq >= ? AND e.space = ?",
        [
            [text_hash(each.uid) for each in found],
            [each.revision for each in found],
            [each.position for each in found],
            min(each.seq for each in found),
            space,
        ],
    )
    return {uid: (expected, actual) for uid, expected, actual in rows}


def _json(text: str | None) -> JsonValue:
    return None if text is None else json.loads(text)
