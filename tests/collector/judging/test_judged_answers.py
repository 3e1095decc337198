"""QA and accuracy tasks in a running collector: sent by HTTP, judged as offline."""

from pathlib import Path
from typing import Any, Final

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.tasks.judged_answer import AccuracyTask, QATask
from scouter.mock.llm_protocols import LLMRequest
from scouter.mock.llm_server import LLMTestServer
from scouter.model.record import EvalRecord
from tests.collector.conftest import Start
from tests.collector.judging.test_service import begin, post, wait_decided

CONTEXT: Final = {"question": "How many?", "answer": "Three.", "ground_truth": "3"}


def answer(request: LLMRequest) -> dict[str, Any]:
    """9 of 10 in either scale."""
    schema: Any = request.schema
    is_accuracy = "critique" in str(schema)
    fields = {"reasoning": "r", "score": 9 if is_accuracy else 0.9}
    return {**fields, "is_met": True, "critique": "c"} if is_accuracy else fields


def test_the_same_as_offline(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOUSE_KEY", "of-a-test")
    tasks = [
        QATask("right", "model-1", "house"),  # equal to 1 without a comparison of one's own
        AccuracyTask("accurate", "model-1", "house"),
    ]
    profile = AgentEvalProfile(tasks, alias="answers")
    with LLMTestServer(answer) as server:
        service = begin(start, tmp_path, server)
        sent = post(service, profile)
        assert sent.status_code in (200, 201), sent.text
        uid = sent.json()["uid"]
        service.send({"uid": "u1", "profile": uid, "context": CONTEXT})
        service.wait_for(1)
        wait_decided(service)
        [item] = service.get("/api/v1/evaluations")["items"]
        live = [(task["task_id"], task["outcome"], task["actual"]) for task in item["tasks"]]

    def judge(request: Any) -> dict[str, Any]:
        is_accuracy = request.task_id == "accurate"
        fields = {"reasoning": "r", "score": 9 if is_accuracy else 0.9}
        return {**fields, "is_met": True, "critique": "c"} if is_accuracy else fields

    dataset = EvalDataset(records=[EvalRecord(context=CONTEXT)], tasks=tasks)
    offline = dataset.evaluate(judge=judge).records[0].tasks
    assert live == [(task.task_id, str(task.outcome), task.actual) for task in offline]
    assert live == [("right", "failed", 0.9), ("accurate", "passed", 9)]
