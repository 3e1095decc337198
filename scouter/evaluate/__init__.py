"""Evaluation: tasks, datasets, scenarios, replay and comparison.

Each name is imported when it is first used, so that a program pays for what it needs.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scouter.drift.config import AgentEvalConfig
    from scouter.evaluate.aligned_result import AlignedEvalResult, EvalSet
    from scouter.evaluate.comparison_results import (
        ComparisonResults,
        MissingRecord,
        MissingTask,
        ScenarioComparisonResults,
        ScenarioDelta,
        TaskAggregateStats,
        TaskComparison,
        WorkflowComparison,
    )
    from scouter.evaluate.config import Embedder, EvaluationConfig
    from scouter.evaluate.dataset import EvalDataset
    from scouter.evaluate.engine.direct import (
        AssertionResults,
        execute_agent_assertion_tasks,
        execute_trace_assertion_tasks,
    )
    from scouter.evaluate.gate_checks import GateCheck, check_gates, statistical_gate
    from scouter.evaluate.gates import Gates
    from scouter.evaluate.judge import Judge, JudgeError, JudgeReply, JudgeRequest
    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.outcome import Outcome, Reason
    from scouter.evaluate.provenance import Provenance
    from scouter.evaluate.reliability import Reliability, pass_at_k, pass_hat_k
    from scouter.evaluate.result_set import EvalResultSet
    from scouter.evaluate.results import EvalResults
    from scouter.evaluate.scenario import EvalScenario, EvalScenarios
    from scouter.evaluate.scenario_results import (
        EvalMetrics,
        ScenarioEvalResults,
        ScenarioResult,
        TaskSummary,
    )
    from scouter.evaluate.task_result import EvalTaskResult
    from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
    from scouter.evaluate.tasks.assertion import AssertionTask
    from scouter.evaluate.tasks.base import EvaluationTaskType
    from scouter.evaluate.tasks.judge import LLMJudgeTask
    from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
    from scouter.evaluate.tasks.task import TasksFile
    from scouter.evaluate.tasks.trace import (
        AggregationType,
        AttributeFilterTask,
        MultiResponseMode,
        TraceAssertion,
        TraceAssertionTask,
    )
    from scouter.evaluate.token_usage import TokenUsage
    from scouter.evaluate.verdict import TaskVerdict, Verdict
    from scouter.model.record import EvalRecord
    from scouter.replay.orchestrator import EvalOrchestrator
    from scouter.replay.runner import EvalRunner

_HOMES = {
    "AgentAssertion": "scouter.evaluate.tasks.agent",
    "AgentAssertionTask": "scouter.evaluate.tasks.agent",
    "AgentEvalConfig": "scouter.drift.config",
    "AggregationType": "scouter.evaluate.tasks.trace",
    "AlignedEvalResult": "scouter.evaluate.aligned_result",
    "AssertionResults": "scouter.evaluate.engine.direct",
    "AssertionTask": "scouter.evaluate.tasks.assertion",
    "AttributeFilterTask": "scouter.evaluate.tasks.trace",
    "ComparisonOperator": "scouter.evaluate.operators.comparison",
    "ComparisonResults": "scouter.evaluate.comparison_results",
    "Embedder": "scouter.evaluate.config",
    "EvalDataset": "scouter.evaluate.dataset",
    "EvalMetrics": "scouter.evaluate.scenario_results",
    "EvalOrchestrator": "scouter.replay.orchestrator",
    "EvalRecord": "scouter.model.record",
    "EvalResultSet": "scouter.evaluate.result_set",
    "EvalResults": "scouter.evaluate.results",
    "EvalRunner": "scouter.replay.runner",
    "EvalScenario": "scouter.evaluate.scenario",
    "EvalScenarios": "scouter.evaluate.scenario",
    "EvalSet": "scouter.evaluate.aligned_result",
    "EvalTaskResult": "scouter.evaluate.task_result",
    "EvaluationConfig": "scouter.evaluate.config",
    "EvaluationTaskType": "scouter.evaluate.tasks.base",
    "GateCheck": "scouter.evaluate.gate_checks",
    "Gates": "scouter.evaluate.gates",
    "Judge": "scouter.evaluate.judge",
    "JudgeError": "scouter.evaluate.judge",
    "JudgeReply": "scouter.evaluate.judge",
    "JudgeRequest": "scouter.evaluate.judge",
    "LLMJudgeTask": "scouter.evaluate.tasks.judge",
    "MissingRecord": "scouter.evaluate.comparison_results",
    "MissingTask": "scouter.evaluate.comparison_results",
    "MultiResponseMode": "scouter.evaluate.tasks.trace",
    "Outcome": "scouter.evaluate.outcome",
    "Provenance": "scouter.evaluate.provenance",
    "Reason": "scouter.evaluate.outcome",
    "Reliability": "scouter.evaluate.reliability",
    "ScenarioComparisonResults": "scouter.evaluate.comparison_results",
    "ScenarioDelta": "scouter.evaluate.comparison_results",
    "ScenarioEvalResults": "scouter.evaluate.scenario_results",
    "ScenarioResult": "scouter.evaluate.scenario_results",
    "SpanFilter": "scouter.evaluate.tasks.span_filter",
    "SpanStatus": "scouter.evaluate.tasks.span_filter",
    "TaskAggregateStats": "scouter.evaluate.comparison_results",
    "TaskComparison": "scouter.evaluate.comparison_results",
    "TaskSummary": "scouter.evaluate.scenario_results",
    "TaskVerdict": "scouter.evaluate.verdict",
    "TasksFile": "scouter.evaluate.tasks.task",
    "TokenUsage": "scouter.evaluate.token_usage",
    "TraceAssertion": "scouter.evaluate.tasks.trace",
    "TraceAssertionTask": "scouter.evaluate.tasks.trace",
    "Verdict": "scouter.evaluate.verdict",
    "WorkflowComparison": "scouter.evaluate.comparison_results",
    "check_gates": "scouter.evaluate.gate_checks",
    "execute_agent_assertion_tasks": "scouter.evaluate.engine.direct",
    "execute_trace_assertion_tasks": "scouter.evaluate.engine.direct",
    "pass_at_k": "scouter.evaluate.reliability",
    "pass_hat_k": "scouter.evaluate.reliability",
    "statistical_gate": "scouter.evaluate.gate_checks",
}

__all__ = (
    "AgentAssertion",
    "AgentAssertionTask",
    "AgentEvalConfig",
    "AggregationType",
    "AlignedEvalResult",
    "AssertionResults",
    "AssertionTask",
    "AttributeFilterTask",
    "ComparisonOperator",
    "ComparisonResults",
    "Embedder",
    "EvalDataset",
    "EvalMetrics",
    "EvalOrchestrator",
    "EvalRecord",
    "EvalResultSet",
    "EvalResults",
    "EvalRunner",
    "EvalScenario",
    "EvalScenarios",
    "EvalSet",
    "EvalTaskResult",
    "EvaluationConfig",
    "EvaluationTaskType",
    "GateCheck",
    "Gates",
    "Judge",
    "JudgeError",
    "JudgeReply",
    "JudgeRequest",
    "LLMJudgeTask",
    "MissingRecord",
    "MissingTask",
    "MultiResponseMode",
    "Outcome",
    "Provenance",
    "Reason",
    "Reliability",
    "ScenarioComparisonResults",
    "ScenarioDelta",
    "ScenarioEvalResults",
    "ScenarioResult",
    "SpanFilter",
    "SpanStatus",
    "TaskAggregateStats",
    "TaskComparison",
    "TaskSummary",
    "TaskVerdict",
    "TasksFile",
    "TokenUsage",
    "TraceAssertion",
    "TraceAssertionTask",
    "Verdict",
    "WorkflowComparison",
    "check_gates",
    "execute_agent_assertion_tasks",
    "execute_trace_assertion_tasks",
    "pass_at_k",
    "pass_hat_k",
    "statistical_gate",
)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
