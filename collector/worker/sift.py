"""Rows that no store can hold, found one by one after a commit was refused for them."""

from collector.store.commit import Commit, arrow_tables
from collector.store.letters import DeadLetter
from collector.store.rows import EvaluationRow, RecordRow
from collector.worker.letters import letter_of_evaluation, letter_of_record
from scouter.errors import DataError


def sift(commit: Commit) -> int:
    """Put letters in the place of records and evaluations that cannot be stored.

    Args:
        commit: Is changed.

    Returns:
        Number of rows that were taken out.

    Cost: each row is made ready for the store alone, about 1 ms.
    """
    records = {id(row): why for row in commit.records if (why := _fault(records=row))}
    evaluations = {id(row): why for row in commit.evaluations if (why := _fault(evaluations=row))}
    for row in commit.records:
        if why := records.get(id(row)):
            commit.letters.append(_short(letter_of_record(row, "invalid_record", why)))
    for row in commit.evaluations:
        if why := evaluations.get(id(row)):
            commit.letters.append(letter_of_evaluation(row, why))
    gone = {(row.space, row.uid) for row in commit.records if id(row) in records}
    commit.evaluations = [
        row
        for row in commit.evaluations
        if id(row) not in evaluations and (row.space, row.record_uid) not in gone
    ]
    commit.records = [row for row in commit.records if id(row) not in records]
    return len(records) + len(evaluations)


def _fault(*, records: RecordRow | None = None, evaluations: EvaluationRow | None = None) -> str:
    alone = Commit(
        records=[] if records is None else [records],
        evaluations=[] if evaluations is None else [evaluations],
    )
    try:
        list(arrow_tables(alone, 0))
    except DataError as error:
        return str(error)
    return ""


def _short(letter: DeadLetter) -> DeadLetter:
    """The letter of a record that was never accepted."""
    return DeadLetter(
        space=letter.space, kind=letter.kind, reason=letter.reason, message=letter.message,
        source="log", payload=letter.payload, received_ns=letter.received_ns,
    )  # fmt: skip
