"""Calls of models, their tokens and cost, repeated calls, and filters that mean an operation."""

from collections.abc import Mapping, Sequence

import pytest

from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from scouter.model.span import AttributeValue, Span
from tests.scouter.evaluate.spans_support import span

Attributes = Mapping[str, AttributeValue]

GENAI: Attributes = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
OPENINFERENCE: Attributes = {"openinference.span.kind": "LLM", "llm.model_name": "m"}
OPENLLMETRY: Attributes = {"llm.request.type": "chat", "gen_ai.request.model": "m"}
CHAT = SpanFilter.with_attribute_value("gen_ai.operation.name", "chat")
PASS, FAIL, UNREPORTED = "passed", "failed", "errored:not_told"


def tokens(given: int, made: int) -> Attributes:
    return {"gen_ai.usage.input_tokens": given, "gen_ai.usage.output_tokens": made}


def team() -> list[Span]:
    """A planner with two calls, one of which its helper makes; 60 + 6 and 7 + 1 tokens."""
    agent = {"gen_ai.operation.name": "invoke_agent"}
    return [
        span(1, "run", None, (0, 90), {**agent, "gen_ai.agent.name": "planner"}),
        span(2, "chat m", 1, (1, 9), {**GENAI, **tokens(60, 6), "gen_ai.usage.cost": 0.25}),
        span(3, "help", 1, (10, 80), {**agent, "gen_ai.agent.name": "helper"}),
        span(4, "chat m", 3, (11, 19), {**GENAI, **tokens(7, 1), "gen_ai.usage.cost": 0.5}),
    ]


def calls(*arguments: str | None) -> list[Span]:
    """One agent and a call of `find` with each of these arguments."""
    tool = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find"}
    return [
        span(1, "run", None, (0, 90), {"gen_ai.operation.name": "invoke_agent"}),
        *(
            span(
                at, "execute_tool find", 1, (at * 2, at * 2 + 1),
                tool if text is None else {**tool, "gen_ai.tool.call.arguments": text},
            )
            for at, text in enumerate(arguments, 2)
        ),
    ]  # fmt: skip


def run(
    assertion: TraceAssertion | AgentAssertion,
    expected: object,
    spans: Sequence[Span],
    operator: str = "LessThanOrEqual",
    lost: str = "",
) -> EvalTaskResult:
    task = (
        TraceAssertionTask("t", assertion, expected, operator)
        if isinstance(assertion, TraceAssertion)
        else AgentAssertionTask("t", assertion, expected, operator, source="spans")
    )
    return evaluate_record(compile_plan([task]), EvalRecord({}), SpanTree(spans, lost=lost)).tasks[
        0
    ]


def outcome_of(result: EvalTaskResult) -> str:
    return ":".join(filter(None, (result.outcome, result.reason)))


@pytest.mark.parametrize("model", [GENAI, OPENINFERENCE, OPENLLMETRY])
def test_model_calls_are_counted_in_every_convention(model: Attributes) -> None:
    spans = [span(1, "run"), *(span(at, "step", 1, (at, at + 0.5), model) for at in range(2, 7))]
    count = TraceAssertion.model_call_count()

    assert run(count, 5, spans, "Equals").actual == 5
    assert outcome_of(run(count, 4, spans)) == FAIL
    assert outcome_of(run(count, 5, spans)) == PASS


def test_a_number_that_nobody_tells_passes_no_bound() -> None:
    spans = [span(1, "run", None, (0, 9), {"gen_ai.operation.name": "invoke_agent"})]

    assert outcome_of(run(TraceAssertion.model_call_count(), 4, spans)) == UNREPORTED
    assert outcome_of(run(TraceAssertion.model_call_count(), 4, team(), lost="one is lost")) == (
        "errored:incomplete"
    )
    assert outcome_of(run(TraceAssertion.model_call_count(), 1, team(), lost="one is lost")) == FAIL


@pytest.mark.parametrize(
    ("agent", "count", "given", "made", "cost"),
    [(None, 2, 67, 7, 0.75), ("planner", 1, 60, 6, 0.25), ("helper", 1, 7, 1, 0.5)],
)
def test_calls_tokens_and_cost_of_an_agent(
    agent: str | None, count: int, given: int, made: int, cost: float
) -> None:
    measured = (
        (TraceAssertion.model_call_count(agent), count),
        (TraceAssertion.model_tokens(agent, "input"), given),
        (TraceAssertion.model_tokens(agent, "output"), made),
        (TraceAssertion.model_tokens(agent), given + made),
        (TraceAssertion.model_cost(agent), cost),
    )
    for assertion, value in measured:
        result = run(assertion, value, team(), "Equals")
        assert (outcome_of(result), result.actual) == (PASS, value)


