"""If no judge is given, the models that prompts name are called."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile, Drifter
from scouter.errors import ConfigError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.attempt import TaskSummary
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.base import Scope
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_server import LLMTestServer
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.replay.runner import EvalRunner
from scouter.transport.config import MockConfig


def judged(scope: Scope = "record", variable: str = "answer") -> LLMJudgeTask:
    return LLMJudgeTask(
        id="rated",
        prompt=Prompt(f"Rate ${{{variable}}}.", "gpt-4o", "openai", output_type=Score),
        expected_value=4,
        context_path="score",
        operator=ComparisonOperator.GreaterThanOrEqual,
        max_retries=0,
        scope=scope,
    )


GOOD: JsonValue = {"score": 5, "reason": "good"}
RECORD = EvalRecord({"answer": "x"})


def dataset() -> EvalTaskResult:
    return EvalDataset([RECORD], [judged()]).evaluate().records[0].tasks[0]


def dataset_async() -> EvalTaskResult:
    results = asyncio.run(EvalDataset([RECORD], [judged()]).evaluate_async())
    return results.records[0].tasks[0]


def session() -> EvalTaskResult:
    task = judged("session", "records[0].context.answer")
    results = EvalDataset([EvalRecord({"answer": "x"}, session_id="s")], [task]).evaluate()
    return results.sessions[0].tasks[0]


def drifter() -> EvalTaskResult:
    profile = AgentEvalProfile([judged()], alias="a")
    return Drifter().compute_drift(RECORD, profile).records[0].records[0]


def runner() -> TaskSummary:
    scenario = EvalScenario(id="s", initial_query="q", tasks=[judged(variable="response")])
    runner = EvalRunner(EvalScenarios([scenario]), {}, ())
    runner.collect_scenario_data({}, "x", scenario)
    return runner.evaluate().scenario_results[0].task_results[0]


def replay() -> EvalTaskResult:
    """A profile's task; the scenario has none."""
    queue = ScouterQueue.from_profile(AgentEvalProfile([judged()], alias="a"), MockConfig())

    def agent(message: str) -> str:
        queue["a"].insert(EvalRecord({"answer": message}))
        return message

    scenarios = EvalScenarios([EvalScenario(id="s", initial_query="q")])
    results = EvalOrchestrator(queue, scenarios, agent).run()
    return results.dataset_results["a"].records[0].tasks[0]


WAYS = [dataset, dataset_async, session, drifter, runner, replay]


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "SCOUTER_PROVIDERS"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("way", WAYS)
def test_the_model_of_the_prompt_is_called(way: Callable[[], EvalTaskResult | TaskSummary]) -> None:
    with LLMTestServer({"score": 4, "reason": "good"}) as server:
        assert way().passed
        assert server.calls == 1


@pytest.mark.parametrize("way", [dataset, replay])
def test_without_a_key_the_task_says_so(way: Callable[[], EvalTaskResult]) -> None:
    result = way()
    assert isinstance(result, EvalTaskResult)
    assert result.outcome is Outcome.ERRORED
    assert "OPENAI_API_KEY" in result.message


def test_a_judge_that_is_given_is_called_instead() -> None:
    with LLMTestServer({"score": 1, "reason": "bad"}) as server:
        results = EvalDataset([RECORD], [judged()]).evaluate(judge=lambda _: GOOD)
        assert results.records[0].tasks[0].passed
        assert server.calls == 0


def test_settings_that_are_wrong_end_the_evaluation(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Only where a task asks."""
    file = tmp_path / "providers.yaml"
    file.write_text("providers: {openai: {typo: 1}}\n")
    monkeypatch.setenv("SCOUTER_PROVIDERS", str(file))
    with pytest.raises(ConfigError, match="typo"):
        dataset()
