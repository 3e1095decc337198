"""QA and accuracy tasks: in code, in files, in a dataset and in a replay."""

from pathlib import Path
from typing import Any, Final

import pytest
from pydantic import ValidationError

from scouter.agent import Prompt
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate import (
    AccuracyTask,
    EvalDataset,
    EvalOrchestrator,
    EvalRecord,
    EvalScenario,
    EvalScenarios,
    JudgeRequest,
    Outcome,
    QATask,
    Reason,
)
from scouter.evaluate.tasks.task import parse_tasks
from scouter.queue.scouter_queue import ScouterQueue
from scouter.transport.config import MockConfig

CONTEXT: Final = {"question": "How many?", "answer": "Three.", "ground_truth": "3"}
SCORES: Final = {"right": 0.9, "accurate": 7}


def judge(request: JudgeRequest) -> dict[str, Any]:
    """Give the score of the task, and show that the question holds what is judged."""
    text = request.messages[-1]["content"]
    assert all(value in text for value in CONTEXT.values())
    assert request.response_schema is not None
    fields: Any = request.response_schema["required"]
    usual = {"reasoning": "r", "is_met": True, "critique": "c", "score": SCORES[request.task_id]}
    return {name: usual[name] for name in fields}


def tasks() -> list[QATask | AccuracyTask]:
    return [
        QATask("right", "m1", "openai", operator="GreaterThanOrEqual", expected_value=0.8),
        AccuracyTask("accurate", "m1", "openai"),
    ]


def outcomes(results: Any) -> list[tuple[str, str, Any]]:
    return [(task.task_id, str(task.outcome), task.actual) for task in results.records[0].tasks]


EXPECTED: Final = [("right", "passed", 0.9), ("accurate", "failed", 7)]


def test_a_dataset() -> None:
    dataset = EvalDataset(records=[EvalRecord(context=CONTEXT)], tasks=tasks())
    assert outcomes(dataset.evaluate(judge=judge)) == EXPECTED


def test_a_replay_gives_the_same() -> None:
    profile = AgentEvalProfile(alias="agent", tasks=tasks())
    queue = ScouterQueue({"agent": profile}, MockConfig())

    def agent(message: str) -> str:
        queue["agent"].insert(EvalRecord(context=CONTEXT))
        return "Three."

    scenarios = EvalScenarios([EvalScenario("How many?", id="s")])
    results = EvalOrchestrator(queue, scenarios, agent).run(judge=judge)
    assert outcomes(results.dataset_results["agent"]) == EXPECTED


def test_a_profile_file_gives_the_same(tmp_path: Path) -> None:
    file = tmp_path / "profile.yaml"
    file.write_text(
        "alias: agent\ntasks:\n"
        "  - {task_type: QA, id: right, model: m1, provider: openai,"
        " operator: GreaterThanOrEqual, expected_value: 0.8}\n"
        "  - {task_type: Accuracy, id: accurate, model: m1, provider: openai}\n",
        "utf-8",
    )
    read = AgentEvalProfile.from_file(file)
    assert list(read.tasks) == tasks()
    assert read.digest == AgentEvalProfile(alias="agent", tasks=tasks()).digest
    again = parse_tasks([task.model_dump(mode="json") for task in read.tasks])
    assert list(again) == tasks()


def test_other_paths_and_the_usual_comparison() -> None:
    task = QATask("right", "m1", "openai", answer="response", ground_truth="expected_outcome")
    assert (task.operator, task.expected_value, task.scale) == ("Equals", 1, (0, 1))
    assert task.prompt.parameters == ["question", "response", "expected_outcome"]


def test_a_score_beyond_the_scale_is_an_error() -> None:
    dataset = EvalDataset(records=[EvalRecord(context=CONTEXT)], tasks=[tasks()[1]])
    results = dataset.evaluate(
        judge=lambda request: {"score": 0.5, "reasoning": "", "is_met": True, "critique": ""}
    )
    [task] = results.records[0].tasks
    assert (task.outcome, task.reason) == (Outcome.ERRORED, Reason.PARSE)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"model": "m1"}, "expected model and provider"),
        ({"model": "m1", "provider": "openai", "prompt": Prompt("?", "m", "openai")},
         "model stands in the prompt"),
        ({"prompt": Prompt("?", "m", "openai"), "answer": "a"}, "answer stands in the prompt"),
        ({"model": "m1", "provider": "openai", "anser": "a"}, "anser"),
    ],
)  # fmt: skip
def test_wrong_arguments(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        QATask("right", **fields)
