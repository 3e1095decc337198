"""`when` in the collector: what does not apply is stored, shown and counted, and in no rate."""

from pathlib import Path

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.conftest import Start

REFUND = {"context_path": "topic", "operator": "Equals", "expected_value": "refund"}


def test_a_task_of_some_live_records(start: Start, tmp_path: Path) -> None:
    """Two refunds of five records, one of them wrong; one record has no topic."""
    tasks = [
        AssertionTask("order", "answer", "A-7", "Contains", when=REFUND),
        AssertionTask("text", "answer", True, "IsString"),
    ]
    file = AgentEvalProfile(tasks, alias="desk").save_to_json(tmp_path / "profile.json")
    service = start(profile=[str(file)])
    contexts = [
        {"topic": "refund", "answer": "A-7 is paid."},
        {"topic": "refund", "answer": "Gladly."},
        {"topic": "weather", "answer": "Sun."},
        {"topic": "weather", "answer": "Rain."},
        {"answer": "Who knows."},
    ]
    service.send(
        *({"uid": f"u{n}", "profile": "desk", "context": each} for n, each in enumerate(contexts))
    )
    service.wait_for(5)

    found = {each["uid"]: each for each in service.get("/api/v1/evaluations")["items"]}
    outcomes = {
        uid: (each["outcome"], each["tasks"][0]["outcome"], each["tasks"][0]["reason"])
        for uid, each in found.items()
    }
    assert outcomes == {
        "u0": ("passed", "passed", None),
        "u1": ("failed", "failed", None),
        "u2": ("passed", "skipped", "not_applicable"),
        "u3": ("passed", "skipped", "not_applicable"),
        "u4": ("errored", "errored", "missing_path"),
    }
    (rate,) = (t for t in service.get("/api/v1/tasks")["items"] if t["task_id"] == "order")
    assert (rate["passed"], rate["total"], rate["skipped"]) == (1, 3, 2)
    lines = service.http.get("/metrics").text.splitlines()
    counts = {
        line.split('outcome="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1])
        for line in lines
        if line.startswith("scouter_evaluations_total{") and 'task="order"' in line
    }
    assert {key: n for key, n in counts.items() if n} == {
        "passed": 1, "failed": 1, "errored": 1, "not_applicable": 2,
    }  # fmt: skip
