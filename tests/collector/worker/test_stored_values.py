"""Values that an evaluation keeps: the store can take them, whatever a record holds."""

from pathlib import Path
from typing import Any

import pytest
from pydantic import JsonValue

from collector.store.rows import TaskRow
from collector.worker.stored_values import most_characters, parts_of_rows, stored_value
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.conftest import Start
from tests.contracts.store_data import evaluation

_MEBI = 2**20


def profile(folder: Path, tasks: int) -> str:
    contains = ComparisonOperator.Contains
    made = AgentEvalProfile(
        [AssertionTask(f"t{at}", "text", "needle", contains) for at in range(tasks)], alias="wide"
    )
    return str(made.save_to_json(folder / "wide.json"))


def test_a_large_value_that_many_tasks_find_holds_nobody_up(start: Start, tmp_path: Path) -> None:
    """Whole, the evaluation had 192 MB: the store could not take it, nor anything behind it."""
    service = start(profile=[profile(tmp_path, 64)])
    service.send({"uid": "large", "profile": "wide", "context": {"text": "ab" * 1_500_000}})
    service.send({"uid": "small", "profile": "wide", "context": {"text": "a needle"}})
    service.wait_for(2)
    found = {item["uid"]: item for item in service.get("/api/v1/evaluations")["items"]}
    assert found["small"]["outcome"] == "passed"
    assert {task["actual"] for task in found["small"]["tasks"]} == {"a needle"}
    large = found["large"]
    assert (large["outcome"], len(large["tasks"])) == ("failed", 64)
    # Of 2**18 characters, 64 tasks have 2048 each for what they found; the note is beyond that.
    half = "ab" * 512
    note = " [… 2,997,952 characters left out …] "
    assert {task["actual"] for task in large["tasks"]} == {f"{half}{note}{half}"}
    assert service.http.get("/readyz").status_code == 200


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (10**12, 10**12),
        ("x" * 10, "x" * 10),
        ("x" * 11, "xxxxx [… 1 characters left out …] xxxxx"),
        ([1, 2, 3, 4], [1, 2, 3, 4]),
        ([], []),
        (
            [1, 2, 3, 4, 5],
            "[1,2, [… 1 characters of JSON; the rest is no whole value left out …] ,4,5]",
        ),
        ({"a": "é"}, {"a": "é"}),
    ],
)  # fmt: skip
def test_a_value_within_its_share_stays_whole(value: JsonValue, expected: JsonValue) -> None:
    """Ten characters, of a list and an object those of their JSON."""
    assert stored_value(value, 10) == expected


@pytest.mark.parametrize(("tasks", "most"), [(0, 131_072), (1, 131_072), (3, 43_690), (256, 512)])
def test_the_share_of_a_value_depends_on_the_number_of_tasks(tasks: int, most: int) -> None:
    """Each task has two values, found and expected."""
    assert most_characters(tasks) == most


def rows(count: int, size: int) -> list[Any]:
    task = TaskRow(task_id="t", task_type="Assertion", outcome=Outcome.PASSED, actual="x" * size)
    return [evaluation(f"u{at}", tasks=(task,)) for at in range(count)]


@pytest.mark.parametrize(
    ("count", "size", "parts"),
    [
        (0, 0, []),
        (32, _MEBI, [32]),  # as many as fit, whatever their size
        (33, _MEBI // 4 - 1000, [32, 1]),
        (100, 10, [100]),
        (40, 3 * _MEBI, [2] * 20),
    ],
)
def test_evaluations_are_stored_in_parts_that_fit(count: int, size: int, parts: list[int]) -> None:
    """Each weighs its characters and 1,000 more; eight MiB are stored together."""
    given = rows(count, size)
    found = list(parts_of_rows(given))
    assert [len(part) for part in found] == parts
    assert [row for part in found for row in part] == given
