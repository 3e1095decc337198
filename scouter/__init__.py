"""Scouter: tracing and online quality-drift monitoring for LLM agents.

The names that code written for the original imports from here, and the rooms they are defined in;
all are imported when they are first used.
"""

TYPE_CHECKING = False  # type checkers know the name; the module that defines it takes a while

if TYPE_CHECKING:
    from scouter.agent.model_settings import ModelSettings
    from scouter.alert.condition import AlertCondition, AlertThreshold
    from scouter.alert.config import AgentAlertConfig
    from scouter.alert.config import AgentAlertConfig as GenAIAlertConfig
    from scouter.alert.crons import CommonCrons
    from scouter.client.client import ScouterClient
    from scouter.drift.config import AgentEvalConfig
    from scouter.drift.config import AgentEvalConfig as GenAIEvalConfig
    from scouter.drift.drifter import Drifter
    from scouter.drift.profile import AgentEvalProfile
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
    from scouter.evaluate.engine.direct import (
        AssertionResults,
        execute_agent_assertion_tasks,
        execute_trace_assertion_tasks,
    )
    from scouter.evaluate.judge.prompt import Prompt, Provider, Role, Score
    from scouter.evaluate.judge.usage import TokenUsage
    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.results.attempt import TaskSummary
    from scouter.evaluate.results.row import EvalResultSet, EvalSet
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
    from scouter.model.kinds import DriftType, EntityType, RecordType
    from scouter.model.record import EvalRecord
    from scouter.queue.scouter_queue import Queue, ScouterQueue
    from scouter.replay.orchestrator import EvalOrchestrator
    from scouter.replay.runner import EvalRunner
    from scouter.tracing.active import active_profile
    from scouter.tracing.batch import BatchConfig
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
    from scouter.tracing.kind import SpanKind
    from scouter.tracing.middleware import ScouterTracingMiddleware
    from scouter.tracing.propagation import (
        extract_span_context_from_headers,
        get_tracing_headers_from_current_span,
    )
    from scouter.tracing.span import ScouterSpan
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
    from scouter.transport.config import HttpConfig, KafkaConfig, MockConfig
    from scouter.transport.otlp.config import GrpcConfig
    from scouter.transport.rabbitmq.config import RabbitMQConfig
    from scouter.transport.redis.config import RedisConfig

