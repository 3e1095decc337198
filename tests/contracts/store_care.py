"""Erasure, retention and size in any store."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from collector.metrics import TotalKey, TotalName
from collector.store.commit import Commit
from collector.store.erase import EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.judges import GoldOutcome, GoldQuery
from collector.store.letters import LetterQuery
from collector.store.rates import TaskQuery
from collector.store.rows import (
    RecordRow,
    Scope,
    TaskRow,
)
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import (
    SPACE,
    TRACE,
    evaluation,
    letter,
    record,
    span,
)
from tests.contracts.store_opened import Open, OpenedStore
from tests.support.store_appends import AppendingStore

_NOBODY: set[str] = set()
_NONE: set[int] = set()


def trace(n: int) -> str:
    return f"{n:032x}"


def fill(store: AppendingStore) -> None:
    """Records u1 to u6, received at 10, 20 … 60 with a span each.

    u2 waits; u3 has a revision of 100; u4 became a dead letter.
    """
    rows = [record(f"u{n}", trace_id=trace(n), received_ns=10 * n) for n in range(1, 7)]
    store.append_records(rows).result()
    for n in range(1, 7):
        store.append_spans(SPACE, [span(n, trace_id=trace(n))], 10 * n).result()
    evaluations = [
        evaluation(f"u{n}", evaluated_ns=10 * n + 1, trace_id=trace(n), evaluation_id=f"e{n}")
        for n in (1, 3, 5, 6)
    ]
    store.append_evaluations(evaluations).result()
    again = evaluation("u3", Outcome.FAILED, evaluated_ns=100, revision=2, evaluation_id="e3 again")
    store.append_evaluations([again]).result()
    gone = letter(uid="u4", reason="unknown_profile", was_accepted=True, received_ns=45)
    store.append_dead_letters([gone]).result()


@dataclass(frozen=True)
class Erasure:
    """The same rows in a space of its own, and what is erased of them."""

    space: str
    field: str
    value: Any
    uids: set[str]
    spans_gone: set[int]

    @property
    def foreign(self) -> str:
        return f"beside {self.space}"

    @property
    def target(self) -> EraseTarget:
        return EraseTarget(space=self.space, **{self.field: self.value})

    def rows(self) -> list[RecordRow]:
        rows = [
            record("a1", session_id="a", trace_id=trace(1), tags={"user": "ann"}),
            record("a2", session_id="a", trace_id=trace(2), tags={"user": "bob"}),
            record("b1", session_id="b", trace_id=trace(2), tags={"user": "ann"}),
            record("alone", trace_id=trace(3), tags={}),
        ]
        return [replace(row, space=self.space) for row in rows]

    def send(self, store: AppendingStore) -> None:
        store.append_records(self.rows()).result()
        for n in range(1, 5):
            store.append_spans(self.space, [span(n, trace_id=trace(n))], 1).result()
        judged = [
            evaluation(row.uid, space=self.space, session_id=row.session_id,
                       trace_id=row.trace_id, tags=row.tags)
            for row in self.rows()
        ]  # fmt: skip
        store.append_evaluations(judged).result()

    def check(self, store: AppendingStore) -> None:
        uids = {row.uid for row in self.rows()}
        left = uids - self.uids
        assert {row.uid for row in store.records_of(self.space, sorted(uids))} == left
        listed = store.evaluations(EvaluationQuery(space=self.space)).items
        assert {row.record_uid for row in listed} == left
        found = store.spans_of(self.space, [trace(n) for n in range(1, 5)])
        numbers = {int(each.span_id, 16) for some in found.values() for each in some}
        assert numbers == {1, 2, 3, 4} - self.spans_gone
        (counts,) = store.task_counts(TaskQuery(space=self.space))
        assert counts.passed == len(left)
        sheet = store.conservation(self.space)
        states = sheet.records
        assert store.record_sheet(self.space) == states
        assert (states.accepted, states.evaluated, states.waiting, states.erased) == (
            4, len(left), 0, len(self.uids),
        )  # fmt: skip
        assert (sheet.spans.accepted, sheet.spans.stored, sheet.spans.erased) == (
            4, 4 - len(self.spans_gone), len(self.spans_gone),
        )  # fmt: skip
        key = TotalKey(TotalName.ERASED, self.space, label="record")
        assert store.totals().get(key, 0) == len(self.uids)
        assert {store.record_history(self.space, uid) for uid in self.uids} <= {None}
        assert store.record_history(self.foreign, "a1") is not None


ERASURES: Final = (
    Erasure("one record", "record_uid", "a1", {"a1"}, {1}),
    Erasure("one of two records of a trace", "record_uid", "a2", {"a2"}, _NONE),
    Erasure("a session", "session_id", "a", {"a1", "a2"}, {1}),
    Erasure("a session that shares its trace", "session_id", "b", {"b1"}, _NONE),
    Erasure("a record that is its own session", "session_id", "alone", {"alone"}, {3}),
    Erasure("a trace", "trace_id", trace(2), {"a2", "b1"}, {2}),
    Erasure("a trace of no record", "trace_id", trace(4), _NOBODY, {4}),
    Erasure("a tag", "tag", ("user", "ann"), {"a1", "b1"}, {1}),
    Erasure("a tag that nobody has", "tag", ("user", "an"), _NOBODY, _NONE),
    Erasure("nobody", "record_uid", "nobody", _NOBODY, _NONE),
)


class CareContract(OpenedStore):
    """What is taken out, and what stays."""

    erasures: ClassVar[Sequence[Erasure]] = ERASURES

    def test_what_is_erased_is_gone_for_good(self, open_store: Open) -> None:
        """Listings, counts and rates lose it, the sheet says so, and it does not come again."""
        store = open_store()
        for each in self.erasures:
            each.send(store)
            letters = [letter(uid="a1"), letter(source="another", payload=b"{}")]
            store.append_dead_letters([replace(row, space=each.space) for row in letters]).result()
            store.append_records([record("a1", space=each.foreign, session_id="a")]).result()
            done = store.erase(each.target)
            counts = (len(each.spans_gone), len(each.uids))
            assert (done.uids, done.spans, done.evaluations) == (each.uids, *counts)
            each.check(store)
            left = [row.letter.uid for row in store.dead_letters(LetterQuery(space=each.space))]
            assert sorted(left) == sorted(["", *(["a1"] if "a1" not in each.uids else [])])
            each.send(store)
            each.check(store)
        store.close()
        store = open_store()
        for each in self.erasures:
            each.check(store)
            each.send(store)
            each.check(store)
            again = store.erase(each.target)
            assert (again.uids, again.spans) == (set(), 0)
        store.close()

    def test_an_evaluation_that_read_what_was_erased_keeps_its_outcome_without_texts(
        self, store: AppendingStore
    ) -> None:
        """Here a session's, of which one record stays."""
        store.append_records(
            [record("u1", session_id="s1"), record("u2", session_id="s1")]
        ).result()
        secret = TaskRow(
            task_id="t1", task_type="x", outcome=Outcome.FAILED, expected="a", actual="b",
            message="c",
        )  # fmt: skip
        whole = evaluation("of s1", Outcome.FAILED, (secret,), scope=Scope.SESSION)
        store.append_evaluations([whole, evaluation("u2", tasks=(secret,))]).result()
        store.erase(EraseTarget(space=SPACE, record_uid="u1"))
        found = {
            row.record_uid: row.tasks[0]
            for row in store.evaluations(EvaluationQuery(space=SPACE)).items
        }
        assert found == {
            "of s1": replace(secret, expected=None, actual=None, message=""),
            "u2": secret,
        }

    @pytest.mark.parametrize("end_ns", [20, 21])
    def test_a_span_that_comes_again_after_retention_is_a_new_one(
        self, store: AppendingStore, end_ns: int
    ) -> None:
        """The same one, or a better version: it is stored and counted, as nothing is left of it."""
        unit = store.unit
        store.append_spans(SPACE, [span(1)], 10 * unit).result()
        store.commit(Commit(low_seq=store.last_seq() + 1))  # the join needs nothing of it
        assert store.remove_before(11 * unit) == 1
        for stored, duplicates in ((1, 0), (0, 1)):
            answer = store.append_spans(SPACE, [span(1, end_ns=end_ns)], 12 * unit).result()
            assert (len(answer.stored), answer.duplicates) == (stored, duplicates)
        sheet = store.conservation(SPACE).spans
        assert (sheet.accepted, sheet.stored, sheet.expired, sheet.duplicates) == (2, 1, 1, 1)
        assert [each.end_ns for each in store.spans_of(SPACE, [TRACE])[TRACE]] == [end_ns]

    def test_evaluations_on_gold_items_go_with_what_is_as_old(self, store: AppendingStore) -> None:
        query = GoldQuery(space=SPACE, alias="a", task_id="t", judge="d", since_slot=0)
        evaluations = [
            GoldOutcome(
                space=SPACE, alias="a", task_id="t", judge="d", slot=at, item=f"i{at}",
                is_good=True, outcome=Outcome.PASSED, reason=None, at_ns=at,
            )
            for at in (4, 5, 6)
        ]  # fmt: skip
        store.append_gold_outcomes(evaluations)
        assert store.remove_before(5) == 0
        assert store.gold_outcomes(query) == evaluations[1:]

    def test_ages(self, store: AppendingStore) -> None:
        """Of the records and spans that are stored; retention moves the older end."""
        assert (store.oldest_ns(), store.newest_ns()) == (None, None)
        fill(store)
        assert store.newest_ns() == 60
        assert store.oldest_ns() == 10
        assert store.commit_age_s() >= 0
        assert (store.fault(), store.is_broken) == ("", False)

    def test_adding_up_changes_no_answer(self, store: AppendingStore) -> None:
        fill(store)

        def answers() -> tuple[object, ...]:
            counts = store.task_counts(TaskQuery(space=SPACE))
            return store.conservation(SPACE), store.totals(), counts

        before = answers()
        store.add_up()
        assert answers() == before

    def test_somebody_is_notified_of_commits(self, store: AppendingStore) -> None:
        commits = list[float]()
        store.observe_commits(commits.append)
        store.append_spans(SPACE, [span(1)], 1).result()
        assert len(commits) == 1
        assert commits[0] >= 0


