"""Listings and counts of evaluations in any store."""

import statistics
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rates import SeriesQuery, TaskQuery
from collector.store.rows import (
    EvaluationRow,
    TaskRow,
)
from collector.store.totals import HOUR_NS
from scouter.evaluate.outcome import DECIDED, Outcome
from scouter.model.ids import uuid7
from scouter.model.span import Resource
from tests.contracts.store_data import (
    SPACE,
    TRACE,
    evaluation,
    span,
)
from tests.contracts.store_opened import IN_CLASS, OpenedStore
from tests.support.store_appends import AppendingStore


class ReadingContract(OpenedStore):
    """Listings and counts of evaluations."""

    def test_filters_of_the_listing(self, store: AppendingStore) -> None:
        rows = [
            evaluation("u1", evaluated_ns=100, trace_id=TRACE),
            evaluation("u2", Outcome.FAILED, evaluated_ns=200, record_id="x"),
            evaluation("u3", evaluated_ns=300, alias="b", profile_uid="p2", profile_digest="d2",
                    profile_name="named"),
            evaluation("u4", evaluated_ns=400, space="other"),
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

    def test_pages_hold_everything_once_though_more_comes_in(self, store: AppendingStore) -> None:
        for start in (0, 4, 8):
            store.append_evaluations(
                [evaluation(f"u{n}") for n in range(start, start + 4)]
            ).result()
        seen: list[str] = []
        query = EvaluationQuery(space=SPACE, limit=5)
        while True:
            page = store.evaluations(query)
            seen += [row.record_uid for row in page.items]
            if page.next_before is None:
                break
            store.append_evaluations([evaluation(f"later {len(seen)}")]).result()
            query = EvaluationQuery(space=SPACE, limit=5, before=page.next_before)
        assert seen == [f"u{n}" for n in reversed(range(12))]

    def test_task_counts(self, store: AppendingStore) -> None:
        """Two tasks: t1 passed, failed, errored; t2 skipped by a gate twice, once by budget."""
        gate = TaskRow(task_id="t2", task_type="x", outcome=Outcome.SKIPPED, reason="gate")
        budget = TaskRow(task_id="t2", task_type="x", outcome=Outcome.SKIPPED, reason="budget")
        rows = [
            evaluation(f"u{n}", evaluated_ns=n,
                       tasks=(TaskRow(task_id="t1", task_type="x", outcome=outcome), second),
                       service_version=f"{n}.0")
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

    def test_scores_of_a_task(self, store: AppendingStore) -> None:
        """Scores 4, 2.5 and 1 are their own, one passed and one failed without; one errored.

        A revision's score takes the place of the earlier one. Mean of 4, 2.5, 1, 1, 0 is 1.7;
        the squared distances 5.29, 0.64, 0.49, 0.49, 2.89 sum up to 9.8, and 9.8 / 4 is 2.45.
        """

        def judged(uid: str, outcome: Outcome, score: float | None, **fields: Any) -> EvaluationRow:
            task = TaskRow(task_id="q", task_type="LLMJudge", outcome=outcome, stated_score=score)
            return evaluation(uid, outcome, (task,), service_version="1", **fields)

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

    @IN_CLASS
    @given(st.lists(st.tuples(st.sampled_from(DECIDED), st.none() | st.floats(-9, 9)), max_size=12))
    def test_mean_and_deviation_are_those_of_the_scores(
        self, store: AppendingStore, results: list[tuple[Outcome, float | None]]
    ) -> None:
        tasks = [
            TaskRow(task_id="q", task_type="LLMJudge", outcome=outcome, stated_score=score)
            for outcome, score in results
        ]
        space = uuid7()
        store.append_evaluations(
            [
                evaluation(f"u{n}", task.outcome, (task,), space=space)
                for n, task in enumerate(tasks)
            ]
        ).result()
        found = store.task_counts(TaskQuery(space=space))
        scores = [score for task in tasks if (score := task.score) is not None]
        n, mean, sd = found[0].scores if found else (0, None, None)
        assert n == len(scores)
        assert mean == (pytest.approx(statistics.mean(scores), abs=1e-9) if scores else None)
        wanted = pytest.approx(statistics.stdev(scores), abs=1e-9) if n > 1 else None
        assert sd == wanted

    def test_an_evaluation_without_spans_is_found_by_the_version_of_its_trace(
        self, store: AppendingStore
    ) -> None:
        resource = Resource(attributes={"service.version": "2.0"})
        store.append_spans(SPACE, [span(1, resource=resource)], 1).result()
        store.append_evaluations([evaluation("u1", trace_id=TRACE), evaluation("u2")]).result()

        (counts,) = store.task_counts(TaskQuery(space=SPACE, service_version="2.0"))
        assert counts.passed == 1

    @IN_CLASS
    @given(data=st.data())
    def test_counts_are_those_of_a_brute_force_count(
        self, store: AppendingStore, data: st.DataObject
    ) -> None:
        """Random evaluations and revisions over three hours, requested between any two times."""
        space = f"space {store.last_seq()}"  # one store for all examples
        times = st.integers(0, 6).map(lambda halves: halves * HOUR_NS // 2)
        latest: dict[str, EvaluationRow] = {}
        for _ in range(data.draw(st.integers(1, 8))):
            uid = data.draw(st.sampled_from("abc"))
            before = latest.get(uid)
            latest[uid] = evaluation(
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
