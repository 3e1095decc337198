"""A queue, a tracer and an agent to replay, all of them real."""

from dataclasses import dataclass
from typing import Any

from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.capture import CAPTURE
from scouter.tracing.tracer import ScouterTracer


def spans_named(name: str, count: int, task_id: str = "spans") -> TraceAssertionTask:
    return TraceAssertionTask(
        id=task_id,
        assertion=TraceAssertion.span_count(SpanFilter.by_name(name)),
        operator=ComparisonOperator.Equals,
        expected_value=count,
    )


def equals(path: str, value: object, task_id: str = "equals") -> AssertionTask:
    return AssertionTask(
        id=task_id,
        context_path=path,
        operator=ComparisonOperator.Equals,
        expected_value=value,
    )


@dataclass
class Bench:
    """A queue with one profile, a tracer, and an agent that emits one record per message."""

    queue: ScouterQueue
    tracer: ScouterTracer

    def agent(self, message: str) -> str:
        with self.tracer.start_as_current_span("step") as span:
            span.add_queue_item("agent", EvalRecord(context={"message": message}))
        return f"re: {message}"

    def orchestrator(self, *scenarios: EvalScenario, **options: Any) -> EvalOrchestrator:
        options = {"agent_fn": self.agent, **options}
        return EvalOrchestrator(self.queue, EvalScenarios(scenarios=scenarios), **options)

    @property
    def is_capturing(self) -> bool:
        return self.queue.is_capturing or CAPTURE.is_enabled