def test_an_agent_that_no_span_tells_of() -> None:
    result = run(TraceAssertion.model_call_count("cook"), 4, team())

    assert outcome_of(result) == "errored:missing_path"
    assert "'helper', 'planner'" in result.message


def test_a_sum_that_lacks_a_call_passes_no_bound() -> None:
    """What is stated is the least that it can be."""
    spans = [*team(), span(5, "chat m", 1, (81, 82), GENAI)]

    assert outcome_of(run(TraceAssertion.model_tokens(), 100, spans)) == UNREPORTED
    assert outcome_of(run(TraceAssertion.model_tokens(), 70, spans)) == FAIL
    assert outcome_of(run(TraceAssertion.model_cost(), 1, spans)) == UNREPORTED
    assert outcome_of(run(TraceAssertion.model_cost(), 0.7, spans)) == FAIL
    assert outcome_of(run(TraceAssertion.model_cost(), 1, spans[4:])) == UNREPORTED


@pytest.mark.parametrize(
    ("arguments", "outcome", "count"),
    [
        (['{"q": 1}', '{"q": 2}'], PASS, 0),
        (['{"q": 1}', '{"q": 2}', '{"q": 1}'], FAIL, 1),
        (['{"a": 1, "b": 2}', '{"b": 2, "a": 1.0}', '{"a": 1, "b": 2}'], FAIL, 2),
        (['{"q": 1}', None], UNREPORTED, 0),
        ([None], PASS, 0),
    ],
)
def test_no_tool_is_called_twice_with_the_same_arguments(
    arguments: list[str | None], outcome: str, count: int
) -> None:
    result = run(AgentAssertion.repeated_tool_call_count(), 0, calls(*arguments), "Equals")

    assert (outcome_of(result), result.actual) == (outcome, count)
    other = run(AgentAssertion.repeated_tool_call_count("pay"), 0, calls(*arguments), "Equals")
    assert outcome_of(other) == PASS


@pytest.mark.parametrize("model", [GENAI, OPENINFERENCE, OPENLLMETRY])
def test_an_operation_is_meant_in_every_convention(model: Attributes) -> None:
    tool = {"openinference.span.kind": "TOOL", "tool.name": "find"}
    spans = [span(1, "run"), span(2, "a", 1, (1, 2), model), span(3, "b", 1, (3, 4), tool)]

    assert run(TraceAssertion.span_count(CHAT), 1, spans, "Equals").outcome == PASS
    assert outcome_of(run(TraceAssertion.span_count(CHAT), 0, spans)) == FAIL
    runs = SpanFilter.with_attribute_value("gen_ai.operation.name", "execute_tool")
    assert run(TraceAssertion.span_count(runs), 1, spans, "Equals").span_ids == (f"{3:016x}",)


@pytest.mark.parametrize(
    ("filter", "operator", "expected", "outcome"),
    [
        (SpanFilter.with_attribute_value("tier", "gold"), "LessThanOrEqual", 4, UNREPORTED),
        (SpanFilter.with_attribute_value("tier", "gold"), "GreaterThanOrEqual", 1, FAIL),
        (SpanFilter.with_attribute_value("tier", "gold"), "GreaterThanOrEqual", 0, PASS),
        (SpanFilter.with_attribute("tier"), "Equals", 0, UNREPORTED),
        (SpanFilter.with_attribute("error.type"), "Equals", 0, PASS),
        (SpanFilter.with_attribute_value("user", "bob"), "LessThanOrEqual", 4, PASS),
        (SpanFilter.with_attribute("tier").not_(), "GreaterThanOrEqual", 1, UNREPORTED),
        (
            SpanFilter.by_name("a").and_(SpanFilter.with_attribute("tier")),
            "LessThan",
            1,
            UNREPORTED,
        ),
        (SpanFilter.by_name("a").or_(SpanFilter.with_attribute("tier")), "Equals", 1, UNREPORTED),
        (CHAT, "LessThanOrEqual", 4, UNREPORTED),
    ],
)
def test_what_no_span_has_passes_no_upper_bound(
    filter: SpanFilter, operator: str, expected: int, outcome: str
) -> None:
    spans = [span(1, "a", None, (0, 9), {"user": "ada"}), span(2, "b", 1, (1, 2))]

    assert outcome_of(run(TraceAssertion.span_count(filter), expected, spans, operator)) == outcome


def test_the_absence_of_an_unknown_attribute_is_not_reported() -> None:
    exists = TraceAssertion.span_exists(SpanFilter.with_attribute("tier"))

    result = run(exists, False, [span(1, "a")], "Equals")
    assert outcome_of(result) == UNREPORTED
    assert "no span of the trace has the attribute 'tier'" in result.message
    assert outcome_of(run(exists, True, [span(1, "a")], "Equals")) == FAIL
