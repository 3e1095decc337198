"""A small agent under the real SDK, whose records and spans leave in an order that a test picks."""

import contextlib
import subprocess
import sys
from collections.abc import Generator, Iterable
from enum import StrEnum
from typing import Final

from opentelemetry.trace import Status, StatusCode

from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.span import ScouterSpan
from scouter.tracing.tracer import ScouterTracer, flush_tracer, init_tracer, shutdown_tracer
from scouter.transport.config import BatchConfig, KafkaConfig, TransportConfig
from tests.support.components import ROOT

ALIAS: Final = "helper"


class Moment(StrEnum):
    """When a record leaves, seen from its trace's spans."""

    BEFORE = "before"
    BETWEEN = "between"
    AFTER = "after"


def helper_profile() -> AgentEvalProfile:
    """One task of each kind; two of them hold only if a record meets the spans of its own trace."""
    return AgentEvalProfile(
        alias=ALIAS,
        tasks=[
            AssertionTask("good_answer", "answer", "42", ComparisonOperator.Equals),
            TraceAssertionTask(
                "own_trace",
                TraceAssertion.trace_attribute("case.id"),
                "${case}",
                ComparisonOperator.Equals,
            ),
            TraceAssertionTask(
                "all_spans",
                TraceAssertion.span_count(SpanFilter.by_name_pattern("^(execute_tool|chat) ")),
                3,
                ComparisonOperator.Equals,
            ),
            AgentAssertionTask(
                "own_search",
                AgentAssertion.tool_argument("search", "query"),
                "question ${case}",
                ComparisonOperator.Equals,
                source="spans",
            ),
        ],
        config=AgentEvalConfig(
            name="helper",
            alert_config=AgentAlertConfig(
                alert_condition=AlertCondition(0.95, AlertThreshold.Below, 0.05),
                window=20,
                min_samples=10,
            ),
        ),
    )


class TracedAgent:
    """Answers cases; made by `traced_agent`."""

    def __init__(self, queue: ScouterQueue, tracer: ScouterTracer) -> None:
        self.queue = queue
        self._tracer = tracer

    def answer(self, case: str, *, good: bool = True, moment: Moment | None = None) -> EvalRecord:
        """Work on one case: a model call, a tool call, a model call, and a record.

        Args:
            case: Name of the case, also the record's id.
            good: Whether the answer is right and the tool works.
            moment: When the record leaves, made sure of by flushing; None leaves both queues to
                send when they like.
        """
        root = self._tracer.start_span("invoke_agent helper", attributes={"case.id": case})
        record = EvalRecord(
            {"case": case, "answer": "42" if good else "41"}, case, trace_id=root.trace_id
        )
        with root:
            if moment is Moment.BEFORE:
                self._insert_now(record)
            self._chat(root)
            self._search(case, good)
            if moment is Moment.BETWEEN:
                assert flush_tracer()
                self._insert_now(record)
            self._chat(root)
            if moment is None:
                root.add_queue_item(ALIAS, record)
        if moment is not None:
            assert flush_tracer()
        if moment is Moment.AFTER:
            self._insert_now(record)
        return record

    def answer_all(self, cases: Iterable[str], *, good: bool = True) -> None:
        """Work on many cases and deliver all of it."""
        for case in cases:
            self.answer(case, good=good)
        self.flush()

    def flush(self) -> None:
        """Deliver everything made so far; nothing may have been dropped."""
        assert flush_tracer(30)
        assert self.queue.flush(30)
        assert self.queue.stats.dropped == {}

    def _insert_now(self, record: EvalRecord) -> None:
        self.queue[ALIAS].insert(record)
        assert self.queue.flush(30)

    def _chat(self, parent: ScouterSpan) -> None:
        with self._tracer.start_as_current_span(
            "chat scripted",
            attributes={"gen_ai.operation.name": "chat", "gen_ai.request.model": "scripted"},
        ) as span:
            assert span.trace_id == parent.trace_id

    def _search(self, case: str, good: bool) -> None:
        attributes = {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.arguments": f'{{"query": "question {case}"}}',
        }
        with self._tracer.start_as_current_span(
            "execute_tool search", attributes=attributes
        ) as span:
            if not good:
                span.set_attribute("error.type", "timeout")
                span.set_status(Status(StatusCode.ERROR, "no answer"))


@contextlib.contextmanager
def traced_agent(transport: TransportConfig, profile: AgentEvalProfile) -> Generator[TracedAgent]:
    """Set the SDK up as an application does, and shut it down afterwards.

    Args:
        transport: Where spans and records go.
        profile: Judges the records.
    """
    queue = ScouterQueue.from_profile(profile, transport)
    tracer = init_tracer(
        service_name="helper",
        scouter_queue=queue,
        batch_config=BatchConfig(scheduled_delay_ms=50),
    )
    try:
        yield TracedAgent(queue, tracer)
    finally:
        shutdown_tracer()
        queue.shutdown()


_FLUSH: Final = "flush"
_DONE: Final = "done"


class AgentProcess:
    """The agent as a program of its own, over Kafka; made by `agent_process`."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def answer(self, *cases: str) -> None:
        """Have it work on cases; returns at once."""
        for case in cases:
            self._say(case)

    def flush(self) -> None:
        """Wait until it has delivered everything."""
        assert self._process.stdout is not None
        self._say(_FLUSH)
        assert self._process.stdout.readline().strip() == _DONE

    def _say(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()


@contextlib.contextmanager
def agent_process(transport: KafkaConfig) -> Generator[AgentProcess]:
    """Run the agent as a program of its own, and let it end.

    Args:
        transport: Where its spans and records go.
    """
    places = [transport.brokers, transport.spans_topic, transport.records_topic]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.support.traced_agent", *places],
        cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            yield AgentProcess(process)
            assert process.stdin is not None
            process.stdin.close()
            assert process.wait(120) == 0
        finally:
            process.kill()


def main(brokers: str, spans_topic: str, records_topic: str) -> None:
    """Answer the cases on standard input; `flush` delivers and says so."""
    transport = KafkaConfig(brokers=brokers, spans_topic=spans_topic, records_topic=records_topic)
    with traced_agent(transport, helper_profile()) as agent:
        for line in sys.stdin:
            word = line.strip()
            if word == _FLUSH:
                agent.flush()
                sys.stdout.write(f"{_DONE}\n")
                sys.stdout.flush()
            else:
                agent.answer(word)


if __name__ == "__main__":
    main(*sys.argv[1:])
