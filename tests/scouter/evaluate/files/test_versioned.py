"""Results in files: whole or not at all, and the same again when they are loaded."""

import os
import stat
from pathlib import Path

import pytest
from pydantic import JsonValue

from scouter.errors import FileFormatError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.files.versioned import Stored
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.run import ScenarioInfo
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.model.record import EvalRecord

HALF = "\ud800"
"""Half a character: Python has it, UTF-8 does not."""


class Note(Stored, frozen=True):
    """The smallest thing that can be stored."""

    text: str = ""


def replay_of(results: EvalResults) -> ScenarioEvalResults:
    """A replay of one scenario with these results in both levels."""
    results = EvalResults(results.records, ["s"] * len(results.records))
    judged = [ScenarioResult.of("s", "query", results.records[0].tasks, results)]
    return ScenarioEvalResults(
        dataset_results={"alias": results},
        scenario_results=tuple(judged),
        metrics=EvalMetrics.of({"alias": results}, judged),
        scenarios=(ScenarioInfo(scenario_id="s", initial_query="query"),),
    )


def called_with(arguments: str) -> dict[str, JsonValue]:
    """A vendor's response with one tool call, whose arguments are a text."""
    call: JsonValue = {"id": "1", "function": {"name": "f", "arguments": arguments}}
    return {"choices": [{"message": {"tool_calls": [call]}}]}


ARGUMENT = AgentAssertionTask(
    id="t",
    assertion=AgentAssertion.tool_argument("f", "k"),
    operator=ComparisonOperator.Equals,
    expected_value=1,
)


def read(expected: JsonValue = 1) -> AssertionTask:
    return AssertionTask(
        id="t", context_path="x", operator=ComparisonOperator.Equals, expected_value=expected
    )


@pytest.mark.parametrize(
    ("context", "task"),
    [
        pytest.param({"x": HALF}, read(), id="half a character"),
        pytest.param({"x": f"\u00e9{HALF}", HALF: 1}, read(), id="half a key"),
        pytest.param({"x": "a"}, read(f"b{HALF}"), id="half a character expected"),
        pytest.param({"x": float("nan")}, read(), id="NaN"),
        pytest.param(called_with('{"k": NaN}'), ARGUMENT, id="NaN argument"),
        pytest.param(called_with('{"k": 1e999}'), ARGUMENT, id="argument beyond floats"),
        pytest.param(
            called_with('{"k": ' + "[" * 250 + "]" * 250 + "}"), ARGUMENT, id="250 levels deep"
        ),
        pytest.param({"x": 10**3000}, read(), id="3000 digits"),
    ],
)
def test_what_was_evaluated_can_be_stored(
    context: dict[str, object], task: Task, tmp_path: Path
) -> None:
    """Results of a record with any context survive a file."""
    results = replay_of(EvalDataset([EvalRecord(context)], [task]).evaluate())
    results.save(tmp_path / "run.json")
    loaded = ScenarioEvalResults.load(tmp_path / "run.json")
    again = tmp_path / "again.json"
    loaded.save(again)
    assert again.read_bytes() == (tmp_path / "run.json").read_bytes()
    assert ScenarioEvalResults.load(again) == loaded
    assert loaded.metrics == results.metrics
    assert not results.compare_to(loaded).regressed


def test_results_made_by_hand_are_made_writable(tmp_path: Path) -> None:
    """Halves become U+FFFD, numbers that JSON lacks become null."""
    task = EvalTaskResult.of(
        task_id="t",
        task_type="Assertion",
        outcome="passed",
        message=f"{HALF} and \u00e9",
        actual=[float("nan"), HALF],
    )
    record = RecordResult("u", "r", "", None, record_outcome([task]), (task,), 0, 0)
    replay_of(EvalResults([record])).save(tmp_path / "run.json")
    loaded = ScenarioEvalResults.load(tmp_path / "run.json")
    [task] = loaded.dataset_results["alias"].records[0].tasks
    assert (task.message, task.actual) == ("\ufffd and \u00e9", [None, "\ufffd"])
    assert loaded.scenario_results[0].task_results[0].message == "\ufffd and \u00e9"


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk fills up half-way: the baseline is as it was, and nothing is left beside it."""
    path = tmp_path / "baseline.json"
    Note(text="old").save(path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            Note(text="new").save(path)
    assert Note.load(path).text == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    """Only the content is new."""
    path, link = tmp_path / "real.json", tmp_path / "link.json"
    Note(text="old").save(path)
    path.chmod(0o640)
    link.symlink_to(path)
    Note(text="new").save(link)
    assert link.is_symlink()
    assert Note.load(path).text == "new"
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_results_of_records_have_the_same_two_methods(tmp_path: Path) -> None:
    path = tmp_path / "results.txt"
    task = AssertionTask(id="t", context_path="x", operator="Equals", expected_value="é")
    results = EvalDataset([EvalRecord({"x": "é"}), EvalRecord({"x": "日"})], [task]).evaluate()
    results.save(path)
    loaded = EvalResults.load(path)
    assert loaded == results
    assert loaded.provenance == results.provenance
    assert not loaded.compare_to(results).regressed
    half = EvalDataset([EvalRecord({"x": HALF}, id="h")], [task]).evaluate()
    half.save(str(path))
    assert EvalResults.load(path)["h"].record_id == "h"
    path.write_text('{"schema_version": 1,\n"results": 3}')
    with pytest.raises(FileFormatError, match=f"{path}, field 'results'"):
        EvalResults.load(path)


def test_results_of_two_kinds_are_not_compared() -> None:
    task = AssertionTask(id="t", context_path="x", operator="Equals", expected_value=1)
    results = EvalDataset([EvalRecord({"x": 1})], [task]).evaluate()
    replay = replay_of(results)
    for one, other in ((results, replay), (replay, results), (results, None)):
        with pytest.raises(TypeError, match=f"{type(one).__name__} with {type(other).__name__}"):
            one.compare_to(other)  # type: ignore[arg-type]
