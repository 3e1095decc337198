"""Erasure, retention, backup and size in any store."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final

import pytest

from collector.metrics import TotalKey, TotalName
from collector.storage.duckdb.rollup import HOUR_NS
from collector.storage.port.store import Store
from collector.store.erase import EraseTarget
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.judges import GoldOutcome, GoldQuery
from collector.store.letters import LetterQuery
from collector.store.rows import (
    OpenSession,
    RecordRow,
    Scope,
    TaskRow,
)
from collector.store.task_counts import TaskQuery
from scouter.errors import ConfigError
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import (
    SPACE,
    TRACE,
    evaluation,
    letter,
    record,
    span,
)
from tests.contracts.store_opened import Open, OpenCopy, OpenedStore

_NOBODY: set[str] = set()
_NONE: set[int] = set()


def trace(n: int) -> str:
    return f"{n:032x}"


def fill(store: Store) -> None:
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

    def send(self, store: Store) -> None:
        store.append_records(self.rows()).result()
        for n in range(1, 5):
            store.append_spans(self.space, [span(n, trace_id=trace(n))], 1).result()
        judged = [
            evaluation(row.uid, space=self.space, session_id=row.session_id,
                       trace_id=row.trace_id, tags=row.tags)
            for row in self.rows()
        ]  # fmt: skip
        store.append_evaluations(judged).result()

    def check(self, store: Store) -> None:
        uids = {row.uid for row in self.rows()}
        kept = uids - self.uids
        assert {row.uid for row in store.records_of(self.space, sorted(uids))} == kept
        listed = store.evaluations(EvaluationQuery(space=self.space)).items
        assert {row.record_uid for row in listed} == kept
        found = store.spans_of(self.space, [trace(n) for n in range(1, 5)])
        numbers = {int(each.span_id, 16) for some in found.values() for each in some}
        assert numbers == {1, 2, 3, 4} - self.spans_gone
        (counts,) = store.task_counts(TaskQuery(space=self.space))
        assert counts.passed == len(kept)
        sheet = store.conservation(self.space)
        states = sheet.records
        assert store.record_sheet(self.space) == states
        assert (states.accepted, states.evaluated, states.waiting, states.erased) == (
            4, len(kept), 0, len(self.uids),
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
    """See `store.StoreContract`."""

    erasures: ClassVar[Sequence[Erasure]] = ERASURES

    def test_what_is_erased_is_gone_for_good(self, open_store: Open) -> None:
        """Listings, counts and rates lose it, the sheet says so, and it does not come again."""
        store = open_store()
        for each in self.erasures:
            each.send(store)
            letters = [letter(uid="a1"), letter(source="another", payload=b"{}")]
            store.append_dead_letters([replace(row, space=each.space) for row in letters]).result()
            store.append_records([record("a1", space=each.foreign, session_id="a")]).result()
            done = store.erase(each.target).result()
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
            again = store.erase(each.target).result()
            assert (again.uids, again.spans) == (set(), 0)
        store.close()

    def test_an_evaluation_that_read_what_was_erased_keeps_its_outcome_without_texts(
        self, store: Store
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
        store.erase(EraseTarget(space=SPACE, record_uid="u1")).result()
        found = {
            row.record_uid: row.tasks[0]
            for row in store.evaluations(EvaluationQuery(space=SPACE)).items
        }
        assert found == {
            "of s1": replace(secret, expected=None, actual=None, message=""),
            "u2": secret,
        }

    def test_retention_keeps_what_waits_or_was_judged_later(self, store: Store) -> None:
        """Before 52: u1, u4 and u5 go with their spans; u2 waits, u3 has a newer revision."""
        fill(store)
        assert store.remove_before(52) == 6

        sheet = store.conservation(SPACE)
        records, spans = sheet.records, sheet.spans
        assert (records.accepted, records.waiting, records.evaluated) == (6, 1, 2)
        assert (records.dead_lettered, records.expired) == (0, 3)
        assert (spans.accepted, spans.stored, spans.expired) == (6, 3, 3)
        found = store.spans_of(SPACE, [trace(n) for n in range(1, 7)])
        assert set(found) == {trace(2), trace(3), trace(6)}
        (counts,) = store.task_counts(TaskQuery(space=SPACE))
        assert (counts.passed, counts.failed) == (1, 1)
        (counts,) = store.task_counts(TaskQuery(space=SPACE, until_ns=HOUR_NS))
        assert (counts.passed, counts.failed) == (1, 1)
        assert store.totals()[TotalKey(TotalName.EXPIRED, SPACE, label="record")] == 3
        assert store.remove_before(52) == 0

    @pytest.mark.parametrize("end_ns", [20, 21])
    def test_a_span_that_comes_again_after_retention_is_a_new_one(
        self, store: Store, end_ns: int
    ) -> None:
        """The same one, or a better version: it is stored and counted, as nothing is left of it."""
        store.append_spans(SPACE, [span(1)], 10).result()
        assert store.remove_before(11) == 1
        for stored, duplicates in ((1, 0), (0, 1)):
            answer = store.append_spans(SPACE, [span(1, end_ns=end_ns)], 12).result()
            assert (len(answer.stored), answer.duplicates) == (stored, duplicates)
        sheet = store.conservation(SPACE).spans
        assert (sheet.accepted, sheet.stored, sheet.expired, sheet.duplicates) == (2, 1, 1, 1)
        assert [each.end_ns for each in store.spans_of(SPACE, [TRACE])[TRACE]] == [end_ns]

    def test_the_evaluation_on_a_session_goes_with_its_last_record(self, store: Store) -> None:
        """Of s both records are old; of t one was judged later, so the session's evaluation stays.

        The evaluation on u5's own session is too young; u5 itself goes.
        """
        rows = [
            record(uid, session_id=session_id, received_ns=10)
            for uid, session_id in (("u1", "s"), ("u2", "s"), ("u3", "t"), ("u4", "t"), ("u5", ""))
        ]
        store.append_records(rows).result()
        own = {"u1": 20, "u2": 30, "u3": 20, "u4": 90, "u5": 20}
        sessions = {"s": 40, "t": 40, "u5": 60}
        store.append_evaluations(
            [evaluation(uid, evaluated_ns=at) for uid, at in own.items()]
            + [
                evaluation(f"session {name}", Outcome.FAILED, session_id=name, evaluated_ns=at,
                        scope=Scope.SESSION)
                for name, at in sessions.items()
            ]
        ).result()  # fmt: skip
        assert store.remove_before(52) == 4
        left = {row.record_uid for row in store.evaluations(EvaluationQuery(space=SPACE)).items}
        assert left == {"u4", "session t", "session u5"}
        (counts,) = store.task_counts(TaskQuery(space=SPACE))
        assert (counts.passed, counts.failed) == (1, 2)
        records = store.conservation(SPACE).records
        assert (records.accepted, records.evaluated, records.expired) == (5, 1, 4)
        assert store.open_sessions([(SPACE, "p1")]) == [
            OpenSession(space=SPACE, profile_uid="p1", session_id="t", trace_id=None)
        ]  # its evaluation had seen nothing
        assert store.remove_before(91) == 1
        assert store.evaluations(EvaluationQuery(space=SPACE)).items == ()
        assert store.task_counts(TaskQuery(space=SPACE)) == []

    def test_evaluations_on_gold_items_go_with_what_is_as_old(self, store: Store) -> None:
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

    @pytest.mark.parametrize("is_reopened", [False, True])
    def test_erased_bytes_go_from_the_disk_when_asked(
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
        store.erase(EraseTarget(space=SPACE, record_uid="u1")).result()
        assert store.has_rests()
        if is_reopened:
            store.close()
            store = open_store()
        store.remove_rests()
        assert not store.has_rests()
        assert [row.uid for row in store.records_of(SPACE, ["u1", "u2"])] == ["u2"]
        assert set(store.spans_of(SPACE, [trace(1), trace(2)])) == {trace(2)}
        store.close()
        content = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
        assert b"a text of u2 traced" in content  # or nothing would be seen here
        assert b"a text of u1" not in content

    def test_a_backup_is_one_state(
        self, open_store: Open, open_copy: OpenCopy, tmp_path: Path
    ) -> None:
        """Later rows are only in the original; the copy goes on by itself."""
        store = open_store()
        fill(store)
        before = store.conservation(SPACE)
        store.backup(tmp_path / "copy")
        store.append_records([record("later")]).result()
        with pytest.raises(ConfigError, match="exists"):
            store.backup(tmp_path / "copy")
        store.close()
        copy = open_copy(tmp_path / "copy")
        assert copy.conservation(SPACE) == before
        assert copy.spans_of(SPACE, [trace(1)]) == {trace(1): [span(1, trace_id=trace(1))]}
        assert copy.append_records([record("u1", trace_id=trace(1))]).result().duplicates == (0,)
        assert copy.append_records([record("later")]).result().accepted
        copy.close()

    def test_a_backup_has_nothing_of_what_was_erased(
        self, open_store: Open, open_copy: OpenCopy, tmp_path: Path
    ) -> None:
        """Though its bytes were not off the disk; in the copy it does not come again either."""
        store = open_store()
        rows = [record("u1", trace_id=trace(1), context={"text": "a text of u1"}), record("u2")]
        store.append_records(rows).result()
        spans = [span(1, trace_id=trace(1), attributes={"text": "a text of u1"})]
        store.append_spans(SPACE, spans, 1).result()
        store.erase(EraseTarget(space=SPACE, record_uid="u1")).result()
        store.backup(tmp_path / "copy")
        store.close()
        copied = [each for each in (tmp_path / "copy").rglob("*") if each.is_file()]
        assert copied
        assert not any(b"a text of u1" in each.read_bytes() for each in copied)
        copy = open_copy(tmp_path / "copy")
        assert copy.append_records(rows).result().duplicates == (0, 1)
        assert copy.spans_of(SPACE, [trace(1)]) == {}
        copy.close()

    def test_a_store_that_is_small_enough_keeps_everything(self, store: Store) -> None:
        fill(store)
        assert store.size_bytes() > 0
        assert store.keep_within(10 * store.file_bytes()) == 0
        assert store.conservation(SPACE).spans.stored == 6

    def test_ages(self, store: Store) -> None:
        """Of the records and spans that are stored; retention moves the older end."""
        assert (store.oldest_ns(), store.newest_ns()) == (None, None)
        fill(store)
        assert store.newest_ns() == 60
        assert store.oldest_ns() == 10
        assert store.commit_age_s() >= 0
        assert (store.pending_bytes(), store.is_broken) == (0, False)

    def test_care_changes_no_answer(self, store: Store) -> None:
        fill(store)

        def answers() -> tuple[object, ...]:
            counts = store.task_counts(TaskQuery(space=SPACE))
            return store.conservation(SPACE), store.totals(), counts

        before = answers()
        store.compact().result()
        store.checkpoint()
        assert answers() == before

    def test_somebody_is_told_of_commits_and_syncs(self, store: Store) -> None:
        commits, syncs = list[float](), list[float]()
        store.observe_commits(commits.append)
        store.observe_syncs(syncs.append)
        store.append_spans(SPACE, [span(1)], 1).result()
        assert len(commits) == len(syncs) == 1
        assert min(commits + syncs) >= 0
