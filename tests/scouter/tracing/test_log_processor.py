"""GenAI events of the application's logs, beside captured spans."""

from collections.abc import Callable

import pytest
from opentelemetry._logs import LogRecord
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider

from scouter.evaluate import AgentAssertion, AgentAssertionTask, ComparisonOperator, EvalScenario
from scouter.evaluate.scenario import EvalScenarios
from scouter.evaluate.spans.tree import SpanTree
from scouter.queue.redaction import Redaction, RedactionRule
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.capture import CAPTURE
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.transport.config import MockConfig
from tests.scouter.queue.profiles import profile
from tests.scouter.tracing.conftest import AppExporter

App = tuple[TracerProvider, AppExporter]
Answer = Callable[[str], str]
CHOICE = {"index": 0, "message": {"role": "assistant", "content": "Canberra"}}


@pytest.fixture
def answer(app: App) -> Answer:
    """An agent whose instrumentor sends what was said as log records."""
    provider, _ = app
    loggers = LoggerProvider(shutdown_on_exit=False)
    ScouterInstrumentor().instrument(tracer_provider=provider, logger_provider=loggers)
    tracer, logger = provider.get_tracer("lib"), loggers.get_logger("lib")

    def ask(message: str) -> str:
        del message
        with tracer.start_as_current_span("chat", attributes={"gen_ai.operation.name": "chat"}):
            logger.emit(LogRecord(event_name="gen_ai.choice", body=CHOICE))
            logger.emit(LogRecord(body="some line"))
        return "Canberra"

    return ask


def test_events_are_captured_with_their_spans_and_only_then(answer: Answer) -> None:
    answer("not captured")
    CAPTURE.enable()
    answer("captured")
    tree = SpanTree(CAPTURE.drain())
    (chat,) = tree.spans
    assert [(each.name, each.attributes) for each in chat.events] == [("gen_ai.choice", CHOICE)]
    ScouterInstrumentor().uninstrument()
    answer("not any more")
    assert CAPTURE.drain() == []


def test_redaction_holds_for_them(app: App) -> None:
    provider, _ = app
    loggers = LoggerProvider(shutdown_on_exit=False)
    rules = (RedactionRule(action="mask", pattern="Can[a-z]+"),)
    ScouterInstrumentor().instrument(
        tracer_provider=provider, logger_provider=loggers, redaction=Redaction(rules=rules)
    )
    CAPTURE.enable()
    with provider.get_tracer("lib").start_as_current_span("chat"):
        loggers.get_logger("lib").emit(LogRecord(event_name="gen_ai.choice", body=CHOICE))
    (chat,) = SpanTree(CAPTURE.drain()).spans
    assert "Canberra" not in str(chat.events)
    assert chat.events[0].attributes["index"] == 0


def test_a_replay_judges_what_they_say(answer: Answer) -> None:
    """A scenario's own task reads them among its spans, and each attempt its own."""

    class Desk(EvalOrchestrator):
        def execute_agent(self, scenario: EvalScenario) -> str:
            return answer(scenario.initial_query)

    said = AgentAssertionTask(
        "said", AgentAssertion.response_content(), "Canberra", ComparisonOperator.Equals,
        source="spans",
    )  # fmt: skip
    scenarios = EvalScenarios([EvalScenario("Capital?", [said], id="capital")])
    queue = ScouterQueue.from_profile(profile("a"), MockConfig())
    results = Desk(queue, scenarios).run(repeats=2)
    assert [each.passed for each in results.scenario_results] == [True, True]
    assert not results.lost
