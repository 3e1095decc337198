"""The lists of work of any store, and the evaluations that are written down."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.metrics import TotalKey, TotalName
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.json_text import USAGE
from collector.store.letters import LetterQuery
from collector.store.rates import TaskQuery
from collector.store.rows import (
    FIRST_RESULT,
    EvaluationRow,
    Scope,
    TaskRow,
)
from collector.store.totals import HOUR_NS
from collector.store.work import EvaluatedTrace
from scouter.evaluate.judge.port import JudgeUsage
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import (
    SPACE,
    TRACE,
    evaluation,
    letter,
    record,
    span,
)
from tests.contracts.store_opened import IN_CLASS, Open
from tests.contracts.store_waiting import WaitingContract, pending_of
from tests.support.store_appends import AppendingStore


def used(*values: Any) -> JudgeUsage:
    """What a judge took, in the order of the store's columns."""
    return JudgeUsage(**dict(zip(USAGE, values, strict=False)))


class WorkContract(WaitingContract):
    """What the worker decides."""

    def test_a_record_waits_until_something_is_decided(self, open_store: Open) -> None:
        store = open_store()
        rows = [
            record("u1"),
            record("u2", trace_id=TRACE, context=None),
            record("u3"),
            record("u4"),
        ]
        store.append_records(rows).result()
        store.append_evaluations([evaluation("u1"), evaluation("u4", Outcome.SKIPPED)]).result()
        gone = letter(uid="u3", was_accepted=True, reason="unknown_profile")
        store.append_dead_letters([gone]).result()
        store.close()
        store = open_store()
        (waiting,), sheet = store.undecided(0), store.conservation(SPACE)
        spaces, since_ns = store.waiting_spaces(), store.waiting_since_ns()
        store.close()

        assert (waiting, since_ns) == (rows[1], rows[1].received_ns)
        assert [(each.space, each.waiting, each.uid) for each in spaces] == [(SPACE, 1, "u2")]
        assert sheet.records.accepted == 4
        assert (sheet.records.waiting, sheet.records.evaluated) == (1, 1)
        assert (sheet.records.skipped, sheet.records.dead_lettered) == (1, 1)
        assert dict(sheet.dead_letters) == {"unknown_profile": 1}

    def test_an_evaluation_comes_back_as_it_was(self, store: AppendingStore) -> None:
        tasks = (
            TaskRow(
                task_id="b", task_type="Assertion", outcome=Outcome.ERRORED, reason="missing_path",
                expected={"k": [1, 2.5]}, actual=None, message="no 'k'", operator="Equals",
                condition=True, stage=0,
            ),
            TaskRow(task_id="a", task_type="Assertion", outcome=Outcome.PASSED, actual=10**30),
        )  # fmt: skip
        row = evaluation("u1", Outcome.ERRORED, tasks, trace_id=TRACE, tags={"k": "v"}, input_seq=7)
        store.append_evaluations([row]).result()

        page = store.evaluations(EvaluationQuery(space=SPACE))
        assert page.items == (row,)
        assert page.next_before is None

    def test_an_evaluation_is_counted_once(self, open_store: Open) -> None:
        store = open_store()
        store.append_evaluations([evaluation("u1"), evaluation("u1")]).result()
        store.append_evaluations([evaluation("u1", Outcome.FAILED)]).result()
        store.close()
        store = open_store()
        store.append_evaluations([evaluation("u1"), evaluation("u2")]).result()
        totals, items = store.totals(), store.evaluations(EvaluationQuery(space=SPACE)).items
        store.close()

        names = {"profile": "answers", "alias": "answers", "label": "passed"}
        assert totals[TotalKey(TotalName.RECORDS, SPACE, **names)] == 2
        assert totals[TotalKey(TotalName.TASKS, SPACE, task="t1", **names)] == 2
        assert [row.record_uid for row in items] == ["u2", "u1"]

    def test_only_the_latest_revision_is_seen_and_only_the_first_is_counted(
        self, store: AppendingStore
    ) -> None:
        store.append_evaluations([evaluation("u1", Outcome.FAILED), evaluation("u2")]).result()
        store.append_evaluations([evaluation("u1", revision=2, evaluation_id="again")]).result()

        items = store.evaluations(EvaluationQuery(space=SPACE)).items
        (counts,) = store.task_counts(TaskQuery(space=SPACE))
        assert [(row.record_uid, row.revision) for row in items] == [("u1", 2), ("u2", 1)]
        assert (counts.passed, counts.failed) == (2, 0)
        assert sum(n for key, n in store.totals().items() if key.name is TotalName.RECORDS) == 2
        assert store.conservation(SPACE).records.evaluated == 2
        assert store.last_outcomes(SPACE, "p1", 9) == [Outcome.FAILED, Outcome.PASSED]
        assert store.last_outcomes(SPACE, "p1", 9, since_ns=101) == []  # made at 100

    def test_what_judges_took_is_that_of_the_latest_results(self, store: AppendingStore) -> None:
        """Of each task; an answer of the cache makes no sum known, and alone takes nothing."""
        paid = used(2, 0, 100, 10, 0.5)
        other, unknown = used(1, 0, 50, 5, 0.25), used(3)
        cached = used(0, 1, 0, 0, 0.0)

        def took(uid: str, *usages: JudgeUsage | None, **fields: Any) -> EvaluationRow:
            tasks = tuple(
                TaskRow(task_id=f"t{at}", task_type="x", outcome=Outcome.PASSED, usage=each)
                for at, each in enumerate(usages)
            )
            return evaluation(uid, tasks=tasks, **fields)

        store.append_evaluations([took("u1", paid, cached, unknown, None)]).result()
        again = took("u1", other, cached, unknown, None, revision=2, evaluation_id="again")
        late = took("u3", cached, None, cached, None, service_version="2", evaluated_ns=200)
        elsewhere = took("u1", paid, space="elsewhere", evaluation_id="elsewhere")
        store.append_evaluations([again, took("u2", unknown), late, elsewhere]).result()

        assert store.task_usage(TaskQuery(space=SPACE)) == {
            ("p1", "t0"): used(4, 1, 50, 5, 0.25, 3),
            ("p1", "t1"): cached,
            ("p1", "t2"): used(3, 1),
        }
        for query in (
            TaskQuery(space=SPACE, since_ns=101),
            TaskQuery(space=SPACE, service_version="2"),
        ):
            assert store.task_usage(query) == {("p1", "t0"): cached, ("p1", "t2"): cached}
        assert store.task_usage(TaskQuery(space=SPACE, profile="none")) == {}

    def test_spans_after_the_evaluation_are_late(self, store: AppendingStore) -> None:
        seen = store.append_spans(SPACE, [span(1), span(2)], 1).result()
        store.append_records([record("u1", trace_id=TRACE)]).result()
        row = evaluation("u1", trace_id=TRACE, reads_spans=True, input_seq=seen.seq)
        store.append_evaluations([row]).result()
        store.append_spans(SPACE, [span(2), span(3), span(1, trace_id="e" * 32)], 2).result()

        assert store.conservation(SPACE).spans.late == 1

    def test_a_revision_that_has_seen_late_spans_makes_them_late_no_longer(
        self, store: AppendingStore
    ) -> None:
        """A second record of the trace that was not judged again has still not seen the span."""
        reads: dict[str, Any] = {"trace_id": TRACE, "reads_spans": True}
        seen = store.append_spans(SPACE, [span(1)], 1).result()
        store.append_evaluations(
            [
                evaluation("u1", input_seq=seen.seq, **reads),
                evaluation("u2", input_seq=seen.seq, **reads),
            ]
        ).result()
        late = store.append_spans(SPACE, [span(2)], 2).result()
        again = evaluation("u1", revision=2, evaluation_id="u1 again", input_seq=late.seq, **reads)
        store.append_evaluations([again]).result()
        assert store.conservation(SPACE).spans.late == 1
        again = evaluation("u2", revision=2, evaluation_id="u2 again", input_seq=late.seq, **reads)
        store.append_evaluations([again]).result()
        assert store.conservation(SPACE).spans.late == 0

    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_a_revision_takes_the_place_of_the_evaluation_before_it(
        self, store: AppendingStore, is_one_batch: bool
    ) -> None:
        """Task a goes failed, passed, passed; task b errored, errored, failed."""
        steps = [
            (Outcome.FAILED, Outcome.ERRORED),
            (Outcome.PASSED, Outcome.ERRORED),
            (Outcome.PASSED, Outcome.FAILED),
        ]
        rows = [
            evaluation(
                "u1", Outcome.ERRORED, revision=number, evaluation_id=f"e{number}",
                evaluated_ns=number * HOUR_NS,
                tasks=(TaskRow(task_id="a", task_type="x", outcome=first),
                       TaskRow(task_id="b", task_type="x", outcome=second)),
            )
            for number, (first, second) in enumerate(steps, start=1)
        ]  # fmt: skip
        for batch in [rows] if is_one_batch else [[row] for row in rows]:
            store.append_evaluations(batch).result()
        store.append_evaluations(rows).result()  # again: nothing changes

        a, b = store.task_counts(TaskQuery(space=SPACE))
        assert (a.passed, a.failed, b.failed, b.errored) == (1, 0, 1, 0)
        assert store.task_counts(TaskQuery(space=SPACE, until_ns=3 * HOUR_NS)) == []
        (item,) = store.evaluations(EvaluationQuery(space=SPACE)).items
        assert item == rows[-1]
        totals = {
            (key.name, key.task, key.label): n
            for key, n in store.totals().items()
            if key.name in (TotalName.TASKS, TotalName.REVISIONS)
        }
        assert totals == {
            (TotalName.TASKS, "a", "failed"): 1,
            (TotalName.TASKS, "b", "errored"): 1,
            (TotalName.REVISIONS, "a", "failed>passed"): 1,
            (TotalName.REVISIONS, "b", "errored>failed"): 1,
        }

    def test_pending_tasks_are_found_until_a_revision_decides_them(
        self, store: AppendingStore
    ) -> None:
        """Nothing of them is in a rate; counters tell what they became."""

        def row(uid: str, judged: Outcome, reason: str | None = None, **fields: Any) -> Any:
            tasks = (
                TaskRow(task_id="a", task_type="x", outcome=Outcome.PASSED),
                TaskRow(task_id="b", task_type="LLMJudge", outcome=judged, reason=reason),
            )
            return evaluation(uid, judged, tasks=tasks, **fields)

        pending = [row(f"u{n}", Outcome.PENDING) for n in range(4)]
        store.append_records([record(each.record_uid) for each in pending]).result()
        store.append_evaluations([*pending[:2], evaluation("other", profile_uid="p2")]).result()
        store.append_evaluations(pending[2:]).result()
        assert [each.evaluation for each in store.pending_evaluations(9)] == pending
        sizes = {each.context_bytes for each in store.pending_evaluations(9)}
        assert sizes == {len('{"answer":[1,null,"é"]}'.encode())}
        assert store.pending_count() == 4
        assert pending_of(store) == [(SPACE, 4, "u0", pending[0].evaluated_ns)]
        for names, others, uids in (
            ({"p1"}, False, ["u0", "u1", "u2", "u3"]),
            ({"p1"}, True, []),
            ({"p2"}, True, ["u0", "u1", "u2", "u3"]),
            ((), False, []),
        ):
            of = store.pending_evaluations(9, profiles=names, others=others)
            assert [each.evaluation.record_uid for each in of] == uids
        first, second, third = store.pending_evaluations(3)
        assert [each.place for each in store.pending_evaluations(2, first.place)] == [
            second.place, third.place,
        ]  # fmt: skip
        assert store.last_outcomes(SPACE, "p1", 9) == []
        (a, b) = store.task_counts(TaskQuery(space=SPACE, profile="answers"))[:2]
        assert (a.task_id, a.passed, b.task_id, b.passed) == ("a", 4, "t1", 1)

        usage = JudgeUsage(
            calls=3, cached=2, input_tokens=70, output_tokens=9, cost_usd=0.25, unpriced_calls=1
        )
        task = TaskRow(
            task_id="b", task_type="LLMJudge", outcome=Outcome.PASSED, usage=usage,
            question="q", answer={"score": [4, None]},
        )  # fmt: skip
        decided = evaluation(
            "u1", Outcome.PASSED, tasks=(pending[1].tasks[0], task), revision=2,
            evaluation_id="u1 again", was_decided=False,
        )  # fmt: skip
        out = row(
            "u0", Outcome.SKIPPED, "budget", revision=2, evaluation_id="u0 again", was_decided=False
        )
        later = row(
            "u1", Outcome.FAILED, revision=3, evaluation_id="u1 once more", was_decided=True
        )
        store.append_evaluations([decided]).result()
        assert store.evaluation(SPACE, "u1 again") == decided
        store.append_evaluations([out, later]).result()
        assert [each.evaluation for each in store.pending_evaluations(9)] == pending[2:]
        assert store.pending_count() == 2
        assert pending_of(store) == [(SPACE, 2, "u2", pending[2].evaluated_ns)]
        assert store.last_outcomes(SPACE, "p1", 9) == [Outcome.PASSED]
        a, _, b = store.task_counts(TaskQuery(space=SPACE, profile="answers"))
        assert (a.passed, b.passed, b.failed, b.skipped, b.gated) == (4, 0, 1, 1, 0)
        totals = {
            (key.name, key.label): n
            for key, n in store.totals().items()
            if key.name in (TotalName.TASKS, TotalName.REVISIONS) and key.task == "b"
        }
        assert totals == {
            (TotalName.TASKS, "pending"): 4,
            (TotalName.REVISIONS, "pending>passed"): 1,
            (TotalName.REVISIONS, "pending>budget"): 1,
            (TotalName.REVISIONS, "passed>failed"): 1,
        }
        sheet = store.conservation(SPACE).records
        assert (sheet.accepted, sheet.evaluated, sheet.skipped) == (4, 4, 1)  # `other` is no record

    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_counters_follow_a_record_until_another_version_judges_it(
        self, store: AppendingStore, is_one_batch: bool
    ) -> None:
        """By hand: judged, re-evaluated, answered and late there, back to the first, late again."""
        path = [
            ("p1", Outcome.PENDING), ("p1", Outcome.PASSED),  # what is counted live
            ("p2", Outcome.PENDING), ("p2", Outcome.FAILED), ("p2", Outcome.ERRORED),
            ("p1", Outcome.PASSED), ("p1", Outcome.FAILED),
        ]  # fmt: skip
        rows = [
            evaluation("u1", outcome, revision=n, evaluation_id=f"e{n}", profile_uid=profile_uid)
            for n, (profile_uid, outcome) in enumerate(path, start=1)
        ]
        for batch in [rows] if is_one_batch else [[row] for row in rows]:
            store.append_evaluations(batch).result()
        changes = (TotalName.TASKS, TotalName.REVISIONS, TotalName.REEVALUATIONS)
        totals = store.totals()
        assert {(key.name, key.label): n for key, n in totals.items() if key.name in changes} == {
            (TotalName.TASKS, "pending"): 1,
            (TotalName.REVISIONS, "pending>passed"): 1,
            (TotalName.REEVALUATIONS, "passed>pending"): 1,
            (TotalName.REEVALUATIONS, "pending>failed"): 1,
            (TotalName.REEVALUATIONS, "failed>errored"): 1,
            (TotalName.REEVALUATIONS, "errored>passed"): 1,
            (TotalName.REEVALUATIONS, "passed>failed"): 1,
        }

    @IN_CLASS
    @given(data=st.data())
    def test_counters_are_those_of_a_brute_force_count(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        """First evaluations, and changes to an outcome less those from it: live ones, then all."""
        space = f"space {store.last_seq()}"  # one store for all examples
        rows: list[EvaluationRow] = []
        for _ in range(data.draw(st.integers(1, 12))):
            uid, version = data.draw(st.sampled_from("ab")), data.draw(st.sampled_from("1112"))
            revision = 1 + sum(row.record_uid == uid for row in rows)
            rows.append(
                evaluation(
                    uid, data.draw(st.sampled_from(Outcome)), space=space, revision=revision,
                    evaluation_id=f"{space} {uid} {revision}", profile_uid=version,
                )
            )  # fmt: skip
        parts = data.draw(st.integers(1, 4))
        for at in range(0, len(rows), parts):
            store.append_evaluations(rows[at : at + parts]).result()

        live: dict[str, EvaluationRow] = {}
        for row in rows:
            of_record = [each for each in rows if each.record_uid == row.record_uid]
            versions = {each.profile_uid for each in of_record[: row.revision]}
            if len(versions) == 1:
                live[row.record_uid] = row
        latest = {row.record_uid: row for row in rows}
        found = Counter[str]()
        for names, wanted in (
            ((TotalName.TASKS, TotalName.REVISIONS), live),
            ((TotalName.REEVALUATIONS,), latest),
        ):
            for key, n in store.totals().items():
                if key.space == space and key.name in names:
                    before, _, after = key.label.rpartition(">")
                    found[after] += n
                    found[before] -= n if before else 0
            assert +found == Counter(row.outcome.value for row in wanted.values())
            assert min(found.values()) >= 0

    def test_evaluated_records_of_traces(self, store: AppendingStore) -> None:
        """u1 has a revision, u2 reads no spans, u3 waits, u4 belongs to another trace."""
        rows = [record(f"u{n}", trace_id=TRACE) for n in (1, 2, 3)]
        other = "e" * 32
        rows.append(record("u4", trace_id=other))
        elsewhere = record("u1", trace_id=TRACE, space="elsewhere")
        store.append_records([*rows, elsewhere]).result()
        reads: dict[str, Any] = {"trace_id": TRACE, "reads_spans": True, "input_seq": 3}
        fourth: dict[str, Any] = {**reads, "trace_id": other, "evaluated_ns": 99}
        seen: dict[str, Any] = {**reads, "input_seq": 4}
        second = evaluation("u1", Outcome.FAILED, revision=2, evaluation_id="again", **seen)
        store.append_evaluations(
            [
                evaluation("u1", **reads),
                evaluation("u2", trace_id=TRACE),
                evaluation("u4", **fourth),
            ]
        ).result()
        store.append_evaluations([second]).result()

        assert store.evaluated_since(SPACE, [TRACE], 0) == [EvaluatedTrace("u1", TRACE, 4)]
        both = store.evaluated_since(SPACE, [TRACE, other], 0)
        assert [each.uid for each in both] == ["u1", "u4"]
        assert [each.uid for each in store.evaluated_since(SPACE, [TRACE, other], 100)] == ["u1"]
        assert store.evaluated_since("elsewhere", [TRACE], 0) == []
        assert store.evaluated_since(SPACE, [], 0) == []

    def test_the_latest_evaluations(self, store: AppendingStore) -> None:
        rows = [evaluation("u1"), evaluation("u2")]
        rows.append(evaluation("u1", space="elsewhere", evaluation_id="of another space"))
        store.append_evaluations(rows).result()
        second = evaluation("u1", Outcome.FAILED, revision=2, evaluation_id="again")
        store.append_evaluations([second]).result()
        keys = [(SPACE, "u1"), ("elsewhere", "u1"), (SPACE, "nobody")]
        found = store.latest_evaluations(keys)
        assert dict(found) == {(SPACE, "u1"): second, ("elsewhere", "u1"): rows[2]}
        assert store.latest_evaluations([]) == {}

    def test_an_evaluation_on_a_session_is_no_state_of_a_record(
        self, store: AppendingStore
    ) -> None:
        """It counts once, among the sessions; its traces are those of the session's records."""
        before = store.append_spans(SPACE, [span(1)], 1).result().seq
        rows = [record(f"u{n}", session_id="s", trace_id=TRACE) for n in (1, 2)]
        store.append_records(rows).result()
        store.append_evaluations([evaluation("u1", trace_id=TRACE)]).result()
        session = evaluation(
            "session s", Outcome.FAILED, session_id="s", reads_spans=True, input_seq=before,
            scope=Scope.SESSION,
        )  # fmt: skip
        store.append_evaluations([session]).result()
        sheet = store.conservation(SPACE)
        assert (sheet.records.accepted, sheet.records.waiting, sheet.records.evaluated) == (2, 1, 1)
        assert sheet.spans.late == 0
        totals = store.totals()
        names = {"profile": "answers", "alias": "answers"}
        assert totals[TotalKey(TotalName.SESSIONS, SPACE, **names, label="failed")] == 1
        assert totals[TotalKey(TotalName.RECORDS, SPACE, **names, label="passed")] == 1
        assert TotalKey(TotalName.RECORDS, SPACE, **names, label="failed") not in totals
        query = EvaluationQuery(space=SPACE, session_id="s")
        shown = [row for row in store.evaluations(query).items if row.scope is Scope.SESSION]
        assert shown == [session]

        late = store.append_spans(SPACE, [span(2), span(3)], 1).result().seq
        assert store.conservation(SPACE).spans.late == 2
        again = evaluation(
            "session s", session_id="s", reads_spans=True, input_seq=late, revision=2,
            evaluation_id="again", scope=Scope.SESSION,
        )  # fmt: skip
        store.append_evaluations([again]).result()
        assert store.conservation(SPACE).spans.late == 0
        (counts,) = store.task_counts(TaskQuery(space=SPACE))
        assert (counts.passed, counts.failed) == (2, 0)
        assert sum(n for key, n in store.totals().items() if key.name is TotalName.SESSIONS) == 1

    def test_results_come_in_the_order_of_commits_from_any_place(self, open_store: Open) -> None:
        """Every revision, session and space, with all tasks; a restart changes nothing."""
        two = tuple(
            TaskRow(task_id=f"t{n}", task_type="Assertion", outcome=Outcome.PASSED, message=str(n))
            for n in range(2)
        )
        batches = [
            [evaluation("u1", tasks=two), evaluation("u2", space="other", evaluation_id="e2")],
            [evaluation("u1", Outcome.FAILED, revision=2, evaluation_id="e1.2")],
            [evaluation("s", scope=Scope.SESSION, evaluation_id="es"), evaluation("u3")],
        ]
        store = open_store()
        assert store.results_after(FIRST_RESULT, 10) == []
        for batch in batches:
            store.append_evaluations(batch).result()
            store.append_spans(SPACE, [span()], 1).result()
        store.append_evaluations(batches[0]).result()  # again: they are there already
        expected = [row for batch in batches for row in batch]
        whole = store.results_after(FIRST_RESULT, 10)
        store.close()
        store = open_store()
        store.append_evaluations([evaluation("u4", evaluation_id="e4")]).result()
        after = store.results_after(FIRST_RESULT, 10)
        read: list[EvaluationRow] = []
        place = FIRST_RESULT
        while page := store.results_after(place, 2):
            assert len(page) <= 2
            place = page[-1][0]
            read += [row for _, row in page]
        store.close()

        assert [row for _, row in whole] == expected
        assert after[: len(whole)] == whole
        assert sorted({place for place, _ in after}) == [place for place, _ in after]
        assert [row.record_uid for row in read] == ["u1", "u2", "u1", "s", "u3", "u4"]

    def test_an_accepted_record_waits_again_without_its_letter(self, store: AppendingStore) -> None:
        row = record("u1")
        store.append_records([row]).result()
        put_aside = letter(uid="u1", was_accepted=True, reason="unknown_profile")
        store.append_dead_letters([put_aside]).result()
        assert (store.undecided(0), store.waiting_since_ns()) == ([], None)
        (stored,) = store.dead_letters(LetterQuery(space=SPACE))
        store.remove_dead_letters(SPACE, [stored.letter_id])

        assert [each.uid for each in store.undecided(0)] == ["u1"]
        sheet = store.conservation(SPACE).records
        assert (sheet.accepted, sheet.waiting, sheet.dead_lettered) == (1, 1, 0)
