"""Scouter: tracing and online quality-drift monitoring for LLM agents.

The names that code written for the original imports from here, and the rooms they are defined in;
all are imported when they are first used.
"""

TYPE_CHECKING = False  # type checkers know the name; the module that defines it takes a while

if TYPE_CHECKING:
    from scouter.agent.vendor_settings import ModelSettings
    from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold, CommonCrons
    from scouter.alert.config import AgentAlertConfig as GenAIAlertConfig
    from scouter.client.client import ScouterClient
    from scouter.drift.config import AgentEvalConfig
    from scouter.drift.config import AgentEvalConfig as GenAIEvalConfig
    from scouter.drift.profile import AgentEvalProfile, Drifter
    from scouter.drift.profile import AgentEvalProfile as GenAIEvalProfile
    from scouter.evaluate.annotate.config import EvaluationConfig
    from scouter.evaluate.annotate.embed import Embedder
    from scouter.evaluate.api.comparison import ComparisonResults, ScenarioComparisonResults
    from scouter.evaluate.api.records import AlignedEvalResult, EvalResults
    from scouter.evaluate.api.replay import EvalMetrics, ScenarioEvalResults, ScenarioResult
    from scouter.evaluate.compare.data import (
        MissingTask,
        ScenarioDelta,
        TaskAggregateStats,
        TaskComparison,
        WorkflowComparison,
    )
    from scouter.evaluate.dataset import EvalDataset
    from scouter.evaluate.engine.execute import (
        AssertionResults,
        execute_agent_assertion_tasks,
        execute_trace_assertion_tasks,
    )
    from scouter.evaluate.judge.port import TokenUsage
    from scouter.evaluate.judge.prompt import Prompt, Provider, Role, Score
    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.results.attempt import TaskSummary
    from scouter.evaluate.results.rows import EvalResultSet, EvalSet
    from scouter.evaluate.results.task_result import EvalTaskResult
    from scouter.evaluate.scenario import EvalScenario, EvalScenarios
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
    from scouter.model.attributes import ACTIVE_ENTITY as SCOUTER_ACTIVE_ENTITY_UID_BAGGAGE_KEY
    from scouter.model.record import DriftType, EntityType, EvalRecord, RecordType
    from scouter.queue.scouter_queue import Queue, ScouterQueue
    from scouter.replay.orchestrator import EvalOrchestrator
    from scouter.replay.runner import EvalRunner
    from scouter.tracing.capture import (
        disable_local_span_capture,
        drain_local_span_capture,
        enable_local_span_capture,
    )
    from scouter.tracing.decorate import FunctionType, get_function_type
    from scouter.tracing.exporters import (
        GrpcSpanExporter,
        HttpSpanExporter,
        OtelExportConfig,
        OtelProtocol,
        StdoutSpanExporter,
        TestSpanExporter,
    )
    from scouter.tracing.instrumentor import ScouterInstrumentor, instrument, uninstrument
    from scouter.tracing.middleware import ScouterTracingMiddleware
    from scouter.tracing.propagation import (
        active_profile,
        extract_span_context_from_headers,
        get_tracing_headers_from_current_span,
    )
    from scouter.tracing.span import ScouterSpan, SpanKind
    from scouter.tracing.span import ScouterSpan as ActiveSpan
    from scouter.tracing.tracer import (
        ScouterTracer,
        ScouterTracerProvider,
        flush_tracer,
        get_current_active_span,
        get_tracer,
        init_tracer,
        shutdown_tracer,
    )
    from scouter.tracing.tracer import ScouterTracer as Tracer
    from scouter.transport.config import (
        BatchConfig,
        GrpcConfig,
        HttpConfig,
        KafkaConfig,
        MockConfig,
        RabbitMQConfig,
        RedisConfig,
    )

_ROOMS = ("agent", "alert", "client", "drift", "evaluate", "mock", "queue", "trace", "tracing",
          "transport", "types")  # fmt: skip


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"scouter.{name}")
    from scouter.lazy import lazy_names  # what it stands on loads only where a name is requested

    return lazy_names("scouter")[0](name)


def __dir__() -> list[str]:
    from scouter.lazy import lazy_names

    return lazy_names("scouter")[1]()


__all__ = (
    "SCOUTER_ACTIVE_ENTITY_UID_BAGGAGE_KEY",
    "ActiveSpan",
    "AgentAlertConfig",
    "AgentAssertion",
    "AgentAssertionTask",
    "AgentEvalConfig",
    "AgentEvalProfile",
    "AggregationType",
    "AlertCondition",
    "AlertThreshold",
    "AlignedEvalResult",
    "AssertionResults",
    "AssertionTask",
    "AttributeFilterTask",
    "BatchConfig",
    "CommonCrons",
    "ComparisonOperator",
    "ComparisonResults",
    "DriftType",
    "Drifter",
    "Embedder",
    "EntityType",
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
    "FunctionType",
    "GenAIAlertConfig",
    "GenAIEvalConfig",
    "GenAIEvalProfile",
    "GrpcConfig",
    "GrpcSpanExporter",
    "HttpConfig",
    "HttpSpanExporter",
    "KafkaConfig",
    "LLMJudgeTask",
    "MissingTask",
    "MockConfig",
    "ModelSettings",
    "MultiResponseMode",
    "OtelExportConfig",
    "OtelProtocol",
    "Prompt",
    "Provider",
    "Queue",
    "RabbitMQConfig",
    "RecordType",
    "RedisConfig",
    "Role",
    "ScenarioComparisonResults",
    "ScenarioDelta",
    "ScenarioEvalResults",
    "ScenarioResult",
    "Score",
    "ScouterClient",
    "ScouterInstrumentor",
    "ScouterQueue",
    "ScouterSpan",
    "ScouterTracer",
    "ScouterTracerProvider",
    "ScouterTracingMiddleware",
    "SpanFilter",
    "SpanKind",
    "SpanStatus",
    "StdoutSpanExporter",
    "TaskAggregateStats",
    "TaskComparison",
    "TaskSummary",
    "TasksFile",
    "TestSpanExporter",
    "TokenUsage",
    "TraceAssertion",
    "TraceAssertionTask",
    "Tracer",
    "WorkflowComparison",
    "active_profile",
    "disable_local_span_capture",
    "drain_local_span_capture",
    "enable_local_span_capture",
    "execute_agent_assertion_tasks",
    "execute_trace_assertion_tasks",
    "extract_span_context_from_headers",
    "flush_tracer",
    "get_current_active_span",
    "get_function_type",
    "get_tracer",
    "get_tracing_headers_from_current_span",
    "init_tracer",
    "instrument",
    "shutdown_tracer",
    "uninstrument",
)
