"""Results of Upsonic 0.77, by area; `upsonic-0.77` gives the same."""

import ast
import asyncio
import re
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Final

import pytest
from pydantic import ValidationError

from scouter.evaluate.accuracy.accuracy import AccuracyEvaluator
from scouter.evaluate.accuracy.models import (
    AccuracyEvaluationResult,
    EvaluationScore,
    PerformanceEvaluationResult,
    PerformanceRunResult,
    ReliabilityEvaluationResult,
    ToolCallCheck,
)
from scouter.evaluate.accuracy.performance import PerformanceEvaluator, statistics_of
from scouter.evaluate.accuracy.reliability import ReliabilityEvaluator
from scouter.evaluate.accuracy.shown import accuracy_title
from tests.scouter.evaluate.accuracy.upsonic_support import Agent, judge_of
from tests.support.nat_vectors import count_line, needed, raised, vectors

AREAS: Final = tuple(
    f"upsonic.{name}"
    for name in (
        "accuracy", "accuracy_ctor", "accuracy_prompt", "models", "performance_ctor",
        "performance_run", "performance_stats", "reliability",
    )
)  # fmt: skip
UPSONIC: Final = "upsonic-0.77"


def test_how_many(capsys: pytest.CaptureFixture[str]) -> None:
    with capsys.disabled():
        print(count_line(*AREAS))  # noqa: T201 the counts are requested


def outcome(work: Callable[[], object]) -> object:
    """The value, or the exception as vectors write it."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - compared below
        text = str(error).splitlines()[0] if isinstance(error, ValidationError) else str(error)
        return f"RAISES {type(error).__name__}: {text}"


# --- reliability ---


def _given_run(text: str) -> object:
    """A run that a vector tells in words."""
    if text.startswith("run_result="):
        return ast.literal_eval(text.removeprefix("run_result="))
    assert text == "tool call dict without 'tool_name'"
    calls: list[dict[str, object]] = [{"params": {}}]
    return SimpleNamespace(tool_calls=calls)


def _evaluated(arguments: dict[str, Any]) -> object:
    names = [{"tool_name": name} for name in arguments.pop("actual")]
    evaluator = ReliabilityEvaluator(arguments.pop("expected"), compat=UPSONIC, **arguments)
    result = evaluator.run(SimpleNamespace(tool_calls=names), print_results=False)
    return {
        "passed": result.passed,
        "summary": result.summary,
        "checks": [check.model_dump() for check in result.checks],
        "missing": result.missing_tool_calls,
        "unexpected": result.unexpected_tool_calls,
        "assert_passed": outcome(result.assert_passed),
    }


@pytest.mark.parametrize("vector", vectors("upsonic.reliability"))
def test_reliability(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    given: Any = vector["input"]
    expected = vector["expected"]
    if isinstance(given, dict):
        assert _evaluated(vector["input"].copy()) == expected
    elif given.startswith("{"):
        arguments = ast.literal_eval(given)
        assert outcome(lambda: ReliabilityEvaluator(**arguments, compat=UPSONIC)) == expected
    else:
        evaluator = ReliabilityEvaluator(["a"], compat=UPSONIC)
        run = _given_run(given)
        assert outcome(lambda: evaluator.run(run, print_results=False).summary) == expected


# --- performance ---


@pytest.mark.parametrize("vector", vectors("upsonic.performance_stats"))
def test_performance_statistics(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    assert statistics_of(vector["input"]) == pytest.approx(vector["expected"], rel=1e-12)


class _Task:
    """Upsonic's task, as far as a measured run looks at it."""

    def __init__(self, name: str = "") -> None:
        self.name = name


class _UpsonicAgent:
    def __init__(self) -> None:
        self.tasks: list[_Task] = []
        self.blocks: list[bytearray] = []

    async def do_async(self, task: _Task) -> str:
        self.tasks.append(task)
        temporary = bytearray(200_000)
        self.blocks.append(bytearray(50_000))
        return str(len(temporary))


