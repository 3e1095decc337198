"""Why a record is not evaluated, for every state that it may have."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from collector.api.records import why_not_evaluated
from collector.store.rows import TaskRow
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import Resource, Span
from tests.contracts.store_data import SPACE, TRACE, evaluation, letter, record, span
from tests.support.store_appends import AppendingStore
from tests.support.worker_room import registry_of

READS_CONTEXT: Final = AssertionTask(id="a", operator=Op.IsNotEmpty, context_path="answer")
READS_SPANS: Final = TraceAssertionTask(
    id="s", assertion=TraceAssertion.trace_span_count(), operator=Op.GreaterThan, expected_value=0
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[AppendingStore]:
    store = AppendingStore(tmp_path)
    store.append_records([record()]).result()
    yield store
    store.close()


def why(store: AppendingStore, *tasks: Task, uid: str = "u1") -> str:
    found = store.record_history(SPACE, uid)
    assert found is not None
    profiles = [AgentEvalProfile(alias="answers", tasks=tasks)] if tasks else []
    return why_not_evaluated(store, registry_of({SPACE: profiles}), found)


def row(task_id: str, outcome: Outcome, reason: str = "") -> TaskRow:
    return TaskRow(task_id=task_id, task_type="LLMJudge", outcome=outcome, reason=reason)


def test_one_that_is_in_line(store: AppendingStore) -> None:
    """One without a trace, and one whose profile reads no spans."""
    in_line = "it waits for no span, and is in line to be evaluated"
    traced = record("u2", profile_uid="", trace_id="a" * 32)
    store.append_records([record("u3", profile_uid=""), traced]).result()
    assert why(store, READS_CONTEXT, uid="u2") == in_line
    assert why(store, READS_SPANS, uid="u3") == in_line
    assert why(store, READS_SPANS, uid="u2").startswith("no span of its trace has come; ")


ROOT: Final = span(1)
CHILD: Final = span(2, parent_span_id=f"{1:016x}")
STRAY: Final = span(3, parent_span_id=f"{9:016x}")
COUNTED: Final = span(
    1, resource=Resource(attributes={PROCESS_ID: "p"}), attributes={PROCESS_SPAN_COUNT: 3}
)


@pytest.mark.parametrize(
    ("spans", "lacks", "until"),
    [
        ([CHILD], "lacks 1 span that others name as parent and a root", "the trace is quiet, or"),
        ([ROOT, STRAY], "lacks 1 span that others name as parent", "that has come, or"),
        ([COUNTED], "lacks spans that its processes counted", "that has come, or"),
        ([ROOT, CHILD], "lacks none that is known of", "no more come for a moment"),
    ],
)
def test_one_that_waits_for_spans(
    store: AppendingStore, spans: list[Span], lacks: str, until: str
) -> None:
    """Where spans are known to be missing, silence does not end the wait: `docs/join.md`."""
    store.append_records([record("u2", profile_uid="", trace_id=TRACE)]).result()
    store.append_spans(SPACE, spans, 7).result()
    said = why(store, READS_SPANS, uid="u2")
    assert lacks in said
    assert f"; it is evaluated when {until}" in said


def test_one_that_waits_for_its_profile(store: AppendingStore) -> None:
    assert why(store).startswith("no profile 'answers' is registered and active; ")


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
