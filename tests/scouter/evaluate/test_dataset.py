"""Datasets and their results: order, look-up, counts, JSON, tables, frames."""

import asyncio
import contextlib
import io
import json
import platform
import re
import time
from typing import Any

import pytest

from scouter.errors import ConfigError, DataError
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.record_result import pass_rate, record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from tests.scouter.evaluate.spans_support import span

TASKS = [
    AssertionTask("gate", "kind", "answer", Op.Equals, condition=True),
    AssertionTask("score", "score", 5, Op.GreaterThan, depends_on=["gate"]),
    AssertionTask("text", "text", 2, Op.HasLengthGreaterThan, depends_on=["gate"]),
]


def dataset() -> EvalDataset:
    """Four records: all passed, one failed, one errored, all behind a closed gate."""
    return EvalDataset(
        [
            EvalRecord({"kind": "answer", "score": 9, "text": "abc"}, id="z"),
            EvalRecord({"kind": "answer", "score": 1, "text": "abc"}, id="a"),
            EvalRecord({"kind": "answer", "text": "абв"}, id="ü" * 20),
            EvalRecord({"kind": "chat"}),
        ],
        TASKS,
    )


def test_order_and_outcomes() -> None:
    data = dataset()
    results = data.evaluate()

    assert [r.record_uid for r in results] == [record.uid for record in data]
    assert [str(r.outcome) for r in results] == ["passed", "failed", "errored", "failed"]
    assert [(r.eval_set.passed_tasks, r.eval_set.failed_tasks) for r in results] == [
        (2, 0),
        (1, 1),
        (1, 1),
        (0, 0),
    ]
    assert [r.eval_set.pass_rate for r in results] == [1.0, 0.5, 0.5, 0.0]
    assert [r.task_count for r in results] == [3, 3, 3, 1]
    assert (results.successful_count, results.failed_count) == (3, 1)
    assert results.errored_tasks == [data.records[2].uid]
    # 12 results: gates 3 passed 1 failed; 2+1+1 passed, 1 failed, 1 errored, 2 skipped
    assert results.counts == {"passed": 7, "failed": 2, "errored": 1, "skipped": 2}
    assert results.pass_rate == pytest.approx(7 / 12)


def test_look_up() -> None:
    data = dataset()
    results = data.evaluate()
    assert results["a"].record_id == "a"
    assert results[data.records[3].uid].record_id == ""
    assert results["a"].record["score"].actual == 1
    for error in (KeyError, RuntimeError, DataError):
        with pytest.raises(error, match=r"Missing key: nope.*'z', 'a'"):
            _ = results["nope"]
    with pytest.raises(KeyError, match="'gate', 'score', 'text'"):
        _ = results["a"].record["nope"]


def test_a_record_id_that_repeats_is_not_guessed() -> None:
    data = EvalDataset([EvalRecord(id="r"), EvalRecord(id="r")], TASKS)
    results = data.evaluate()
    assert len(results) == 2
    with pytest.raises(KeyError, match="2 records have the id 'r'"):
        _ = results["r"]
    assert results[data.records[1].uid].record_uid == data.records[1].uid


def test_errors_are_reported() -> None:
    result = dataset().evaluate()["ü" * 20]
    assert not result.success
    assert result.error_message is not None
    assert "task 'score'" in result.error_message
    assert "'kind', 'text'" in result.error_message
    assert result.task_count == 3
    assert dataset().evaluate()["z"].error_message is None


def test_what_is_no_record_is_refused() -> None:
    records: list[Any] = [EvalRecord({}), {"kind": "answer"}]

    with pytest.raises(TypeError, match=r"records\[1\]: expected an EvalRecord, got dict"):
        EvalDataset(records, TASKS)


def test_a_result_tells_its_record_and_writes_itself() -> None:
    result = dataset().evaluate()["z"]

    assert result.eval_set.record_uid == result.record_uid
    assert json.loads(result.record.tasks[1].model_dump_json()) == {
        "task_id": "score",
        "task_type": "Assertion",
        "outcome": "passed",
        "reason": None,
        "score": 1.0,
        "expected": 5,
        "actual": 9,
        "message": "'score': GreaterThan 5 holds",
        "operator": "GreaterThan",
        "condition": False,
        "stage": 1,
        "assertion": "score",
    }