@pytest.mark.parametrize("vector", vectors("upsonic.performance_run"))
def test_performance_run(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    agent, given = _UpsonicAgent(), vector["input"]
    if isinstance(given, str):
        assert given == "Agent + [one,two], 2 iterations"
        two = [_Task("one"), _Task("two")]
        run = PerformanceEvaluator(agent, two, 2, 0, compat=UPSONIC).run(print_results=False)
        asyncio.run(run)
        assert [task.name for task in agent.tasks] == vector["expected"]
        return
    iterations, warmups = given["num_iterations"], given["warmup_runs"]
    evaluator = PerformanceEvaluator(agent, _Task(), iterations, warmups, compat=UPSONIC)
    result = asyncio.run(evaluator.run(print_results=False))
    increase, peak = result.memory_increase_stats["median"], result.memory_peak_stats["median"]
    assert vector["expected"] == {
        "executions": len(agent.tasks),
        "n_runs": len(result.all_runs),
        "num_iterations": result.num_iterations,
        "warmup_runs": result.warmup_runs,
        "distinct_task_objects": len(set(map(id, agent.tasks))),
        "stat_keys": list(result.latency_stats),
        "increase_about_50k": abs(increase - 50_000) < 5_000,
        "peak_about_250k": abs(peak - 250_000) < 10_000,
        "tracing_after": tracemalloc.is_tracing(),
    }


_ARGUMENTS: Final[dict[str, Any]] = {
    "FA": _UpsonicAgent(), "Task": _Task(), "str": "text", "list": [], "int": 1, "None": None,
}  # fmt: skip


@pytest.mark.parametrize("vector", vectors("upsonic.performance_ctor"))
def test_performance_arguments(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    given = dict(vector["input"])
    arguments = [_ARGUMENTS[name] for name in given.pop("args")]
    found = outcome(lambda: PerformanceEvaluator(*arguments, **given, compat=UPSONIC) and "ok")
    assert found == vector["expected"]


# --- accuracy ---


def _accuracy(scores: list[float]) -> tuple[AccuracyEvaluator, Agent]:
    agent = Agent()
    made = AccuracyEvaluator(
        judge_of(scores), agent, "q", "e", num_iterations=len(scores), compat=UPSONIC
    )
    return made, agent


def _without_score(request: object) -> dict[str, int]:
    return {"mark": 5}


def _without_output(query: str) -> None:
    return None


@pytest.mark.parametrize("vector", vectors("upsonic.accuracy"))
def test_accuracy(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    given: Any = vector["input"]
    expected = vector["expected"]
    if isinstance(given, dict):
        evaluator, _ = _accuracy(vector["input"]["scores"])
        result = asyncio.run(evaluator.run(print_results=False))
        assert expected == {
            "average_score": pytest.approx(result.average_score),
            "generated_output": result.generated_output,
            "title": accuracy_title(result.average_score),
        }
    elif given.startswith("run_with_output"):
        evaluator, agent = _accuracy([6, 8])
        result = asyncio.run(evaluator.run_with_output("given", print_results=False))
        assert expected == {
            "avg": result.average_score,
            "generated": result.generated_output,
            "agent_runs": len(agent.queries),
        }
    else:
        judge: Any = judge_of([5])
        agent: Any = Agent()
        if given == "judge returns dict":
            judge = _without_score
        else:
            assert given == "agent returns None"
            agent = _without_output
        failing = AccuracyEvaluator(judge, agent, "q", "e", compat=UPSONIC)
        assert outcome(lambda: asyncio.run(failing.run(print_results=False))) == expected


_WRONG: Final[dict[str, dict[str, Any]]] = {
    "judge": {"judge_agent": 5},
    "agent": {"agent_under_test": 5},
    "aut": {"agent_under_test": 5},
    "iters": {"num_iterations": 0},
    "iters0": {"num_iterations": 0},
    "iters_float": {"num_iterations": 1.5},
}


@pytest.mark.parametrize("vector", vectors("upsonic.accuracy_ctor"))
def test_accuracy_arguments(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    arguments: dict[str, Any] = {
        "judge_agent": judge_of([5]), "agent_under_test": Agent(), "query": "q",
        "expected_output": "e", **_WRONG[vector["input"]],
    }  # fmt: skip
    assert outcome(lambda: AccuracyEvaluator(**arguments, compat=UPSONIC)) == vector["expected"]


@pytest.mark.parametrize("vector", vectors("upsonic.accuracy_prompt"))
def test_accuracy_prompt(vector: dict[str, Any] | None) -> None:
    """Each part has the same name and says the same; the sentences around are our own."""
    vector = needed(vector)
    given = vector["input"]
    evaluator = AccuracyEvaluator(
        judge_of([5]), Agent(), given["query"], given["expected"], compat=UPSONIC
    )
    [message] = evaluator.question(given["generated"])
    parts = dict(re.findall(r"<(\w+)>\s*(.*?)\s*</\1>", message["content"], re.DOTALL))
    theirs = dict(re.findall(r"<(\w+)>\s*(.*?)\s*</\1>", vector["expected"], re.DOTALL))
    assert parts == {name: text.splitlines()[-1].strip() for name, text in theirs.items()}


# --- models ---

_SCORE: Final[dict[str, Any]] = {"reasoning": "r", "is_met": True, "critique": "c"}
_ACCURACY: Final[dict[str, Any]] = {
    "evaluation_scores": [], "average_score": 5.0, "user_query": "q", "expected_output": "e",
    "generated_output": "g",
}  # fmt: skip
_FIRST: Final = {"score": 1, "reasoning": "why1", "is_met": True, "critique": "c1"}
_STATS: Final[dict[str, Any]] = {
    "all_runs": [], "num_iterations": 0, "warmup_runs": -1, "latency_stats": {"x": 1},
    "memory_increase_stats": {}, "memory_peak_stats": {},
}  # fmt: skip
_RUN: Final[dict[str, Any]] = {
    "latency_seconds": 1.0, "memory_increase_bytes": 1, "memory_peak_bytes": 1,
}  # fmt: skip
_MODELS: Final[dict[str, Callable[[], Any]]] = {
    "score_low": lambda: EvaluationScore(score=0.99, **_SCORE),
    "score_high": lambda: EvaluationScore(score=10.01, **_SCORE),
    "score_nan": lambda: EvaluationScore(score=float("nan"), **_SCORE),
    "score_1": lambda: EvaluationScore.model_validate(_FIRST),
    "score_10": lambda: EvaluationScore.model_validate({**_FIRST, "score": 10}),
    "score_str": lambda: EvaluationScore.model_validate({"score": "7", **_SCORE}),
    "bool_score": lambda: EvaluationScore(score=True, **_SCORE),
    "extra_ignored": lambda: ToolCallCheck.model_validate(
        {"tool_name": "a", "was_called": True, "times_called": 0, "more": 1}
    ),
    "avg_unchecked": lambda: AccuracyEvaluationResult.model_validate(
        {**_ACCURACY, "evaluation_scores": [_FIRST], "average_score": 9.9}
    ),
    "from_attr": lambda: AccuracyEvaluationResult.model_validate(SimpleNamespace(**_ACCURACY)),
    "stats_free": lambda: PerformanceEvaluationResult.model_validate(_STATS),
    "perf_float_bytes": lambda: PerformanceRunResult.model_validate(
        {**_RUN, "memory_increase_bytes": 1.5}
    ),
    "perf_neg": lambda: PerformanceRunResult.model_validate({**_RUN, "latency_seconds": -1}),
}


@pytest.mark.parametrize("vector", vectors("upsonic.models"))
def test_models(vector: dict[str, Any] | None) -> None:
    vector = needed(vector)
    made = _MODELS[vector["input"]]
    found = outcome(lambda: made().model_dump(exclude={"errors"}))
    assert found == vector["expected"]


def test_a_result_of_reliability_from_attributes() -> None:
    fields: dict[str, Any] = {
        "passed": True, "summary": "s", "expected_tool_calls": [], "actual_tool_calls": [],
        "checks": [], "missing_tool_calls": [], "unexpected_tool_calls": [],
    }  # fmt: skip
    assert ReliabilityEvaluationResult.model_validate(SimpleNamespace(**fields)).passed
    assert raised("RAISES ValueError: x") == ("ValueError", "x")
