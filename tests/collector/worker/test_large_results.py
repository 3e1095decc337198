"""Results that a profile makes of a record: however large, a batch of them fits into memory."""

import tracemalloc
from typing import Any

import pytest
from pydantic import JsonValue

from collector.worker.profiles import RegisteredProfile
from collector.worker.ready import Ready
from collector.worker.records import Judged, judge
from collector.worker.stored_values import (
    MESSAGE_CHARACTERS,
    Keeper,
    most_characters,
    stored_value,
)
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.wire import read_wire_profile
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord
from tests.contracts.store_data import record

_MEBI = 2**20


def registered(tasks: list[AssertionTask]) -> RegisteredProfile:
    """A profile as a stranger sends it."""
    sent = AgentEvalProfile(tasks, alias="large").model_dump_json().encode()
    return RegisteredProfile(
        space="default", profile=read_wire_profile(sent), is_active=True, registered_ns=1
    )


@pytest.mark.parametrize(
    "tasks",
    [
        [AssertionTask(f"t{at}", "a", "${a}${a}${a}", Op.Contains) for at in range(256)],
        [AssertionTask("t", "a", ["${a}"] * 1_000, Op.Equals)],
    ],
    ids=["many-texts", "one-list"],
)
def test_a_small_profile_makes_no_gigabytes_of_a_large_text(tasks: list[AssertionTask]) -> None:
    """They took 1.6 GB and 4 GB for 2 MiB, and again at every start."""
    plan = registered(tasks).profile.plan
    large = EvalRecord({"a": "x" * (2 * _MEBI)})

    tracemalloc.start()
    try:
        made = Judged.of(evaluate_record(plan, large))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < 80 * _MEBI
    most = most_characters(len(tasks))
    assert all(len(str(task.expected)) < most + 100 for task in made.tasks)
    assert {task.reason for task in made.tasks} <= {None, Reason.LIMIT.value}


def test_a_batch_of_large_results_is_cut_as_it_is_made() -> None:
    """Each of 60 records makes 6 MB of texts: whole, they would be 360 MB at the end."""
    tasks = [AssertionTask(f"t{at}", "a", "${a}${a}${a}", Op.Contains) for at in range(50)]
    known = registered(tasks)
    rows = [record(f"u{at}", context={"a": "xy" * 20_000}) for at in range(60)]
    ready = [Ready(record=row) for row in rows]

    tracemalloc.start()
    try:
        evaluations = judge(ready, known, {}, seq=1, now_ns=1)
        in_use, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    most = most_characters(50)
    # The note of what is left out has a character that makes all of a text two bytes wide.
    assert in_use < 60 * 50 * 2 * (most + 1_000)
    assert peak < in_use + 40 * _MEBI
    assert {task.outcome for task in evaluations[7].tasks} == {Outcome.FAILED}
    assert all(len(str(task.expected)) < most + 100 for task in evaluations[7].tasks)


def test_a_value_of_which_little_is_stored_is_not_written_whole() -> None:
    """A hundred million characters, of which a text is shared: its ends are read."""
    text = "ab" * 50_000
    value: Any = [{"k": [text] * 1_000, "n": at} for at in range(3)]

    tracemalloc.start()
    try:
        found = stored_value(value, 40)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert found == (
        '[{"k":["abababababab [… the middle of this JSON, which is no whole value any more, left '
        'out …] ababababab"],"n":2}]'
    )
    assert peak < 100_000


def test_what_several_tasks_found_is_cut_once_and_messages_are_cut_too() -> None:
    keeper = Keeper(100)
    value: JsonValue = "x" * 1_000
    spec = TaskSpec(task_id="t", task_type="Assertion", operator="Equals")
    result = EvalTaskResult(spec, Outcome.FAILED, None, value, value, "m" * 2_000)

    assert keeper.value(value) is keeper.value(value)
    assert keeper.message(result.message).startswith("m" * (MESSAGE_CHARACTERS // 2) + " [… 1,500")