class FilesContract(OpenedStore):
    """What is on the disk."""

    @pytest.mark.parametrize("is_reopened", [False, True])
    def test_erased_bytes_go_from_the_disk_when_requested(
        self, open_store: Open, tmp_path: Path, is_reopened: bool
    ) -> None:
        """Also by a process that begins after the erasure; what stays is still read."""
        store = open_store()
        for n, text in ((1, "a text of u1"), (2, "a text of u2")):
            rows = [record(f"u{n}", trace_id=trace(n), context={"text": f"{text} said"})]
            store.append_records(rows).result()
            spans = [span(n, trace_id=trace(n), attributes={"text": f"{text} traced"})]
            store.append_spans(SPACE, spans, 1).result()
        assert not store.has_rests()
        store.erase(EraseTarget(space=SPACE, record_uid="u1"))
        assert store.has_rests()
        if is_reopened:
            store.close()
            store = open_store()
        assert store.purge()
        assert not store.has_rests()
        assert [row.uid for row in store.records_of(SPACE, ["u1", "u2"])] == ["u2"]
        assert set(store.spans_of(SPACE, [trace(1), trace(2)])) == {trace(2)}
        store.close()
        content = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
        assert b"a text of u2 traced" in content  # or nothing would be seen here
        assert b"a text of u1" not in content

    def test_a_store_that_is_small_enough_keeps_everything(self, store: AppendingStore) -> None:
        fill(store)
        assert store.size_bytes() > 0
        assert store.keep_within(10 * store.file_bytes()) == 0
        assert store.conservation(SPACE).spans.stored == 6

    def test_care_changes_no_answer(self, store: AppendingStore) -> None:
        fill(store)

        def answers() -> tuple[object, ...]:
            counts = store.task_counts(TaskQuery(space=SPACE))
            return store.conservation(SPACE), store.totals(), counts

        before = answers()
        store.add_up()
        store.checkpoint()
        assert answers() == before
