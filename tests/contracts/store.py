"""What every store has to do, whatever keeps its data. A new store adds one small subclass."""

import itertools
import statistics
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from collector.metrics import TotalKey, TotalName
from collector.storage.duckdb.rollup import HOUR_NS
from collector.storage.log.span_codec import trace_hash
from collector.storage.port.counts import SeriesQuery, TaskQuery
from collector.storage.port.dead_letters import DeadLetter, LetterKind, LetterQuery
from collector.storage.port.erase import EraseTarget
from collector.storage.port.judges import CalibrationRow, GoldQuery, GoldVerdict
from collector.storage.port.lists import EvaluationQuery
from collector.storage.port.rows import (
    FIRST_RESULT,
    START,
    AlertEvent,
    AlertState,
    EvaluationRow,
    Scope,
    TaskRow,
    WaitingRecord,
)
from collector.storage.port.store import Store
from scouter.errors import TransientError
from scouter.evaluate.judge.usage import JudgeUsage
from scouter.evaluate.outcome import DECIDED, Outcome
from scouter.model.ids import uuid7
from scouter.model.span import Resource, Span
from scouter.transport.drops import Count
from tests.contracts.store_data import (
    SPACE,
    TRACE,
    letter,
    profile,
    record,
    same,
    span,
    spans,
    verdict,
)
from tests.support.processes import wait_until

Open = Callable[[], Store]
"""Opens the store of this test; opened again it holds what was stored before."""

_IN_CLASS = settings(
    max_examples=25,
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,
        HealthCheck.too_slow,
        HealthCheck.differing_executors,  # each class that fulfils the contract is one
    ],
)


_NOBODY: set[str] = set()
_NONE: set[int] = set()