_MODELS = {
    "scouter.agent.model_settings": ("ModelSettings",),
    "scouter.alert.condition": ("AlertCondition",),
    "scouter.alert.config": (
        "AgentAlertConfig",
        "AgentAlertConfig as GenAIAlertConfig",
    ),
    "scouter.drift.config": (
        "AgentEvalConfig",
        "AgentEvalConfig as GenAIEvalConfig",
    ),
    "scouter.drift.profile": (
        "AgentEvalProfile",
        "AgentEvalProfile as GenAIEvalProfile",
    ),
    "scouter.evaluate.api.comparison": (
        "ComparisonResults",
        "ScenarioComparisonResults",
    ),
    "scouter.evaluate.compare.data": (
        "MissingTask",
        "ScenarioDelta",
        "TaskAggregateStats",
        "WorkflowComparison",
    ),
    "scouter.evaluate.judge.prompt": (
        "Prompt",
        "Score",
    ),
    "scouter.evaluate.scenario": (
        "EvalScenario",
        "EvalScenarios",
    ),
    "scouter.evaluate.api.replay": (
        "EvalMetrics",
        "ScenarioEvalResults",
        "ScenarioResult",
    ),
    "scouter.evaluate.results.attempt": ("TaskSummary",),
    "scouter.evaluate.tasks.agent": (
        "AgentAssertion",
        "AgentAssertionTask",
    ),
    "scouter.evaluate.tasks.assertion": ("AssertionTask",),
    "scouter.evaluate.tasks.judge": ("LLMJudgeTask",),
    "scouter.evaluate.tasks.span_filter": ("SpanFilter",),
    "scouter.evaluate.tasks.trace": (
        "AttributeFilterTask",
        "TraceAssertion",
        "TraceAssertionTask",
    ),
    "scouter.tracing.batch": ("BatchConfig",),
    "scouter.tracing.exporters": ("OtelExportConfig",),
    "scouter.transport.config": (
        "HttpConfig",
        "KafkaConfig",
        "MockConfig",
    ),
    "scouter.transport.otlp.config": ("GrpcConfig",),
    "scouter.transport.rabbitmq.config": ("RabbitMQConfig",),
    "scouter.transport.redis.config": ("RedisConfig",),
}
_OTHERS = {
    "scouter.alert.condition": ("AlertThreshold",),
    "scouter.alert.crons": ("CommonCrons",),
    "scouter.client.client": ("ScouterClient",),
    "scouter.drift.drifter": ("Drifter",),
    "scouter.evaluate.api.records": ("AlignedEvalResult", "EvalResults"),
    "scouter.evaluate.judge.usage": ("TokenUsage",),
    "scouter.evaluate.results.row": ("EvalResultSet", "EvalSet"),
    "scouter.evaluate.compare.data": ("TaskComparison",),
    "scouter.evaluate.annotate.config": ("EvaluationConfig",),
    "scouter.evaluate.annotate.embed": ("Embedder",),
    "scouter.evaluate.dataset": ("EvalDataset",),
    "scouter.evaluate.engine.direct": (
        "AssertionResults",
        "execute_agent_assertion_tasks",
        "execute_trace_assertion_tasks",
    ),
    "scouter.evaluate.operators.comparison": ("ComparisonOperator",),
    "scouter.evaluate.judge.prompt": (
        "Provider",
        "Role",
    ),
    "scouter.evaluate.results.task_result": ("EvalTaskResult",),
    "scouter.evaluate.tasks.base": ("EvaluationTaskType",),
    "scouter.evaluate.tasks.span_filter": ("SpanStatus",),
    "scouter.evaluate.tasks.task": ("TasksFile",),
    "scouter.evaluate.tasks.trace": (
        "AggregationType",
        "MultiResponseMode",
    ),
    "scouter.model.attributes": ("ACTIVE_ENTITY as SCOUTER_ACTIVE_ENTITY_UID_BAGGAGE_KEY",),
    "scouter.model.kinds": (
        "DriftType",
        "EntityType",
        "RecordType",
    ),
    "scouter.model.record": ("EvalRecord",),
    "scouter.queue.scouter_queue": (
        "Queue",
        "ScouterQueue",
    ),
    "scouter.replay.orchestrator": ("EvalOrchestrator",),
    "scouter.replay.runner": ("EvalRunner",),
    "scouter.tracing.active": ("active_profile",),
    "scouter.tracing.capture": (
        "disable_local_span_capture",
        "drain_local_span_capture",
        "enable_local_span_capture",
    ),
    "scouter.tracing.decorate": (
        "FunctionType",
        "get_function_type",
    ),
    "scouter.tracing.exporters": (
        "GrpcSpanExporter",
        "HttpSpanExporter",
        "OtelProtocol",
        "StdoutSpanExporter",
        "TestSpanExporter",
    ),
    "scouter.tracing.instrumentor": (
        "ScouterInstrumentor",
        "instrument",
        "uninstrument",
    ),
    "scouter.tracing.kind": ("SpanKind",),
    "scouter.tracing.middleware": ("ScouterTracingMiddleware",),
    "scouter.tracing.propagation": (
        "extract_span_context_from_headers",
        "get_tracing_headers_from_current_span",
    ),
    "scouter.tracing.span": (
        "ScouterSpan as ActiveSpan",
        "ScouterSpan",
    ),
    "scouter.tracing.tracer": (
        "ScouterTracerProvider",
        "ScouterTracer",
        "ScouterTracer as Tracer",
        "flush_tracer",
        "get_current_active_span",
        "get_tracer",
        "init_tracer",
        "shutdown_tracer",
    ),
}
_ROOMS = ("agent", "alert", "client", "drift", "evaluate", "mock", "queue", "trace", "tracing",
          "transport", "types")  # fmt: skip


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _ROOMS:
        return import_module(f"scouter.{name}")
    from scouter.lazy import lazy_names  # what it stands on loads only where a name is asked for

    return lazy_names("scouter", _MODELS, _OTHERS)[0](name)


def __dir__() -> list[str]:
    from scouter.lazy import lazy_names

    return lazy_names("scouter", _MODELS, _OTHERS)[1]()


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
