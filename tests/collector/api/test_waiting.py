"""Why a record is not evaluated, for every state that it may have."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.api.records import why_not_evaluated
from collector.store.rows import TaskRow
from scouter.evaluate.outcome import Outcome
from tests.contracts.store_data import SPACE, evaluation, letter, record
from tests.support.store_appends import AppendingStore


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AppendingStore]:
    store = AppendingStore(tmp_path)
    store.append_records([record()]).result()
    yield store
    store.close()


def why(store: AppendingStore) -> str:
    found = store.record_history(SPACE, "u1")
    assert found is not None
    return why_not_evaluated(store, found)


def row(task_id: str, outcome: Outcome, reason: str = "") -> TaskRow:
    return TaskRow(task_id=task_id, task_type="LLMJudge", outcome=outcome, reason=reason)


def test_one_that_is_in_line(store: AppendingStore) -> None:
    assert why(store) == "it has no trace to wait for, and is in line to be evaluated"


def test_one_that_waits_for_a_judge(store: AppendingStore) -> None:
    tasks = (row("tone", Outcome.PENDING), row("right", Outcome.PASSED))
    store.append_evaluations([evaluation("u1", Outcome.PENDING, tasks)]).result()
    assert why(store) == "a judge has yet to answer, or a task before it: tone"


def test_one_whose_tasks_were_skipped(store: AppendingStore) -> None:
    skipped = Outcome.SKIPPED
    tasks = (row("a", skipped, "budget"), row("b", skipped, "sampled"), row("c", skipped, "budget"))
    store.append_evaluations([evaluation("u1", skipped, tasks)]).result()
    assert why(store) == "all of its tasks were skipped: budget (2), sampled (1)"


def test_a_dead_letter(store: AppendingStore) -> None:
    gone = letter(uid="u1", was_accepted=True, reason="unknown_profile")
    store.append_dead_letters([gone]).result()
    assert why(store) == "it is a dead letter, and is evaluated only if that is replayed"


def test_one_that_is_evaluated(store: AppendingStore) -> None:
    store.append_evaluations([evaluation("u1")]).result()
    assert why(store) == ""