class StoreContract:
    """Subclass it and give the fixture `open_store`."""

    @pytest.fixture
    def store(self, open_store: Open) -> Iterator[Store]:
        store = open_store()
        yield store
        store.close()

    # --- spans ------------------------------------------------------------------------------

    @_IN_CLASS
    @given(batch=st.lists(spans, min_size=1, max_size=4, unique_by=lambda s: s.span_id))
    def test_spans_come_back_exactly(self, store: Store, batch: list[Span]) -> None:
        space = f"space {store.last_seq()}"  # one store for all examples
        assert store.append_spans(space, batch, 1).result().stored == tuple(batch)
        found = store.spans_of(space, {each.trace_id for each in batch})
        back = {each.span_id: each for spans in found.values() for each in spans}
        assert len(back) == len(batch)
        for each in batch:
            assert same(back[each.span_id], each)

    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_of_two_spans_with_one_key_the_better_is_kept_in_any_order(
        self, store: Store, is_one_batch: bool
    ) -> None:
        """Later end first; then more bytes: `xx` is longer than `x`."""
        early, late = span(1, end_ns=20, attributes={"k": "long text"}), span(1, end_ns=21)
        longer = span(1, end_ns=21, attributes={"k": "xx"})
        for number, order in enumerate(itertools.permutations([early, late, longer])):
            space = f"space {number}"
            for batch in [list(order)] if is_one_batch else [[each] for each in order]:
                store.append_spans(space, batch, 1).result()
            assert store.spans_of(space, [TRACE]) == {TRACE: [longer]}
            sheet = store.conservation(space).spans
            assert (sheet.accepted, sheet.stored, sheet.duplicates) == (1, 1, 2)

    def test_a_span_again_is_a_duplicate(self, open_store: Open) -> None:
        """In the same batch, in a later one, and after the store was closed."""
        store = open_store()
        first = store.append_spans(SPACE, [span(1), span(2), span(1)], 1).result()
        second = store.append_spans(SPACE, [span(2), span(3)], 2).result()
        store.close()
        store = open_store()
        third = store.append_spans(SPACE, [span(3), span(4)], 3).result()
        sheet = store.conservation(SPACE).spans
        store.close()

        assert [len(each.stored) for each in (first, second, third)] == [2, 1, 1]
        assert [each.duplicates for each in (first, second, third)] == [1, 1, 1]
        assert (sheet.accepted, sheet.stored, sheet.duplicates) == (4, 4, 3)

    def test_says_which_traces_it_had_spans_of(self, store: Store) -> None:
        other = "f" * 32
        first = store.append_spans(SPACE, [span(1)], 1).result()
        second = store.append_spans(SPACE, [span(2), span(1, trace_id=other)], 2).result()
        elsewhere = store.append_spans("elsewhere", [span(3)], 3).result()

        assert first.known_traces == frozenset()
        assert second.known_traces == {TRACE}
        assert elsewhere.known_traces == frozenset()

    def test_says_of_which_traces_it_has_no_span_yet(self, store: Store) -> None:
        """It may say so late or never, but never of a trace that it has spans of."""
        other, third = "e" * 32, "f" * 32
        wait_until(lambda: self._are_new(store, other), what="it knows all its traces")
        store.append_spans(SPACE, [span(1)], 1).result()
        rows = [record("u1", trace_id=TRACE), record("u2", trace_id=third), record("u3")]
        assert store.append_records(rows).result().new_traces == {third}
        assert store.append_records(rows).result().new_traces == frozenset()

    def _are_new(self, store: Store, trace_id: str) -> bool:
        row = record(f"w{store.last_seq()}", trace_id=trace_id)
        return trace_id in store.append_records([row]).result().new_traces

    def test_traces_of_spaces_are_apart(self, store: Store) -> None:
        store.append_spans("a", [span(1)], 1).result()
        store.append_spans("b", [span(1, name="other")], 1).result()

        assert store.spans_of("a", [TRACE, "e" * 32]) == {TRACE: [span(1)]}
        assert [each.name for each in store.spans_of("b", [TRACE])[TRACE]] == ["other"]
        assert store.spans_of("c", [TRACE]) == {}
        assert store.spans_of("a", []) == {}

    # --- records ----------------------------------------------------------------------------

    def test_a_record_waits_until_something_is_decided(self, open_store: Open) -> None:
        store = open_store()
        rows = [
            record("u1"),
            record("u2", trace_id=TRACE, context=None),
            record("u3"),
            record("u4"),
        ]
        store.append_records(rows).result()
        store.append_evaluations([verdict("u1"), verdict("u4", Outcome.SKIPPED)]).result()
        gone = letter(uid="u3", was_accepted=True, reason="unknown_profile")
        store.append_dead_letters([gone]).result()
        store.close()
        store = open_store()
        (waiting,), sheet = store.waiting_records(9), store.conservation(SPACE)
        count = store.waiting_count()
        store.close()

        assert (waiting.record, waiting.context_bytes, count) == (rows[1], len("null"), 1)
        assert sheet.records.accepted == 4
        assert (sheet.records.waiting, sheet.records.evaluated) == (1, 1)
        assert (sheet.records.skipped, sheet.records.dead_lettered) == (1, 1)
        assert dict(sheet.dead_letters) == {"unknown_profile": 1}

    def test_a_record_again_is_a_duplicate_and_another_payload_a_conflict(
        self, open_store: Open
    ) -> None:
        store = open_store()
        first = store.append_records([record("u1"), record("u2"), record("u1")]).result()
        other = record("u1", digest="another", context="another")
        second = store.append_records([other, record("u2")]).result()
        store.close()
        store = open_store()
        third = store.append_records([other, record("u3")]).result()
        sheet, kept = store.conservation(SPACE), store.records_of(SPACE, ["u1", "u2", "u3"])
        store.close()

        assert [row.uid for row in first.accepted] == ["u1", "u2"]
        assert (first.duplicates, second.conflicts, second.duplicates) == ((2,), (0,), (1,))
        assert (third.conflicts, [row.uid for row in third.accepted]) == ((0,), ["u3"])
        assert (sheet.records.accepted, sheet.records.duplicates) == (3, 2)
        assert dict(sheet.dead_letters) == {"conflict": 1}  # the same conflict twice is one
        assert kept == [record("u1"), record("u2"), record("u3")]

    def test_the_same_uid_in_two_spaces_is_two_records(self, store: Store) -> None:
        rows = [record("u1"), record("u1", space="other", digest="another")]
        assert len(store.append_records(rows).result().accepted) == 2

    # --- verdicts ---------------------------------------------------------------------------

    def test_a_verdict_comes_back_as_it_was(self, store: Store) -> None:
        tasks = (
            TaskRow(
                task_id="b", task_type="Assertion", outcome=Outcome.ERRORED, reason="missing_path",
                expected={"k": [1, 2.5]}, actual=None, message="no 'k'", operator="Equals",
                condition=True, stage=0,
            ),
            TaskRow(task_id="a", task_type="Assertion", outcome=Outcome.PASSED, actual=10**30),
        )  # fmt: skip
        row = verdict("u1", Outcome.ERRORED, tasks, trace_id=TRACE, tags={"k": "v"}, input_seq=7)
        store.append_evaluations([row]).result()

        page = store.evaluations(EvaluationQuery(space=SPACE))
        assert page.items == (row,)
        assert page.next_before is None

    def test_a_verdict_is_counted_once(self, open_store: Open) -> None:
        store = open_store()
        store.append_evaluations([verdict("u1"), verdict("u1")]).result()
        store.append_evaluations([verdict("u1", Outcome.FAILED)]).result()
        store.close()
        store = open_store()
        store.append_evaluations([verdict("u1"), verdict("u2")]).result()
        totals, items = store.totals(), store.evaluations(EvaluationQuery(space=SPACE)).items
        store.close()

        names = {"profile": "answers", "alias": "answers", "label": "passed"}
        assert totals[TotalKey(TotalName.RECORDS, SPACE, **names)] == 2
        assert totals[TotalKey(TotalName.TASKS, SPACE, task="t1", **names)] == 2
        assert [row.record_uid for row in items] == ["u2", "u1"]

    def test_only_the_latest_revision_is_seen_and_only_the_first_is_counted(
        self, store: Store
    ) -> None:
        store.append_evaluations([verdict("u1", Outcome.FAILED), verdict("u2")]).result()
        store.append_evaluations([verdict("u1", revision=2, evaluation_id="again")]).result()

        items = store.evaluations(EvaluationQuery(space=SPACE)).items
        (counts,) = store.task_counts(TaskQuery(space=SPACE))
        assert [(row.record_uid, row.revision) for row in items] == [("u1", 2), ("u2", 1)]
        assert (counts.passed, counts.failed) == (2, 0)
        assert sum(n for key, n in store.totals().items() if key.name is TotalName.RECORDS) == 2
        assert store.conservation(SPACE).records.evaluated == 2
        assert store.last_outcomes(SPACE, "p1", 9) == [Outcome.FAILED, Outcome.PASSED]

    def test_filters_of_the_listing(self, store: Store) -> None:
        rows = [
            verdict("u1", evaluated_ns=100, trace_id=TRACE),
            verdict("u2", Outcome.FAILED, evaluated_ns=200, record_id="x"),
            verdict("u3", evaluated_ns=300, alias="b", profile_uid="p2", profile_digest="d2",
                    profile_name="named"),
            verdict("u4", evaluated_ns=400, space="other"),
        ]  # fmt: skip
        store.append_evaluations(rows).result()

        def uids(**filters: object) -> list[str]:
            query = EvaluationQuery(space=SPACE, **filters)  # type: ignore[arg-type]
            return [row.record_uid for row in store.evaluations(query).items]

        assert uids() == ["u3", "u2", "u1"]
        assert uids(outcome=Outcome.FAILED) == uids(record_id="x") == ["u2"]
        assert uids(record_id="u2") == ["u2"]  # its uid serves, too
        assert uids(trace_id=TRACE) == ["u1"]
        assert uids(since_ns=200) == ["u3", "u2"]
        for name in ("b", "p2", "d2", "named"):
            assert uids(profile=name) == ["u3"]
        assert uids(profile="nobody") == []

    def test_pages_hold_everything_once_though_more_comes_in(self, store: Store) -> None:
        for start in (0, 4, 8):
            store.append_evaluations([verdict(f"u{n}") for n in range(start, start + 4)]).result()
        seen: list[str] = []
        query = EvaluationQuery(space=SPACE, limit=5)
        while True:
            page = store.evaluations(query)
            seen += [row.record_uid for row in page.items]
            if page.next_before is None:
                break
            store.append_evaluations([verdict(f"later {len(seen)}")]).result()
            query = EvaluationQuery(space=SPACE, limit=5, before=page.next_before)
        assert seen == [f"u{n}" for n in reversed(range(12))]

    def test_task_counts(self, store: Store) -> None:
        """Two tasks: t1 passed, failed, errored; t2 skipped by a gate twice, once by budget."""
        gate = TaskRow(task_id="t2", task_type="x", outcome=Outcome.SKIPPED, reason="gate")
        budget = TaskRow(task_id="t2", task_type="x", outcome=Outcome.SKIPPED, reason="budget")
        rows = [
            verdict(f"u{n}", tasks=(TaskRow(task_id="t1", task_type="x", outcome=outcome), second),
                    evaluated_ns=n, service_version=f"{n}.0")
            for n, (outcome, second) in enumerate(
                [(Outcome.PASSED, gate), (Outcome.FAILED, gate), (Outcome.ERRORED, budget)]
            )
        ]  # fmt: skip
        store.append_evaluations(rows).result()

        first, second = store.task_counts(TaskQuery(space=SPACE))
        assert (first.task_id, second.task_id) == ("t1", "t2")
        assert (first.passed, first.failed, first.errored, first.skipped) == (1, 1, 1, 0)
        assert (second.skipped, second.gated) == (3, 2)
        (only, _) = store.task_counts(TaskQuery(space=SPACE, service_version="1.0"))
        assert (only.passed, only.failed) == (0, 1)
        (early, _) = store.task_counts(TaskQuery(space=SPACE, since_ns=0, until_ns=2))
        assert (early.passed, early.failed, early.errored) == (1, 1, 0)
        assert store.task_counts(TaskQuery(space="other")) == []

    def test_scores_of_a_task(self, store: Store) -> None:
        """Scores 4, 2.5 and 1 are their own, one passed and one failed without; one errored.

        A revision's score takes the place of the earlier one. Mean of 4, 2.5, 1, 1, 0 is 1.7;
        the squared distances 5.29, 0.64, 0.49, 0.49, 2.89 sum up to 9.8, and 9.8 / 4 is 2.45.
        """

        def judged(uid: str, outcome: Outcome, score: float | None, **fields: Any) -> EvaluationRow:
            task = TaskRow(task_id="q", task_type="LLMJudge", outcome=outcome, stated_score=score)
            return verdict(uid, outcome, (task,), service_version="1", **fields)

        passed, failed, errored = Outcome.PASSED, Outcome.FAILED, Outcome.ERRORED
        hour = 3_600 * 10**9
        rows = [
            judged("u0", passed, 5.0, evaluated_ns=1),
            judged("u1", failed, 2.5, evaluated_ns=hour + 1),
            judged("u2", passed, None, evaluated_ns=hour + 2),
            judged("u3", failed, None, evaluated_ns=2 * hour),
            judged("u4", errored, None, evaluated_ns=2 * hour),
            judged("u5", failed, 1.0, evaluated_ns=3 * hour),
        ]
        store.append_evaluations(rows).result()
        again = judged("u0", passed, 4.0, evaluated_ns=2, revision=2, evaluation_id="again")
        store.append_evaluations([again]).result()

        for query in (
            TaskQuery(space=SPACE),
            TaskQuery(space=SPACE, since_ns=1, until_ns=3 * hour + 1),
            TaskQuery(space=SPACE, service_version="1"),
        ):
            (counts,) = store.task_counts(query)
            n, mean, sd = counts.scores
            assert (n, counts.errored) == (5, 1)
            assert mean == pytest.approx(1.7, abs=1e-12)
            assert sd == pytest.approx(2.45**0.5, abs=1e-12)
        (one,) = store.task_counts(TaskQuery(space=SPACE, until_ns=hour))
        assert one.scores == (1, 4.0, None)
        series = store.task_series(
            SeriesQuery(space=SPACE, since_ns=0, until_ns=4 * hour, bucket_ns=hour)
        )
        assert [each.counts.scores[:2] for each in series] == [
            (1, 4.0), (2, 1.75), (1, 0.0), (1, 1.0),
        ]  # fmt: skip

    @_IN_CLASS
    @given(st.lists(st.tuples(st.sampled_from(DECIDED), st.none() | st.floats(-9, 9)), max_size=12))
    def test_mean_and_deviation_are_those_of_the_scores(
        self, store: Store, results: list[tuple[Outcome, float | None]]
    ) -> None:
        tasks = [
            TaskRow(task_id="q", task_type="LLMJudge", outcome=outcome, stated_score=score)
            for outcome, score in results
        ]
        space = uuid7()
        store.append_evaluations(
            [verdict(f"u{n}", task.outcome, (task,), space=space) for n, task in enumerate(tasks)]
        ).result()
        found = store.task_counts(TaskQuery(space=space))
        scores = [score for task in tasks if (score := task.score) is not None]
        n, mean, sd = found[0].scores if found else (0, None, None)
        assert n == len(scores)
        assert mean == (pytest.approx(statistics.mean(scores), abs=1e-9) if scores else None)
        wanted = pytest.approx(statistics.stdev(scores), abs=1e-9) if n > 1 else None
        assert sd == wanted

    def test_a_verdict_without_spans_is_found_by_the_version_of_its_trace(
        self, store: Store
    ) -> None:
        resource = Resource(attributes={"service.version": "2.0"})
        store.append_spans(SPACE, [span(1, resource=resource)], 1).result()
        store.append_evaluations([verdict("u1", trace_id=TRACE), verdict("u2")]).result()

        (counts,) = store.task_counts(TaskQuery(space=SPACE, service_version="2.0"))
        assert counts.passed == 1

    def test_last_outcomes(self, store: Store) -> None:
        outcomes = [Outcome.PASSED, Outcome.FAILED, Outcome.ERRORED]
        store.append_evaluations([verdict(f"u{n}", o) for n, o in enumerate(outcomes)]).result()
        store.append_evaluations([verdict("other", profile_uid="p2")]).result()

        assert store.last_outcomes(SPACE, "p1", 2) == outcomes[1:]
        assert store.last_outcomes(SPACE, "p1", 9) == outcomes

    @pytest.mark.parametrize("reason", ["budget", "sampled", "gate"])
    @pytest.mark.parametrize("other", [Outcome.PASSED, Outcome.FAILED])
    def test_a_verdict_without_a_judges_is_no_outcome(
        self, store: Store, reason: str, other: Outcome
    ) -> None:
        """What a gate skipped is decided, however."""
        tasks = (
            TaskRow(task_id="a", task_type="Assertion", outcome=other),
            TaskRow(task_id="j", task_type="LLMJudge", outcome=Outcome.SKIPPED, reason=reason),
        )
        row = verdict("u1", other, tasks=tasks)
        assert row.is_partial is (reason != "gate")
        store.append_evaluations([row, verdict("u2")]).result()
        decided = [other] if reason == "gate" else []
        assert store.last_outcomes(SPACE, "p1", 9) == [*decided, Outcome.PASSED]

    def test_spans_after_the_verdict_are_late(self, store: Store) -> None:
        seen = store.append_spans(SPACE, [span(1), span(2)], 1).result()
        store.append_records([record("u1", trace_id=TRACE)]).result()
        row = verdict("u1", trace_id=TRACE, reads_spans=True, input_seq=seen.seq)
        store.append_evaluations([row]).result()
        store.append_spans(SPACE, [span(2), span(3), span(1, trace_id="e" * 32)], 2).result()

        assert store.conservation(SPACE).spans.late == 1

    def test_a_revision_that_has_seen_late_spans_makes_them_late_no_longer(
        self, store: Store
    ) -> None:
        """A second record of the trace that was not judged again has still not seen the span."""
        reads: dict[str, Any] = {"trace_id": TRACE, "reads_spans": True}
        seen = store.append_spans(SPACE, [span(1)], 1).result()
        store.append_evaluations(
            [verdict("u1", input_seq=seen.seq, **reads), verdict("u2", input_seq=seen.seq, **reads)]
        ).result()
        late = store.append_spans(SPACE, [span(2)], 2).result()
        again = verdict("u1", revision=2, evaluation_id="u1 again", input_seq=late.seq, **reads)
        store.append_evaluations([again]).result()
        assert store.conservation(SPACE).spans.late == 1
        again = verdict("u2", revision=2, evaluation_id="u2 again", input_seq=late.seq, **reads)
        store.append_evaluations([again]).result()
        assert store.conservation(SPACE).spans.late == 0

    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_a_revision_takes_the_place_of_the_verdict_before_it(
        self, store: Store, is_one_batch: bool
    ) -> None:
        """Task a goes failed, passed, passed; task b errored, errored, failed."""
        steps = [
            (Outcome.FAILED, Outcome.ERRORED),
            (Outcome.PASSED, Outcome.ERRORED),
            (Outcome.PASSED, Outcome.FAILED),
        ]
        rows = [
            verdict(
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

    def test_pending_tasks_are_found_until_a_revision_decides_them(self, store: Store) -> None:
        """Nothing of them is in a rate; counters tell what they became."""

        def row(uid: str, judged: Outcome, reason: str | None = None, **fields: Any) -> Any:
            tasks = (
                TaskRow(task_id="a", task_type="x", outcome=Outcome.PASSED),
                TaskRow(task_id="b", task_type="LLMJudge", outcome=judged, reason=reason),
            )
            return verdict(uid, judged, tasks=tasks, **fields)

        pending = [row(f"u{n}", Outcome.PENDING) for n in range(4)]
        store.append_records([record(each.record_uid) for each in pending]).result()
        store.append_evaluations([*pending[:2], verdict("other", profile_uid="p2")]).result()
        store.append_evaluations(pending[2:]).result()
        assert [each.verdict for each in store.pending_verdicts(9)] == pending
        sizes = {each.context_bytes for each in store.pending_verdicts(9)}
        assert sizes == {len('{"answer":[1,null,"é"]}'.encode())}
        assert store.pending_count() == 4
        for names, others, uids in (
            ({"p1"}, False, ["u0", "u1", "u2", "u3"]),
            ({"p1"}, True, []),
            ({"p2"}, True, ["u0", "u1", "u2", "u3"]),
            ((), False, []),
        ):
            of = store.pending_verdicts(9, profiles=names, others=others)
            assert [each.verdict.record_uid for each in of] == uids
        first, second, third = store.pending_verdicts(3)
        assert [each.place for each in store.pending_verdicts(2, first.place)] == [
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
        decided = verdict(
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
        assert [each.verdict for each in store.pending_verdicts(9)] == pending[2:]
        assert store.pending_count() == 2
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

    @_IN_CLASS
    @given(data=st.data())
    def test_counts_are_those_of_a_brute_force_count(
        self, store: Store, data: st.DataObject
    ) -> None:
        """Random verdicts and revisions over three hours, asked for between any two times."""
        space = f"space {store.last_seq()}"  # one store for all examples
        times = st.integers(0, 6).map(lambda halves: halves * HOUR_NS // 2)
        latest: dict[str, EvaluationRow] = {}
        for _ in range(data.draw(st.integers(1, 8))):
            uid = data.draw(st.sampled_from("abc"))
            before = latest.get(uid)
            latest[uid] = verdict(
                uid, data.draw(st.sampled_from(Outcome)), space=space,
                revision=before.revision + 1 if before else 1,
                evaluation_id=f"{space} {uid} {before.revision if before else 0}",
                evaluated_ns=data.draw(times), profile_uid=f"p {uid > 'a'}",
            )  # fmt: skip
            store.append_evaluations([latest[uid]]).result()
        since_ns, until_ns = data.draw(st.none() | times), data.draw(st.none() | times)
        found = store.task_counts(TaskQuery(space=space, since_ns=since_ns, until_ns=until_ns))

        wanted = Counter(
            (row.profile_uid, row.outcome)
            for row in latest.values()
            if row.outcome in DECIDED
            and (since_ns is None or row.evaluated_ns >= since_ns)
            and (until_ns is None or row.evaluated_ns < until_ns)
        )
        got = Counter(
            {
                (row.profile_uid, outcome): getattr(row, outcome.value)
                for row in found
                for outcome in DECIDED
            }
        )
        assert +got == wanted

    @pytest.mark.parametrize("is_one_batch", [True, False])
    def test_counters_follow_a_record_until_another_version_judges_it(
        self, store: Store, is_one_batch: bool
    ) -> None:
        """By hand: judged, re-evaluated, answered and late there, back to the first, late again."""
        path = [
            ("p1", Outcome.PENDING), ("p1", Outcome.PASSED),  # what is counted live
            ("p2", Outcome.PENDING), ("p2", Outcome.FAILED), ("p2", Outcome.ERRORED),
            ("p1", Outcome.PASSED), ("p1", Outcome.FAILED),
        ]  # fmt: skip
        rows = [
            verdict("u1", outcome, revision=n, evaluation_id=f"e{n}", profile_uid=profile_uid)
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

    @_IN_CLASS
    @given(data=st.data())
    def test_counters_are_those_of_a_brute_force_count(
        self, store: Store, data: st.DataObject
    ) -> None:
        """First verdicts, and changes to an outcome less those from it: live ones, then all."""
        space = f"space {store.last_seq()}"  # one store for all examples
        rows: list[EvaluationRow] = []
        for _ in range(data.draw(st.integers(1, 12))):
            uid, version = data.draw(st.sampled_from("ab")), data.draw(st.sampled_from("1112"))
            revision = 1 + sum(row.record_uid == uid for row in rows)
            rows.append(
                verdict(
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

    def test_evaluated_records_of_traces(self, store: Store) -> None:
        """u1 has a revision, u2 reads no spans, u3 waits, u4 belongs to another trace."""
        rows = [record(f"u{n}", trace_id=TRACE) for n in (1, 2, 3)]
        other = "e" * 32
        rows.append(record("u4", trace_id=other))
        elsewhere = record("u1", trace_id=TRACE, space="elsewhere")
        store.append_records([*rows, elsewhere]).result()
        reads: dict[str, Any] = {"trace_id": TRACE, "reads_spans": True}
        second = verdict("u1", Outcome.FAILED, revision=2, evaluation_id="again", **reads)
        store.append_evaluations(
            [
                verdict("u1", **reads),
                verdict("u2", trace_id=TRACE),
                verdict("u4", trace_id=other, reads_spans=True),
            ]
        ).result()
        store.append_evaluations([second]).result()

        (found,) = store.evaluated_records(SPACE, [TRACE])
        assert found.record == replace(rows[0], context=None)
        assert (found.input_seq, found.evaluated_ns) == (second.input_seq, second.evaluated_ns)
        assert found.size_bytes > store.context_sizes(SPACE, ["u1"])["u1"]
        both = store.evaluated_records(SPACE, [TRACE, other])
        assert [each.record.uid for each in both] == ["u1", "u4"]
        assert store.evaluated_records("elsewhere", [TRACE]) == []
        assert store.evaluated_records(SPACE, []) == []

    # --- sessions ---------------------------------------------------------------------------

    def test_records_of_sessions_and_of_traces(self, store: Store) -> None:
        """A record without a session id is found by its uid; one with an id is not."""
        rows = [
            record("u1", session_id="s", trace_id=TRACE),
            record("u2", session_id="s", profile_uid="p2"),
            record("u3", session_id=""),
            record("u4", session_id="t", trace_id=TRACE),
        ]
        store.append_records([*rows, record("u5", session_id="s", space="elsewhere")]).result()
        outlines = [replace(row, context=None) for row in rows]
        assert store.session_records(SPACE, ["s", "u3", "u4", "s"], 3) == outlines[:3]
        assert len(store.session_records(SPACE, ["s", "u3"], 2)) == 2
        assert store.session_records(SPACE, [""], 3) == []
        assert store.session_records(SPACE, [], 3) == []
        assert store.trace_records(SPACE, [TRACE, "e" * 32]) == [outlines[0], outlines[3]]
        assert store.trace_records("elsewhere", [TRACE]) == []
        assert store.trace_records(SPACE, []) == []

    def test_sessions_that_no_verdict_has_seen_whole(self, open_store: Open) -> None:
        """Of s a record came after the verdict, t was judged whole, u3 is alone, r not known yet.

        The record of q was of an unknown profile; its verdict says which one it is.
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
                verdict("session s", session_id="s", **of_session),
                verdict("session t", session_id="t", **of_session),
                verdict("u3", session_id="", input_seq=first.seq),
                verdict("u6", session_id="q", input_seq=first.seq),
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

    def test_the_latest_verdicts(self, store: Store) -> None:
        rows = [verdict("u1"), verdict("u2")]
        rows.append(verdict("u1", space="elsewhere", evaluation_id="of another space"))
        store.append_evaluations(rows).result()
        second = verdict("u1", Outcome.FAILED, revision=2, evaluation_id="again")
        store.append_evaluations([second]).result()
        keys = [(SPACE, "u1"), ("elsewhere", "u1"), (SPACE, "nobody")]
        found = store.latest_verdicts(keys)
        assert dict(found) == {(SPACE, "u1"): second, ("elsewhere", "u1"): rows[2]}
        assert store.latest_verdicts([]) == {}

    def test_verdicts_by_the_ids_of_records(self, store: Store) -> None:
        """Two records bear one id; one was decided again; another space knows the same id."""
        rows = [verdict(uid, record_id=name) for uid, name in zip("abcd", "xxyz", strict=True)]
        rows.append(verdict("e", space="elsewhere", record_id="x", evaluation_id="of another"))
        rows.append(verdict("f", record_id=""))
        store.append_evaluations(rows).result()
        again = verdict("b", Outcome.FAILED, record_id="x", revision=2, evaluation_id="again")
        store.append_evaluations([again]).result()

        found = store.verdicts_of_ids(SPACE, ["y", "x", "nobody", "x"], 4)
        assert found is not None
        assert sorted(found, key=lambda row: row.record_uid) == [rows[0], again, rows[2]]
        assert store.verdicts_of_ids(SPACE, ["x", "y"], 3) is None, "the superseded one counts"
        assert store.verdicts_of_ids(SPACE, ["nobody"], 3) == ()
        assert store.verdicts_of_ids(SPACE, [], 3) == ()

    def test_a_verdict_on_a_session_is_no_state_of_a_record(self, store: Store) -> None:
        """It counts once, among the sessions; its traces are those of the session's records."""
        before = store.append_spans(SPACE, [span(1)], 1).result().seq
        rows = [record(f"u{n}", session_id="s", trace_id=TRACE) for n in (1, 2)]
        store.append_records(rows).result()
        store.append_evaluations([verdict("u1", trace_id=TRACE)]).result()
        session = verdict(
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
        judged = store.judged_traces(100)
        assert judged.maybe(trace_hash(TRACE))
        assert not judged.maybe(trace_hash(TRACE) ^ 1)
        assert store.late_traces(0) == []
        query = EvaluationQuery(space=SPACE, session_id="s")
        shown = [row for row in store.evaluations(query).items if row.scope is Scope.SESSION]
        assert shown == [session]

        late = store.append_spans(SPACE, [span(2), span(3)], 1).result().seq
        assert store.conservation(SPACE).spans.late == 2
        assert store.late_traces(0) == [(SPACE, TRACE)]
        again = verdict(
            "session s", session_id="s", reads_spans=True, input_seq=late, revision=2,
            evaluation_id="again", scope=Scope.SESSION,
        )  # fmt: skip
        store.append_evaluations([again]).result()
        assert store.conservation(SPACE).spans.late == 0
        assert store.late_traces(0) == []
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
            [verdict("u1", tasks=two), verdict("u2", space="other", evaluation_id="e2")],
            [verdict("u1", Outcome.FAILED, revision=2, evaluation_id="e1.2")],
            [verdict("s", scope=Scope.SESSION, evaluation_id="es"), verdict("u3")],
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
        store.append_evaluations([verdict("u4", evaluation_id="e4")]).result()
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

    # --- everything else --------------------------------------------------------------------

    def test_profiles_keep_their_latest_body_and_one_is_active(self, open_store: Open) -> None:
        store = open_store()
        store.append_profile(profile("p1", is_active=True)).result()
        store.append_profile(profile("p2")).result()
        before = {row.uid: row.is_active for row in store.profiles()}
        store.append_profile(profile("p2", is_active=True, body='{"new": 1}')).result()
        store.append_profile(profile("q", is_active=True, alias="other")).result()
        store.close()
        store = open_store()
        after = store.profiles()
        store.close()

        assert before == {"p1": True, "p2": False}
        assert {row.uid: row.is_active for row in after} == {"p1": False, "p2": True, "q": True}
        assert [row.body for row in after] == ["{}", '{"new": 1}', "{}"]

    def test_changes_of_profiles_are_kept_in_order(self, open_store: Open) -> None:
        store = open_store()
        rows = [profile("p1", is_active=True), profile("p2"), profile("p1"), profile("p1")]
        seqs = [store.append_profile(row).result() for row in rows]
        store.close()
        store = open_store()
        changes = store.profile_changes()
        store.close()

        found = [(each.seq, each.uid, each.alias, each.is_active) for each in changes]
        assert found == [
            (seq, row.uid, row.alias, row.is_active) for seq, row in zip(seqs, rows, strict=True)
        ]

    def test_records_say_which_commit_accepted_them(self, open_store: Open) -> None:
        store = open_store()
        seqs = [store.append_records([record(uid)]).result().seq for uid in ("u1", "u2")]
        read = store.records_of(SPACE, ["u1", "u2"])
        waiting = store.waiting_records(10)
        store.close()

        assert {row.uid: row.seq for row in read} == dict(zip(("u1", "u2"), seqs, strict=True))
        assert [each.record.seq for each in waiting] == seqs

    def test_an_alias_may_be_left_without_an_active_profile(self, open_store: Open) -> None:
        store = open_store()
        store.append_profile(profile("p1", is_active=True)).result()
        store.append_profile(profile("p2", is_active=True)).result()
        store.append_profile(profile("q", is_active=True, alias="other")).result()
        store.append_profile(profile("p1")).result()  # is not the active one: changes nothing
        first = {row.uid: row.is_active for row in store.profiles()}
        store.append_profile(profile("p2")).result()
        store.close()
        store = open_store()
        second = {row.uid: row.is_active for row in store.profiles()}
        store.append_profile(profile("p1", is_active=True)).result()
        third = {row.uid: row.is_active for row in store.profiles()}
        store.close()

        assert first == {"p1": False, "p2": True, "q": True}
        assert second == {"p1": False, "p2": False, "q": True}
        assert third == {"p1": True, "p2": False, "q": True}

    def test_last_alert_events(self, store: Store) -> None:
        def event(state: AlertState, uid: str, at_ns: int) -> AlertEvent:
            return AlertEvent(
                space=SPACE, profile_uid=uid, state=state, at_ns=at_ns, passed=1, total=2
            )

        firing, resolved = event(AlertState.FIRING, "p1", 1), event(AlertState.RESOLVED, "p1", 2)
        other = event(AlertState.FIRING, "p2", 3)
        store.append_alert_events([firing, resolved]).result()
        store.append_alert_events([other]).result()
        assert store.last_alert_events() == [resolved, other]

    def test_calibrations_are_kept_once(self, open_store: Callable[[], Store]) -> None:
        rows = [CalibrationRow(digest=name, body="{}", added_ns=at) for at, name in enumerate("ba")]
        store = open_store()
        store.append_calibrations(rows).result()
        store.append_calibrations([replace(rows[1], added_ns=7)]).result()
        store.close()
        store = open_store()
        found = store.calibrations()
        store.close()

        assert found == rows

    def test_gold_verdicts_of_one_judge(self, store: Store) -> None:
        """By slot, each once; they are in no count that is about an agent."""
        query = GoldQuery(space=SPACE, alias="a", task_id="t", judge="j")
        before = (
            store.totals(),
            store.conservation(SPACE),
            store.task_counts(TaskQuery(space=SPACE)),
        )

        def verdict(slot: int, outcome: Outcome = Outcome.PASSED) -> GoldVerdict:
            return GoldVerdict(
                space=SPACE,
                alias="a",
                task_id="t",
                judge="j",
                slot=slot,
                item=f"i{slot}",
                is_good=bool(slot % 2),
                outcome=outcome,
                reason="parse" if outcome is Outcome.ERRORED else None,
                at_ns=10 * slot,
            )

        late = verdict(9, Outcome.ERRORED)
        store.append_gold_verdicts([late, verdict(2), verdict(3, Outcome.FAILED)]).result()
        store.append_gold_verdicts([replace(verdict(3), item="again")]).result()
        other: list[dict[str, str]] = [
            {"judge": "k"}, {"alias": "b"}, {"space": "elsewhere"}, {"task_id": "u"},
        ]  # fmt: skip
        store.append_gold_verdicts([replace(verdict(4), **each) for each in other]).result()

        assert store.gold_verdicts(query) == [verdict(2), verdict(3, Outcome.FAILED), late]
        assert store.gold_verdicts(replace(query, since_slot=4)) == [late]
        assert before == (
            store.totals(), store.conservation(SPACE), store.task_counts(TaskQuery(space=SPACE)),
        )  # fmt: skip

    def test_dead_letters_of_one_place_are_kept_once(self, store: Store) -> None:
        one = letter(kind=LetterKind.SPAN, source="kafka:scouter.spans:0:17")
        store.append_dead_letters([one, one]).result()
        store.append_dead_letters([one, letter(source="kafka:scouter.spans:0:18")]).result()

        sheet = store.conservation(SPACE)
        assert dict(sheet.dead_letters) == {"invalid_record": 2}
        assert sheet.spans.dead_lettered == 1
        assert store.totals()[TotalKey(TotalName.DEAD_LETTERS, SPACE, label="invalid_record")] == 2

    def test_traces_that_lack_a_refused_span(self, store: Store) -> None:
        """Until the letter is taken out again, as its span was accepted."""
        refused = letter(kind=LetterKind.SPAN, uid="a" * 32, message="bad time")
        large = letter(kind=LetterKind.SPANS_MESSAGE, uid="b" * 32, message="too large")
        others = [
            letter(kind=LetterKind.SPAN, source="unknown trace"),
            letter(kind=LetterKind.RECORD, uid="c" * 32),
            letter(kind=LetterKind.SPAN, uid="d" * 32, space="elsewhere"),
        ]
        store.append_dead_letters([refused, large, *others]).result()
        ids = [each * 32 for each in "abcde"]

        assert store.refused_spans(SPACE, ids) == {ids[0]: "bad time", ids[1]: "too large"}
        assert store.refused_spans(SPACE, ids[1:2]) == {ids[1]: "too large"}
        assert store.refused_spans(SPACE, []) == {}

        (found,) = store.dead_letters(LetterQuery(space=SPACE, uid=ids[0]))
        store.remove_dead_letters(SPACE, [found.letter_id]).result()
        assert store.refused_spans(SPACE, ids) == {ids[1]: "too large"}

    def test_dead_letters_are_listed_newest_first_and_page_by_page(self, open_store: Open) -> None:
        """Three in one commit, one in the next; pages of two hold each once, though more come."""
        store = open_store()
        first = [letter(source=f"http {n}", payload=bytes([n])) for n in range(3)]
        last = letter(source="later", uid="u", was_accepted=True, message="ünknown")
        store.append_dead_letters(first).result()
        store.append_dead_letters([last, letter(space="elsewhere")]).result()
        store.close()
        store = open_store()
        pages = [store.dead_letters(LetterQuery(space=SPACE, limit=2))]
        store.append_dead_letters([letter(source="while they are read")]).result()
        while pages[-1]:
            end = pages[-1][-1]
            pages.append(
                store.dead_letters(
                    LetterQuery(space=SPACE, limit=2, before=(end.seq, end.letter_id))
                )
            )
        elsewhere = store.dead_letters(LetterQuery(space="elsewhere"))
        store.close()

        assert [len(page) for page in pages] == [2, 2, 0]
        found = [each for page in pages for each in page]
        assert found[0].letter == last
        assert sorted((each.letter for each in found[1:]), key=lambda each: each.source) == first
        assert found[0].seq > found[1].seq == found[2].seq == found[3].seq
        assert len({each.letter_id for each in found}) == 4
        assert [each.letter for each in elsewhere] == [letter(space="elsewhere")]

    def test_filters_of_dead_letters(self, store: Store) -> None:
        record_letter, span_letter = letter(), letter(kind=LetterKind.SPAN, reason="invalid_span")
        store.append_dead_letters([record_letter, span_letter]).result()

        def found(**filters: Any) -> list[DeadLetter]:
            query = LetterQuery(space=SPACE, **filters)
            return [each.letter for each in store.dead_letters(query)]

        assert found(reason="invalid_span") == found(kind=LetterKind.SPAN) == [span_letter]
        assert found(reason="invalid_record", kind=LetterKind.RECORD) == [record_letter]
        assert found(reason="invalid_record", kind=LetterKind.SPAN) == []
        for each in store.dead_letters(LetterQuery(space=SPACE)):
            assert found(letter_id=each.letter_id) == [each.letter]
        assert found(letter_id="none") == []

    def test_a_letter_that_was_taken_out_is_gone_and_may_come_again(self, store: Store) -> None:
        """What is not there, or of another space, is passed over; totals stay as they were."""
        kept, gone = letter(source="kept"), letter(source="gone")
        store.append_dead_letters([kept, gone, letter(space="elsewhere")]).result()
        by_source = {
            each.letter.source: each.letter_id
            for each in store.dead_letters(LetterQuery(space=SPACE))
        }
        (other,) = store.dead_letters(LetterQuery(space="elsewhere"))
        asked = [by_source["gone"], other.letter_id, "none"]
        removed = store.remove_dead_letters(SPACE, asked).result()
        again = store.remove_dead_letters(SPACE, asked).result()
        nothing = store.remove_dead_letters(SPACE, []).result()

        assert removed.letter_ids == (by_source["gone"],)
        assert again.letter_ids == nothing.letter_ids == ()
        left = store.dead_letters(LetterQuery(space=SPACE))
        assert [each.letter for each in left] == [kept]
        assert dict(store.conservation(SPACE).dead_letters) == {"invalid_record": 1}
        assert dict(store.conservation("elsewhere").dead_letters) == {"invalid_record": 1}
        key = TotalKey(TotalName.DEAD_LETTERS, SPACE, label="invalid_record")
        assert store.totals()[key] == 2
        store.append_dead_letters([gone]).result()
        assert len(store.dead_letters(LetterQuery(space=SPACE))) == 2

    def test_waiting_records_are_read_in_parts(self, store: Store) -> None:
        """In order of acceptance, then by space and uid; each once, and none that is decided."""
        batches = [
            [record("b", space="two"), record("b"), record("a"), record("é")],
            [record("c", context="x" * 10)],
            [record("a", space="two"), record("d")],
        ]
        for batch in batches:
            store.append_records(batch).result()
        store.append_evaluations([verdict("a")]).result()

        assert store.waiting_count() == 6
        for size in (1, 2, 3, 6, 9):
            found: list[WaitingRecord] = []
            while page := store.waiting_records(size, found[-1].place if found else START):
                assert len(page) <= size
                found += page
            keys = [(each.record.space, each.record.uid) for each in found]
            assert keys == [
                (SPACE, "b"), (SPACE, "é"), ("two", "b"), (SPACE, "c"), (SPACE, "d"), ("two", "a"),
            ]  # fmt: skip
            assert all(each.record.context is None for each in found)
            assert found[3].context_bytes == len('"xxxxxxxxxx"')

    def test_an_accepted_record_waits_again_without_its_letter(self, store: Store) -> None:
        row = record("u1")
        store.append_records([row]).result()
        put_aside = letter(uid="u1", was_accepted=True, reason="unknown_profile")
        store.append_dead_letters([put_aside]).result()
        assert store.waiting_records(9) == []
        (stored,) = store.dead_letters(LetterQuery(space=SPACE))
        store.remove_dead_letters(SPACE, [stored.letter_id]).result()

        assert [each.record.uid for each in store.waiting_records(9)] == ["u1"]
        sheet = store.conservation(SPACE).records
        assert (sheet.accepted, sheet.waiting, sheet.dead_lettered) == (1, 1, 0)

    @pytest.mark.parametrize(
        ("target", "uids", "spans_gone"),
        [
            ({"record_uid": "a1"}, {"a1"}, {1}),
            ({"record_uid": "a2"}, {"a2"}, _NONE),  # its trace is another record's, too
            ({"session_id": "a"}, {"a1", "a2"}, {1}),
            ({"session_id": "b"}, {"b1"}, _NONE),
            ({"session_id": "alone"}, {"alone"}, {3}),  # a record without one is its own
            ({"trace_id": f"{2:032x}"}, {"a2", "b1"}, {2}),
            ({"trace_id": f"{4:032x}"}, _NOBODY, {4}),  # of no record
            ({"tag": ("user", "ann")}, {"a1", "b1"}, {1}),
            ({"tag": ("user", "an")}, _NOBODY, _NONE),
            ({"record_uid": "nobody"}, _NOBODY, _NONE),
        ],
    )
    def test_what_is_erased_is_gone_for_good(
        self, open_store: Open, target: dict[str, Any], uids: set[str], spans_gone: set[int]
    ) -> None:
        """Listings, counts and rates lose it, the sheet says so, and it does not come again."""
        rows = [
            record("a1", session_id="a", trace_id=f"{1:032x}", tags={"user": "ann"}),
            record("a2", session_id="a", trace_id=f"{2:032x}", tags={"user": "bob"}),
            record("b1", session_id="b", trace_id=f"{2:032x}", tags={"user": "ann"}),
            record("alone", trace_id=f"{3:032x}", tags={}),
        ]
        stored = [span(n, trace_id=f"{n:032x}") for n in range(1, 5)]
        judged = [
            verdict(row.uid, session_id=row.session_id, trace_id=row.trace_id, tags=row.tags)
            for row in rows
        ]
        letters = [letter(uid="a1"), letter(source="another", payload=b"{}")]
        store = open_store()

        def send() -> None:
            store.append_records(rows).result()
            for each in stored:
                store.append_spans(SPACE, [each], 1).result()
            store.append_evaluations(judged).result()

        send()
        store.append_dead_letters(letters).result()
        foreign = "another space"
        store.append_records([record("a1", space=foreign, session_id="a")]).result()
        done = store.erase(EraseTarget(space=SPACE, **target)).result()
        assert (done.uids, done.spans, done.evaluations) == (uids, len(spans_gone), len(uids))
        kept = {row.uid for row in rows} - uids

        def check() -> None:
            assert {row.uid for row in store.records_of(SPACE, [x.uid for x in rows])} == kept
            listed = store.evaluations(EvaluationQuery(space=SPACE)).items
            assert {row.record_uid for row in listed} == kept
            found = store.spans_of(SPACE, [each.trace_id for each in stored])
            numbers = {int(each.span_id, 16) for some in found.values() for each in some}
            assert numbers == {1, 2, 3, 4} - spans_gone
            (counts,) = store.task_counts(TaskQuery(space=SPACE))
            assert counts.passed == len(kept)
            sheet = store.conservation(SPACE)
            states = sheet.records
            assert (states.accepted, states.evaluated, states.waiting, states.erased) == (
                4, len(kept), 0, len(uids),
            )  # fmt: skip
            assert (sheet.spans.accepted, sheet.spans.stored, sheet.spans.erased) == (
                4, 4 - len(spans_gone), len(spans_gone),
            )  # fmt: skip
            totals = store.totals()
            assert totals.get(TotalKey(TotalName.ERASED, SPACE, label="record"), 0) == len(uids)
            assert {store.record_history(SPACE, uid) for uid in uids} <= {None}
            assert store.record_history(foreign, "a1") is not None

        check()
        left = [each.letter.uid for each in store.dead_letters(LetterQuery(space=SPACE))]
        assert sorted(left) == sorted(["", *(["a1"] if "a1" not in uids else [])])
        send()
        check()
        store.close()
        store = open_store()
        check()
        send()
        check()
        again = store.erase(EraseTarget(space=SPACE, **target)).result()
        assert (again.uids, again.spans) == (set(), 0)
        store.close()

    def test_a_verdict_that_read_what_was_erased_keeps_its_outcome_without_texts(
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
        whole = verdict("of s1", Outcome.FAILED, (secret,), scope=Scope.SESSION)
        store.append_evaluations([whole, verdict("u2", tasks=(secret,))]).result()
        store.erase(EraseTarget(space=SPACE, record_uid="u1")).result()
        found = {
            row.record_uid: row.tasks[0]
            for row in store.evaluations(EvaluationQuery(space=SPACE)).items
        }
        assert found == {
            "of s1": replace(secret, expected=None, actual=None, message=""),
            "u2": secret,
        }

    def test_totals_survive(self, open_store: Open) -> None:
        key = TotalKey(TotalName.DROPPED, SPACE, label="queue_full")
        store = open_store()
        store.add_totals({key: 3}).result()
        store.add_totals({key: 4}).result()
        assert store.totals()[key] == 7
        store.close()
        store = open_store()
        store.add_totals({key: 1}).result()
        assert store.totals()[key] == 8
        store.close()

    def test_each_drop_counts_once(self, open_store: Open) -> None:
        """However often a sender tells of it; of one that has no name, whenever it comes."""
        full = TotalKey(TotalName.DROPPED, SPACE, label="full")
        store = open_store()

        def told(space: str = SPACE, **totals: tuple[int, int]) -> int:
            report = {(sender.strip("_"), "full"): Count(*each) for sender, each in totals.items()}
            store.add_drops(space, report, 1).result()
            return store.totals()[full]

        assert told(a=(0, 3)) == 3
        assert told(a=(0, 3)) == 3
        assert told(a=(3, 5), b=(0, 1)) == 6
        assert told(a=(0, 4)) == 6
        assert told(late=(2, 3)) == 7
        assert told(late=(0, 2)) == 9
        assert told(late=(0, 3)) == 9
        assert told(_=(0, 2)) == 11
        assert told(_=(0, 2)) == 13
        assert told("else", a=(0, 7)) == 13
        assert store.totals()[TotalKey(TotalName.DROPPED, "else", label="full")] == 7
        store.close()
        store = open_store()
        assert told(a=(5, 6)) == 14
        assert told(new=(5, 6)) == 15
        store.close()

    def test_a_report_that_comes_twice_at_once_counts_once(self, open_store: Open) -> None:
        """In one commit, as behind a pause."""
        store = open_store()
        report = {("a", "full"): Count(0, 3), ("a", "closed"): Count(0, 1)}
        for future in [store.add_drops(SPACE, report, 1) for _ in range(50)]:
            future.result()
        totals = store.totals()
        store.close()

        assert totals[TotalKey(TotalName.DROPPED, SPACE, label="full")] == 3
        assert totals[TotalKey(TotalName.DROPPED, SPACE, label="closed")] == 1

    def test_commits_are_numbered_on_after_a_restart(self, open_store: Open) -> None:
        store = open_store()
        first = store.append_records([record("u1")]).result().seq
        second = store.append_spans(SPACE, [span(1)], 1).result().seq
        store.close()
        store = open_store()
        assert store.last_seq() >= second > first
        assert store.append_records([record("u2")]).result().seq > second
        store.close()

    def test_many_writers_at_once(self, store: Store) -> None:
        """Eight threads, all sending the same 40 records and spans: each is accepted once."""
        results: list[tuple[int, int]] = []

        def send(at: int) -> None:
            for n in range(at, at + 40):
                taken = store.append_records([record(f"u{n % 40}")]).result()
                stored = store.append_spans(SPACE, [span(n % 40 + 1)], 1).result()
                results.append((len(taken.accepted), len(stored.stored)))

        threads = [threading.Thread(target=send, args=(n * 5,)) for n in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert [sum(column) for column in zip(*results, strict=True)] == [40, 40]
        sheet = store.conservation(SPACE)
        assert (sheet.records.accepted, sheet.records.duplicates) == (40, 280)
        assert (sheet.spans.stored, sheet.spans.duplicates) == (40, 280)

    def test_callbacks_run_in_commit_order(self, store: Store) -> None:
        order: list[int] = []

        def remember(done: "Future[object]") -> None:
            order.append(done.result().seq)  # type: ignore[attr-defined]

        futures: list[Future[object]] = []
        for n in range(50):
            future: Future[object] = store.append_records([record(f"u{n}")])  # type: ignore[assignment]
            future.add_done_callback(remember)
            futures.append(future)
        for future in futures:
            future.result()
        assert order == sorted(order)

    def test_a_closed_store_says_so(self, open_store: Open) -> None:
        store = open_store()
        store.close()
        with pytest.raises(TransientError, match="closed"):
            store.append_records([record()]).result()