def test_json_round_trip() -> None:
    results = dataset().evaluate()
    back = EvalResults.model_validate_json(results.model_dump_json())

    assert back == results
    assert back["a"].record["score"].message == results["a"].record["score"].message
    assert back.records[0].tasks[1].spec is back.records[1].tasks[1].spec
    with_scenarios = EvalResults(results.records, ["s1", "s1", "s2", None])
    assert EvalResults.model_validate_json(with_scenarios.model_dump_json()) == with_scenarios
    assert with_scenarios.aligned_results[2].scenario_id == "s2"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "the text"),
        ('{"schema_version": 1}', "results"),
        ('{"schema_version": 99, "results": []}', "update Scouter"),
        ('{"schema_version": 1, "results": [{"record_uid": 5}]}', r"results.0.record_uid"),
    ],
)
def test_what_is_no_result_file(text: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        EvalResults.model_validate_json(text)


def test_tables_go_to_the_standard_output(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "250")
    results = dataset().evaluate()
    for show_tasks in (False, True):
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            results.as_table(show_tasks=show_tasks)
        text = out.getvalue()
        assert "ü" * 20 in text
        assert ("GreaterThan" in text) is show_tasks
    assert results["a"].record_id == "a"  # printing changes nothing


def test_a_table_counts_a_closed_gate_as_a_failure() -> None:
    """What it says of the record, its counts say too; `eval_set` has the original's numbers."""
    found = EvalDataset([EvalRecord({"kind": "chat"}, id="r")], TASKS).evaluate()
    (row,) = [cells for cells in _cells(found) if "r" in cells]

    assert row[row.index("failed") :][:5] == ["failed", "3", "0", "1", "0.0%"]
    assert (found["r"].eval_set.failed_tasks, found["r"].eval_set.total_tasks) == (0, 0)


def _cells(results: EvalResults) -> list[list[str]]:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        results.as_table()
    return [
        [cell.strip() for cell in re.split("[│┃]", line)] for line in out.getvalue().splitlines()
    ]


def test_each_record_sees_only_its_own_trace() -> None:
    traces = ["a" * 32, "b" * 32]
    spans = [
        span(1, "x", trace=traces[0]),
        span(1, "x", trace=traces[1]),
        span(2, "x", trace=traces[1]),
    ]
    records = [EvalRecord(trace_id=trace) for trace in (*traces, "c" * 32, None)]
    task = TraceAssertionTask("n", TraceAssertion.trace_span_count(), 1, Op.Equals)
    results = EvalDataset(records, [task], spans=iter(spans)).evaluate()

    assert [r.tasks[0].actual for r in results.records] == [1, 2, None, None]
    assert [str(r.outcome) for r in results.records] == ["passed", "failed", "errored", "errored"]


def test_evaluation_works_inside_a_running_loop() -> None:
    async def main() -> EvalResults:
        return dataset().evaluate()

    assert len(asyncio.run(main())) == 4


def test_updated_contexts_make_a_new_dataset() -> None:
    data = dataset()
    changed = data.with_updated_contexts_by_id({"a": {"score": 8}})

    assert changed.evaluate()["a"].outcome is Outcome.PASSED
    assert data.evaluate()["a"].outcome is Outcome.FAILED
    assert changed.records[1].uid == data.records[1].uid
    with pytest.raises(DataError, match="'nope'"):
        data.with_updated_contexts_by_id({"nope": {}})
    listed = EvalDataset([EvalRecord([1], id="l")], TASKS)
    with pytest.raises(DataError, match="no object"):
        listed.with_updated_contexts_by_id({"l": {"x": 1}})


def test_plan_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    dataset().print_execution_plan()
    assert capsys.readouterr().out == (
        "stage 0\n"
        "  gate (Assertion Equals, gate)\n"
        "stage 1\n"
        "  score (Assertion GreaterThan, after gate)\n"
        "  text (Assertion HasLengthGreaterThan, after gate)\n"
    )


def test_tasks_by_type() -> None:
    data = dataset()
    assert [t.id for t in data.assertion_tasks] == ["gate", "score", "text"]
    assert data.trace_assertion_tasks == data.agent_assertion_tasks == []
    assert len(data) == 4
    with pytest.raises(ConfigError, match="no tasks"):
        EvalDataset([], [])


def result_of(outcome: str) -> EvalTaskResult:
    return EvalTaskResult.of(task_id="t", task_type="Assertion", outcome=outcome)


@pytest.mark.parametrize(
    ("tasks", "outcome"),
    [
        (["passed", "passed"], "passed"),
        (["passed", "skipped"], "passed"),
        (["skipped", "failed", "passed"], "failed"),
        (["failed", "passed", "failed"], "failed"),
        (["failed", "errored", "passed"], "failed"),
        (["errored", "passed"], "errored"),
        (["failed", "pending", "errored"], "pending"),
        (["skipped", "skipped"], "skipped"),
        ([], "skipped"),
    ],
)
def test_outcome_of_a_record(tasks: list[str], outcome: str) -> None:
    assert record_outcome(map(result_of, tasks)) == outcome


def test_pass_rate_counts_errors_and_gates_against() -> None:
    counts = {Outcome.PASSED: 3, Outcome.FAILED: 1, Outcome.ERRORED: 1, Outcome.SKIPPED: 1}
    assert pass_rate(counts) == 0.5
    assert pass_rate({}) == 0.0


def test_a_result_from_its_fields() -> None:
    result = EvalTaskResult.of(
        task_id="t", task_type="Assertion", outcome="errored", reason="type", expected=1,
        actual="x", message="words", operator="Equals", condition=True, stage=2,
    )  # fmt: skip
    assert EvalTaskResult.of(**result.to_json()) == result  # type: ignore[arg-type]
    assert (result.value, result.passed, result.message) == (0.0, False, "words")
    assert "errored (type)" in repr(result)


def test_provenance_travels_in_the_file() -> None:
    before = time.time_ns()
    results = dataset().evaluate()
    after = time.time_ns()

    found = EvalResults.model_validate_json(results.model_dump_json()).provenance

    assert found is not None
    assert before <= found.started_ns <= found.ended_ns <= after
    assert found.profile_digests == {"": dataset().plan.digest}
    assert found.python_version == platform.python_version()


def test_a_notebook_shows_the_counts_and_escapes_ids() -> None:
    results = EvalDataset([EvalRecord({"kind": "<b>"}, id="<script>")], TASKS[:1]).evaluate()

    page = results._repr_html_()  # pyright: ignore[reportPrivateUsage]  # notebooks call it

    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "1 records, pass rate 0.0% (0 passed, 1 failed" in page
    assert "&quot;&lt;b&gt;&quot;" in results["<script>"]._repr_html_()  # pyright: ignore[reportPrivateUsage]
