"""The newest results of a task in any store."""

from typing import Any

from collector.store.evaluation_queries import NewestResultsQuery
from collector.store.rows import Scope, TaskRow
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, evaluation
from tests.contracts.store_opened import OpenedStore
from tests.support.store_appends import AppendingStore


def newest(store: AppendingStore, **filters: Any) -> list[tuple[str, str]]:
    """Uid and outcome of the newest results of `t1`."""
    given: dict[str, Any] = {"alias": "answers", "task_id": "t1", "limit": 10}
    query = NewestResultsQuery(space=SPACE, **(given | filters))
    return [(each.uid, str(each.task.outcome)) for each in store.newest_results(query)]


class NewestContract(OpenedStore):
    """The newest results of a task."""

    def test_the_newest_results_are_the_latest_of_each_record(self, store: AppendingStore) -> None:
        """Neither superseded ones, nor those that are pending or skipped, nor of sessions."""
        of = [
            evaluation("u1", Outcome.FAILED),
            evaluation("u2", Outcome.FAILED),
            evaluation("u3", Outcome.PENDING),
            evaluation("u4", Outcome.SKIPPED),
            evaluation("u5", Outcome.ERRORED),
            evaluation("s1", scope=Scope.SESSION),
            evaluation("u6", alias="others"),
            evaluation("u7", space="elsewhere"),
            evaluation("u8", tasks=(TaskRow(task_id="t2", task_type="A", outcome=Outcome.PASSED),)),
        ]
        for row in of:
            store.append_evaluations([row]).result()
        again = evaluation("u1", Outcome.PASSED, revision=2, evaluation_id="again")
        store.append_evaluations([again]).result()
        assert newest(store) == [("u1", "passed"), ("u5", "errored"), ("u2", "failed")]
        assert newest(store, outcome=Outcome.FAILED) == [("u2", "failed")]
        assert newest(store, limit=3)[:2] == [("u1", "passed"), ("u5", "errored")]
        assert newest(store, alias="none") == []

    def test_the_newest_results_have_numbers_and_flags(self, store: AppendingStore) -> None:
        """Of a text nothing is read; the place of a task in its evaluation does not matter."""
        values: list[tuple[Any, Any]] = [
            (4, 3.5),
            (True, False),
            ("a long text", None),
            (10**400, [1]),
        ]
        for at, (expected, actual) in enumerate(values):
            task = TaskRow(
                task_id="t1", task_type="LLMJudge", outcome=Outcome.FAILED, expected=expected,
                actual=actual, message="why", stated_score=0.75 if at == 1 else None,
            )  # fmt: skip
            other = TaskRow(task_id="t0", task_type="A", outcome=Outcome.PASSED, actual=at)
            tasks = (task, other) if at % 2 else (other, task)
            store.append_evaluations([evaluation(f"u{at}", Outcome.FAILED, tasks)]).result()
        query = NewestResultsQuery(
            space=SPACE, alias="answers", task_id="t1", limit=9, has_values=True
        )
        found = [(each.task.expected, each.task.actual) for each in store.newest_results(query)]
        assert found[::-1] == [(4, 3.5), (True, False), (None, None), (10**400, None)]
        assert store.newest_results(query)[2].task.score == 0.75
