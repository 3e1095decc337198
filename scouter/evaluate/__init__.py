"""Evaluation: tasks, datasets, scenarios, replay and comparison.

Each name is imported when it is first used, so that a program pays for what it needs.
"""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.drift.config import AgentEvalConfig
    from scouter.evaluate.accuracy.accuracy import AccuracyEvaluator
    from scouter.evaluate.accuracy.models import (
        AccuracyEvaluationResult,
        EvaluationScore,
        PerformanceEvaluationResult,
        PerformanceRunResult,
        ReliabilityEvaluationResult,
        ToolCallCheck,
    )
    from scouter.evaluate.accuracy.performance import PerformanceEvaluator
    from scouter.evaluate.accuracy.reliability import ReliabilityEvaluator
    from scouter.evaluate.annotate.config import EvaluationConfig
    from scouter.evaluate.annotate.embed import Embedder
    from scouter.evaluate.api.comparison import ComparisonResults, ScenarioComparisonResults
    from scouter.evaluate.api.records import AlignedEvalResult, EvalResults
    from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
    from scouter.evaluate.compare.data import (
        MissingRecord,
        MissingTask,
        ScenarioDelta,
        TaskAggregateStats,
        TaskComparison,
        WorkflowComparison,
    )
    from scouter.evaluate.compare.gate_checks import GateCheck, check_gates
    from scouter.evaluate.compare.gates import Gates
    from scouter.evaluate.compare.rows import ComparisonDecision, RateComparison
    from scouter.evaluate.dataset import EvalDataset
    from scouter.evaluate.engine.execute import (
        AssertionResults,
        execute_agent_assertion_tasks,
        execute_trace_assertion_tasks,
    )
    from scouter.evaluate.journey.call_check import check_tool_calls
    from scouter.evaluate.journey.evaluate import evaluate_journey
    from scouter.evaluate.journey.result import JourneyResult
    from scouter.evaluate.judge.port import (
        Judge,
        JudgeError,
        JudgeReply,
        JudgeRequest,
        JudgeUsage,
        TokenUsage,
    )
    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.outcome import Outcome, Reason
    from scouter.evaluate.report.evaluator import EvalItem, EvaluatorOutput, ItemVerdict
    from scouter.evaluate.report.qa_evaluator import QAEvaluator
    from scouter.evaluate.report.report_evaluator import ReportEvaluator
    from scouter.evaluate.report.steps import TrajectoryStep
    from scouter.evaluate.report.trajectory_evaluator import TrajectoryEvaluator
    from scouter.evaluate.results.attempt import TaskSummary
    from scouter.evaluate.results.provenance import Provenance
    from scouter.evaluate.results.reliability import Reliability, pass_at_k, pass_hat_k
    from scouter.evaluate.results.rows import EvalResultSet, EvalSet
    from scouter.evaluate.results.task_result import EvalTaskResult
    from scouter.evaluate.scenario import EvalScenario, EvalScenarios
    from scouter.evaluate.spans.derived import derive_record
    from scouter.evaluate.spans.files import SpanFilesError, read_spans
    from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
    from scouter.evaluate.tasks.assertion import AssertionTask
    from scouter.evaluate.tasks.base import EvaluationTaskType, When
    from scouter.evaluate.tasks.function import CodeTask, FunctionTask, ReliabilityTask
    from scouter.evaluate.tasks.journey import JourneyTask
    from scouter.evaluate.tasks.judge import Criterion, LLMJudgeTask, PairSwap
    from scouter.evaluate.tasks.judged_answer import AccuracyTask, QATask
    from scouter.evaluate.tasks.report import ReportTask
    from scouter.evaluate.tasks.score import ScoreTask
    from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
    from scouter.evaluate.tasks.task import TasksFile
    from scouter.evaluate.tasks.trace import (
        AggregationType,
        AttributeFilterTask,
        MultiResponseMode,
        TraceAssertion,
        TraceAssertionTask,
    )
    from scouter.evaluate.tasks.trajectory import TrajectoryTask
    from scouter.evaluate.trajectory.comparison import (
        trajectory_any_order_match,
        trajectory_exact_match,
        trajectory_in_order_match,
        trajectory_precision,
        trajectory_recall,
        trajectory_single_tool_use,
    )
    from scouter.model.record import EvalRecord
    from scouter.replay.orchestrator import EvalOrchestrator
    from scouter.replay.runner import EvalRunner
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = (
    "AccuracyEvaluationResult",
    "AccuracyEvaluator",
    "AccuracyTask",
    "AgentAssertion",
    "AgentAssertionTask",
    "AgentEvalConfig",
    "AggregationType",
    "AlignedEvalResult",
    "AssertionResults",
    "AssertionTask",
    "AttributeFilterTask",
    "CodeTask",
    "ComparisonDecision",
    "ComparisonOperator",
    "ComparisonResults",
    "Criterion",
    "Embedder",
    "EvalDataset",
    "EvalItem",
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
    "EvaluationScore",
    "EvaluationTaskType",
    "EvaluatorOutput",
    "FunctionTask",
    "GateCheck",
    "Gates",
    "ItemVerdict",
    "JourneyResult",
    "JourneyTask",
    "Judge",
    "JudgeError",
    "JudgeReply",
    "JudgeRequest",
    "JudgeUsage",
    "LLMJudgeTask",
    "MissingRecord",
    "MissingTask",
    "MultiResponseMode",
    "Outcome",
    "PairSwap",
    "PerformanceEvaluationResult",
    "PerformanceEvaluator",
    "PerformanceRunResult",
    "Provenance",
    "QAEvaluator",
    "QATask",
    "RateComparison",
    "Reason",
    "Reliability",
    "ReliabilityEvaluationResult",
    "ReliabilityEvaluator",
    "ReliabilityTask",
    "ReportEvaluator",
    "ReportTask",
    "ScenarioComparisonResults",
    "ScenarioDelta",
    "ScenarioEvalResults",
    "ScenarioResult",
    "ScoreTask",
    "SpanFilesError",
    "SpanFilter",
    "SpanStatus",
    "TaskAggregateStats",
    "TaskComparison",
    "TaskSummary",
    "TasksFile",
    "TokenUsage",
    "ToolCallCheck",
    "TraceAssertion",
    "TraceAssertionTask",
    "TrajectoryEvaluator",
    "TrajectoryStep",
    "TrajectoryTask",
    "When",
    "WorkflowComparison",
    "check_gates",
    "check_tool_calls",
    "derive_record",
    "evaluate_journey",
    "execute_agent_assertion_tasks",
    "execute_trace_assertion_tasks",
    "pass_at_k",
    "pass_hat_k",
    "read_spans",
    "trajectory_any_order_match",
    "trajectory_exact_match",
    "trajectory_in_order_match",
    "trajectory_precision",
    "trajectory_recall",
    "trajectory_single_tool_use",
)
