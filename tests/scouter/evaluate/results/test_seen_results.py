"""Fields of a task's result about its record and the time, read through the record."""

import datetime
import json
import time
from pathlib import Path

from scouter.drift.profile import AgentEvalProfile, Drifter
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import RecordResult
from scouter.evaluate.results.rows import EvalSet
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.model.record import EvalRecord
from scouter.replay.runner import EvalRunner

BEGIN = datetime.datetime(2026, 3, 1, 12, 0, 0, tzinfo=datetime.UTC)
END = BEGIN + datetime.timedelta(milliseconds=1500)
WINDOW = (int(BEGIN.timestamp()) * 10**9, int(BEGIN.timestamp()) * 10**9 + 1_500_000_000)
ONE = AssertionTask("one", "n", 1, ComparisonOperator.Equals)


def record_result(task: EvalTaskResult) -> RecordResult:
    return RecordResult("u1", "r1", "s1", None, Outcome.PASSED, (task,), 5, 7)


def passed() -> EvalTaskResult:
    return EvalTaskResult.of(task_id="one", task_type="Assertion", outcome="passed")


def test_times_are_those_of_the_evaluation() -> None:
    task = EvalSet(record_result(passed()), WINDOW).records[0]

    assert (task.start_time, task.end_time, task.created_at) == (BEGIN, END, END)
    assert task.record_uid == "u1"
    assert task == passed()


def test_they_are_written_with_the_result() -> None:
    """The four names that the original writes beside ours."""
    plain = json.loads(passed().model_dump_json())
    seen = json.loads(EvalSet(record_result(passed()), WINDOW).records[0].model_dump_json())

    assert seen == plain | {
        "created_at": "2026-03-01T12:00:01.500000+00:00",
        "start_time": "2026-03-01T12:00:00+00:00",
        "end_time": "2026-03-01T12:00:01.500000+00:00",
        "record_uid": "u1",
    }


def test_a_bare_result_knows_neither() -> None:
    task = passed()

    assert (task.record_uid, task.created_at, task.start_time, task.end_time) == (
        "", None, None, None,
    )  # fmt: skip


def test_a_message_is_not_made_before_somebody_reads_it() -> None:
    spec = EvalDataset([EvalRecord()], [ONE]).plan.specs[0]
    failed = EvalTaskResult(spec, Outcome.FAILED, None, 1, 2)
    seen = EvalSet(record_result(failed)).records[0]

    assert seen.given_message is None
    assert seen.message == failed.message
    assert seen.start_time is None


def times(results: EvalResults, uid: str) -> tuple[str, int, int]:
    task = results[uid].eval_set.records[0]
    assert task.window is not None
    return task.record_uid, *task.window


def test_a_dataset_knows_its_time_also_from_a_file(tmp_path: Path) -> None:
    """Read by key and in order; the times of results with provenance are the provenance's."""
    record = EvalRecord({"n": 1})
    before = time.time_ns()
    results = EvalDataset([record], [ONE]).evaluate()
    uid, start, end = times(results, record.uid)

    assert uid == record.uid
    assert before <= start <= end <= time.time_ns()
    assert [row.eval_set.records[0].window for row in results] == [(start, end)]
    assert results.provenance is not None
    assert (results.provenance.started_ns, results.provenance.ended_ns) == (start, end)
    results.save(tmp_path / "results.json")
    assert times(EvalResults.load(tmp_path / "results.json"), record.uid) == (uid, start, end)


def test_drift_results_know_it() -> None:
    record = EvalRecord({"n": 1})
    found = Drifter().compute_drift(record, AgentEvalProfile([ONE], alias="a"))
    task = found.records[0].records[0]

    assert task.record_uid == record.uid
    assert task.start_time is not None


def test_the_parts_of_a_replay_know_it_also_from_a_file(tmp_path: Path) -> None:
    """Parts have no provenance of their own, so the times are written with them."""
    record = EvalRecord({"n": 1})
    scenarios = EvalScenarios([EvalScenario("ask", [ONE.model_copy(update={
        "context_path": "response.n"})], id="s")])  # fmt: skip
    runner = EvalRunner(scenarios, {"a": AgentEvalProfile([ONE], alias="a")})
    runner.collect_scenario_data({"a": [record]}, {"n": 1}, scenarios.scenarios[0])
    before = time.time_ns()
    results = runner.evaluate()
    after = time.time_ns()
    results.save(tmp_path / "run.json")

    for each in (results, ScenarioEvalResults.load(tmp_path / "run.json")):
        own = each.scenario_results[0].eval_results
        assert own is not None
        [row] = own.aligned_results
        for found, uid in ((each.dataset_results["a"], record.uid), (own, row.record_uid)):
            seen, start, end = times(found, uid)
            assert seen == uid
            assert before <= start <= end <= after
    loaded = ScenarioEvalResults.load(tmp_path / "run.json")
    assert loaded.dataset_results["a"].window == results.dataset_results["a"].window
