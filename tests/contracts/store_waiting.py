"""The lists of what is left to do, of any store."""

from dataclasses import replace
from typing import Any

from collector.store.rows import Scope, TaskRow
from collector.store.unjudged import Unjudged, UnjudgedQuery
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, TRACE, evaluation, letter, record, span
from tests.contracts.store_opened import Open, OpenedStore
from tests.support.store_appends import AppendingStore


def pending_of(store: AppendingStore) -> list[tuple[str, int, str, int]]:
    """Space, number, uid and time of each space with pending tasks."""
    found = store.pending_spaces()
    return [(each.space, each.waiting, each.uid, each.since_ns) for each in found]


class WaitingContract(OpenedStore):
    """What is left to do."""

    def test_what_has_no_evaluation(self, store: AppendingStore) -> None:
        """Of five traces two have a record for the alias; those of one time are on one page."""
        ids = [f"{n:032x}" for n in range(1, 6)]
        starts = [30, 10, 20, 20, 40]
        spans = [span(n, trace_id=each, start_ns=at, end_ns=50)
                 for n, (each, at) in enumerate(zip(ids, starts, strict=True), 1)]  # fmt: skip
        store.append_spans(SPACE, spans, received_ns=90).result()
        store.append_spans("elsewhere", spans, received_ns=90).result()
        rows = [
            record("u1", trace_id=ids[0], session_id="s", created_ns=30, received_ns=31),
            record("u2", trace_id=ids[4], session_id="t", created_ns=40, profile_ref="old"),
            record("u3", session_id="u", alias="other", trace_id=ids[1]),
            record("u4", session_id="s", created_ns=20, received_ns=32),
            record("u5", session_id="v", created_ns=25, alias="", profile_uid=""),
        ]
        store.append_records(rows).result()
        known = letter(uid="u5", was_accepted=True, reason="unknown_profile")
        other = letter(uid="u4", was_accepted=True, reason="engine_fault")
        store.append_dead_letters([known, other]).result()
        store.append_evaluations([evaluation("of t", session_id="t", scope=Scope.SESSION)]).result()

        def found(kind: Unjudged, **fields: Any) -> list[tuple[int, str]]:
            place = (kind, fields.pop("from_ns", 0))
            query = UnjudgedQuery(
                space=SPACE, alias="answers", names=("answers", "digest"), place=place, **fields
            )
            return [(each.at_ns, each.id) for each in store.unjudged(query)]

        assert found(Unjudged.TRACES) == [(10, ids[1]), (20, ids[2]), (20, ids[3])]
        assert found(Unjudged.TRACES, limit=1) == [(10, ids[1])]
        assert found(Unjudged.TRACES, limit=1, from_ns=11) == [(20, ids[2]), (20, ids[3])]
        assert found(Unjudged.TRACES, since_ns=15) == [(20, ids[2]), (20, ids[3])]
        assert found(Unjudged.RECORDS) == [(25, "u5")]
        assert found(Unjudged.RECORDS, since_ns=26) == []
        assert found(Unjudged.SESSIONS) == [(20, "s"), (25, "v")]
        (first, _) = store.unjudged(
            UnjudgedQuery(space=SPACE, alias="answers", names=("answers",),
                          place=(Unjudged.SESSIONS, 0))
        )  # fmt: skip
        assert (first.received_ns, first.letter_id) == (32, "")

    def test_pending_tasks_of_each_space(self, store: AppendingStore) -> None:
        """With the oldest evaluation, whatever came first; of a space without any nothing."""
        tasks = [TaskRow(task_id=id, task_type="x", outcome=Outcome.PENDING) for id in "ab"]
        rows = [
            evaluation(uid, Outcome.PENDING, tuple(tasks), space=space, evaluated_ns=at_ns)
            for space, uid, at_ns in (("b", "u1", 7), ("a", "u2", 9), ("a", "u1", 8))
        ]
        store.append_evaluations([*rows, evaluation("u1", space="c")]).result()
        assert pending_of(store) == [("a", 4, "u1", 8), ("b", 2, "u1", 7)]
        mark: dict[str, Any] = {"evaluated_ns": 1, "is_backfill": True}
        backfills = [replace(row, record_uid=f"{row.record_uid} b", **mark) for row in rows]
        more = [*backfills, replace(backfills[0], space="d")]
        store.append_evaluations(more).result()  # they bear the times of their records
        assert pending_of(store) == [
            ("a", 8, "u1", 8), ("b", 4, "u1", 7), ("d", 2, "u1 b", 2**63 - 1),
        ]  # fmt: skip

    def test_sessions_that_no_evaluation_has_seen_whole(self, open_store: Open) -> None:
        """Of s a record came after the evaluation, t was seen whole, u3 is alone, r not known yet.

        The record of q was of an unknown profile; its evaluation says which one it is.
        """
        store = open_store()
        unknown = {"profile_uid": "", "profile_ref": "later"}
        rows = [
            record("u1", session_id="s", trace_id=TRACE),
            record("u2", session_id="t"),
            record("u3", session_id="", trace_id="e" * 32),
            record("u4", session_id="s", profile_uid="p2"),
            record("u5", session_id="r", **unknown),
            record("u6", session_id="q", **unknown),
        ]
        first = store.append_records(rows).result()
        store.append_records([record("u7", session_id="s")]).result()
        of_session: dict[str, Any] = {"scope": Scope.SESSION, "input_seq": first.seq}
        store.append_evaluations(
            [
                evaluation("session s", session_id="s", **of_session),
                evaluation("session t", session_id="t", **of_session),
                evaluation("u3", session_id="", input_seq=first.seq),
                evaluation("u6", session_id="q", input_seq=first.seq),
            ]
        ).result()
        store.close()
        store = open_store()
        found = store.open_sessions([(SPACE, "p1"), (SPACE, "p3"), ("elsewhere", "p1")])
        assert [(each.session_id, each.trace_id) for each in found] == [
            ("q", None), ("s", None), ("u3", "e" * 32),
        ]  # fmt: skip
        assert {(each.space, each.profile_uid) for each in found} == {(SPACE, "p1")}
        (other,) = store.open_sessions([(SPACE, "p2")])
        assert other.session_id == "s"
        assert store.open_sessions([]) == []
        store.close()

    def test_records_that_wait_are_counted_by_space(self, store: AppendingStore) -> None:
        """Each with the oldest of its space; one of them is that of all."""
        batches = [[record("b", space="two", received_ns=5), record("a")], [record("c")]]
        for batch in batches:
            store.append_records(batch).result()
        store.append_evaluations([evaluation("a")]).result()

        found = [(each.space, each.waiting, each.uid) for each in store.waiting_spaces()]
        assert found == [(SPACE, 1, "c"), ("two", 1, "b")]
        assert store.waiting_since_ns() == 5

    def test_the_first_record_without_a_final_result(self, store: AppendingStore) -> None:
        """By profile: one that waits, and one that a judge has not answered for."""
        rows = [
            record("waits", created_ns=7), record("later", created_ns=9),
            record("decided", created_ns=1), record("unknown", created_ns=2, profile_uid=""),
            record("other", created_ns=5, profile_uid="p2"), record("judged", created_ns=3),
        ]  # fmt: skip
        store.append_records(rows).result()
        accepted = store.last_seq()
        tasks = (TaskRow(task_id="j", task_type="LLMJudge", outcome=Outcome.PENDING),)
        pending = evaluation(
            "other", Outcome.PENDING, tasks, profile_uid="p2", created_ns=5, evaluation_id="o1"
        )
        judged = evaluation("judged", Outcome.PENDING, tasks, created_ns=3, evaluation_id="j1")
        done = evaluation("decided", created_ns=1)
        store.append_evaluations([pending, judged, done]).result()
        assert store.first_undecided(0, store.last_seq(), 0) == {(SPACE, "p1"): 3, (SPACE, "p2"): 5}
        assert store.first_undecided(6, store.last_seq(), 0) == {(SPACE, "p1"): 7}
        again = evaluation(
            "judged", revision=2, was_decided=False, created_ns=3, evaluation_id="j2"
        )
        store.append_evaluations([again, evaluation("waits", created_ns=7)]).result()
        assert store.first_undecided(0, store.last_seq(), 0) == {(SPACE, "p1"): 9, (SPACE, "p2"): 5}
        assert store.first_waiting_seq() <= accepted
        assert store.first_undecided(0, accepted, 0) == {(SPACE, "p1"): 1, (SPACE, "p2"): 5}

    def test_pending_evaluations_are_paged_until_a_revision_decides_them(
        self, store: AppendingStore
    ) -> None:
        """Of another profile, of a session, and of one that a revision has decided."""

        def row(uid: str, judged: Outcome, **fields: Any) -> Any:
            tasks = (TaskRow(task_id="b", task_type="LLMJudge", outcome=judged),)
            return evaluation(uid, judged, tasks=tasks, **fields)

        pending = [row(f"u{n}", Outcome.PENDING) for n in range(4)]
        pending[3] = row("u3", Outcome.PENDING, scope=Scope.SESSION, session_id="s")
        rows = [record(f"u{n}", session_id="s" if n < 2 else "") for n in range(3)]
        store.append_records(rows).result()
        store.append_evaluations([*pending[:2], evaluation("other", profile_uid="p2")]).result()
        store.append_evaluations(pending[2:]).result()
        size = len('{"answer":[1,null,"é"]}'.encode())

        found = store.pending_evaluations(9)
        assert [each.evaluation for each in found] == pending
        assert [each.context_bytes for each in found] == [size, size, size, 2 * size]
        page = store.pending_evaluations(2, found[0].place)
        assert [each.place for each in page] == [each.place for each in found[1:3]]
        assert store.pending_count() == 4
        for names, others, count in (
            ({"p1"}, False, 4), ({"p1"}, True, 0), ({"p2"}, True, 4), ((), False, 0),
        ):  # fmt: skip
            of = store.pending_evaluations(9, profiles=names, others=others)
            assert len(of) == count
        decided = row("u1", Outcome.PASSED, revision=2, evaluation_id="u1 again")
        store.append_evaluations([decided]).result()
        assert [each.evaluation for each in store.pending_evaluations(9)] == [
            pending[0], *pending[2:]
        ]  # fmt: skip
        assert pending_of(store) == [(SPACE, 3, "u0", pending[0].evaluated_ns)]

    def test_records_and_spans_are_found_by_their_ids(self, store: AppendingStore) -> None:
        """One space's only; a trace without spans is left out."""
        rows = [record("b"), record("a", context="x"), record("a", space="two")]
        for each in rows:
            store.append_records([each]).result()
        other = "f" * 32
        spans = [span(1), span(2), span(3, trace_id=other)]
        store.append_spans(SPACE, spans[:1], 1).result()
        store.append_spans(SPACE, spans[1:], 2).result()

        assert store.records_of(SPACE, ["a", "b", "nobody's"]) == rows[:2]
        found = store.spans_of(SPACE, [TRACE, other, "e" * 32])
        assert {id: sorted(s.span_id for s in own) for id, own in found.items()} == {
            TRACE: [spans[0].span_id, spans[1].span_id], other: [spans[2].span_id],
        }  # fmt: skip
        assert store.spans_of("two", [TRACE]) == {}
