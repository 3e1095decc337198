"""Rows that no store can hold cost themselves alone."""

from dataclasses import replace

from collector.store.commit import Commit
from collector.store.rows import Completeness, EvaluationRow, RecordRow
from collector.worker.committer import sift
from scouter.evaluate.outcome import Outcome

HALF = "\ud800"
"""Half a character, which no column holds."""
GOOD = RecordRow(
    space="s", uid="good", digest="d", profile_ref="p", created_ns=1, received_ns=1, context={}
)
BAD = replace(GOOD, uid="bad", alias=HALF)
EVALUATION = EvaluationRow(
    space="s", evaluation_id="e", record_uid="good", record_id="", session_id="", trace_id=None,
    profile_uid="p", profile_digest="d", profile_name="p", alias="p", outcome=Outcome.PASSED,
    completeness=Completeness.COMPLETE, created_ns=1, evaluated_ns=2, tasks=(),
)  # fmt: skip


def test_a_record_that_cannot_be_stored_goes_with_its_evaluation() -> None:
    commit = Commit(
        offset=0, low_seq=0, records=[GOOD, BAD],
        evaluations=[EVALUATION, replace(EVALUATION, record_uid="bad")],
    )  # fmt: skip
    assert sift(commit) == 1
    assert (commit.records, commit.evaluations) == ([GOOD], [EVALUATION])
    (letter,) = commit.letters
    assert (letter.reason, letter.was_accepted) == ("invalid_record", False)
    assert "alias" in letter.message or "records" in letter.message


def test_an_evaluation_that_cannot_be_stored_is_the_letter_of_its_record() -> None:
    commit = Commit(
        offset=0, low_seq=0, records=[GOOD], evaluations=[replace(EVALUATION, alias=HALF)]
    )
    assert sift(commit) == 1
    assert (commit.records, commit.evaluations) == ([GOOD], [])
    (letter,) = commit.letters
    assert (letter.reason, letter.uid, letter.was_accepted) == ("unstorable_verdict", "good", True)


def test_nothing_is_taken_out_of_what_can_be_stored() -> None:
    assert sift(Commit(offset=0, low_seq=0, records=[GOOD], evaluations=[EVALUATION])) == 0
