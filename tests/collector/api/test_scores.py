"""Scores over HTTP: beside every outcome, summed up by task, in exports; null is not 0."""

import csv
import io
import json
from typing import Any

import duckdb
import pytest

from collector.care.table_export import export_tables
from collector.store.commit import Commit
from collector.store.rows import TaskRow
from scouter.client.client import ScouterClient
from scouter.evaluate.outcome import Outcome
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, evaluation, span
from tests.support.served import serve
from tests.support.store_appends import AppendingStore

PROTOBUF = {"Content-Type": "application/x-protobuf"}
TASKS = (
    TaskRow(task_id="right", task_type="Assertion", outcome=Outcome.FAILED, actual=41),
    TaskRow(task_id="lost", task_type="Assertion", outcome=Outcome.ERRORED, reason="missing_path"),
    TaskRow(task_id="tone", task_type="LLMJudge", outcome=Outcome.PASSED, actual=4.5),
    TaskRow(task_id="vote", task_type="LLMJudge", outcome=Outcome.PASSED, actual=4,
            stated_score=3.5),
    TaskRow(task_id="none", task_type="LLMJudge", outcome=Outcome.FAILED, actual=0),
)  # fmt: skip
SCORES = {"right": 0.0, "lost": None, "tone": 4.5, "vote": 3.5, "none": 0.0}


@pytest.fixture
def service(start: Start) -> Service:
    """Two evaluations, on records that nobody sent; in the second one the vote is of 2.5."""
    service = start()
    other = (*TASKS[:3], TaskRow(task_id="vote", task_type="LLMJudge", outcome=Outcome.FAILED,
                                 actual=2, stated_score=2.5), TASKS[4])  # fmt: skip
    rows = [
        evaluation("u1", Outcome.ERRORED, TASKS, trace_id=TRACE),
        evaluation("u2", Outcome.ERRORED, other),
    ]
    spans = encode_request([span(1)]).SerializeToString()
    service.http.post("/v1/traces", content=spans, headers=PROTOBUF)
    service.get("/api/v1/traces")  # the worker has read them
    service.collector.store.commit(Commit(evaluations=rows))
    return service


def by_task(tasks: list[Any]) -> dict[str, Any]:
    return {each["task_id"]: each["score"] for each in tasks}


def test_an_evaluation_has_the_scores_of_its_tasks(service: Service) -> None:
    found = service.get("/api/v1/evaluations", trace_id=TRACE)["items"]
    assert [by_task(each["tasks"]) for each in found] == [SCORES]
    assert by_task(service.get(f"/api/v1/traces/{TRACE}/view")["view"]["tasks"]) == SCORES


def test_tasks_have_mean_and_deviation(service: Service) -> None:
    """Of 3.5 and 2.5: 3 and the root of a half. Of equal scores 0; of no score nothing."""
    found = by_task(service.get("/api/v1/tasks")["items"])
    assert found["vote"] == {"mean": 3.0, "sd": pytest.approx(0.5**0.5), "n": 2, "n_error": 0}
    assert found["tone"] == {"mean": 4.5, "sd": 0.0, "n": 2, "n_error": 0}
    assert found["right"] == {"mean": 0.0, "sd": 0.0, "n": 2, "n_error": 0}
    assert found["lost"] == {"mean": None, "sd": None, "n": 0, "n_error": 2}
    hour = {"since": "1970-01-01T00:00:00Z", "until": "1970-01-01T01:00:00Z", "bucket": "1h"}
    assert by_task(service.get("/api/v1/tasks/series", **hour)["items"]) == found


def test_the_client_reads_them(service: Service) -> None:
    with serve(service.collector.app) as address, ScouterClient(address) as client:
        (one,) = client.evaluations(trace_id=TRACE)
        rates = {each.task_id: each.score for each in client.tasks().items}
    assert {task.task_id: task.score for task in one.tasks} == SCORES
    assert (rates["vote"].mean, rates["vote"].n, rates["lost"].n_error) == (3.0, 2, 2)
    assert rates["lost"].mean is None


def test_exports_have_them(service: Service) -> None:
    lines = service.http.get("/api/v1/export/task_results").text.splitlines()
    assert by_task([json.loads(line) for line in lines[5:]]) == SCORES
    answer = service.http.get("/api/v1/export/task_results", params={"format": "csv"})
    rows = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert [each["score"] for each in rows[5:]] == ["0.0", "", "4.5", "3.5", "0.0"]


def test_tables_have_them(tmp_path: Any) -> None:
    store = AppendingStore(tmp_path / "data")
    store.append_evaluations([evaluation("u1", Outcome.ERRORED, TASKS)]).result()
    store.close()
    files = {file.stem: file for file in export_tables(tmp_path / "data", tmp_path / "tables")}
    with duckdb.connect() as connection:
        sql = "SELECT task_id, score FROM read_parquet(?)"
        found = connection.execute(sql, [str(files["task_results"])]).fetchall()
    assert dict(found) == SCORES
