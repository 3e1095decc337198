"""Sums of tokens that lack a call: a part of a sum is given as if it were the whole.

Streamed calls often state no usage, and senders write -1 or zeros then. Every expected number is
added by hand: (input, output, total), and for which of them a call is lacking.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import pytest
from pydantic import JsonValue

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.responses.parse import FORMATS, find_response
from scouter.evaluate.tasks.agent import AgentAssertion as G
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import AggregationType as How
from scouter.evaluate.tasks.trace import TraceAssertion as T
from scouter.evaluate.tasks.trace import TraceAssertionTask
from scouter.model.genai.work import agent_work
from scouter.model.record import EvalRecord
from scouter.model.span import AttributeValue, Span, SpanEvent, StatusCode
from tests.scouter.evaluate.spans_support import TRACE, span

IN, OUT = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
ALL: Final = "input output total"


def chat(id: int, up: int | None = None, name: str = "m", **given: AttributeValue) -> Span:
    """A call of a model in OpenTelemetry's words; `i` and `o` are its tokens."""
    names = {"i": IN, "o": OUT, "t": "gen_ai.usage.total_tokens"}
    names |= {"ends": "gen_ai.response.finish_reasons", "says": "gen_ai.output.messages"}
    more: dict[str, AttributeValue] = {names.get(key, key): value for key, value in given.items()}
    base = {"gen_ai.operation.name": "chat", "gen_ai.request.model": name}
    return span(id, f"chat {name}", up, (id * 10, id * 10 + 5), {**base, **more})


def other(id: int, **given: AttributeValue) -> Span:
    """A span of another convention; `__` stands for a dot."""
    named = {key.replace("__", "."): value for key, value in given.items()}
    return span(id, "call", None, (id * 10, id * 10 + 5), named)


def agent(id: int, up: int | None = None, **given: AttributeValue) -> Span:
    names = {"i": IN, "o": OUT}
    more: dict[str, AttributeValue] = {names.get(key, key): value for key, value in given.items()}
    return span(
        id, "invoke_agent a", up, (0, 999), {"gen_ai.operation.name": "invoke_agent", **more}
    )


def failed(one: Span, kind: str, message: str = "no") -> Span:
    given = {"exception.type": kind, "exception.message": message}
    event = SpanEvent(name="exception", time_ns=one.end_ns, attributes=given)
    return replace(one, status=StatusCode.ERROR, status_message=message, events=(event,))


TOLD: Final = chat(2, 1, i=40, o=10)
WRITTEN: Final = '[{"role": "assistant", "parts": [{"type": "text", "content": "Oslo"}]}]'
SILENT: Final = chat(3, 1)
SAID: Final = '[{"role": "assistant", "parts": [{"type": "text", "content": "Hi."}]}]'


@pytest.mark.parametrize(
    ("spans", "numbers", "lacking"),
    [
        pytest.param([agent(1), TOLD, chat(3, 1, i=1, o=2)], (41, 12, 53), "", id="all state it"),
        pytest.param([agent(1), TOLD, SILENT], (40, 10, 50), ALL, id="one of two is silent"),
        pytest.param([agent(1), SILENT], (None, None, None), "", id="nothing is stated"),
        pytest.param([agent(1), TOLD, chat(3, 1, i=5)], (45, 10, 55), "output total", id="a half"),
        pytest.param([TOLD, chat(3, 1, i=-1, o=-1)], (40, 10, 50), ALL, id="-1"),
        pytest.param([TOLD, chat(3, 1, i="-1", o=-1.0)], (40, 10, 50), ALL, id="-1 in other types"),
        pytest.param([TOLD, chat(3, 1, i=0, o=0, t=0)], (40, 10, 50), ALL, id="zeros of no count"),
        pytest.param([TOLD, chat(3, 1, i=7, o=0)], (47, 10, 57), "", id="an empty answer"),
        pytest.param(
            [TOLD, chat(3, 1, i=7, o=0, t=7, ends=("stop",))],
            (47, 10, 57), "output total", id="no output of an answer that ended",
        ),
        pytest.param(
            [TOLD, chat(3, 1, i=7, o=0, says=WRITTEN)],
            (47, 10, 57), "output total", id="no output of a text",
        ),
        pytest.param(
            [TOLD, chat(3, 1, i=7, o=0, ends=("content_filter",))],
            (47, 10, 57), "", id="no output of a filtered answer",
        ),
        pytest.param([agent(1, i=40, o=10), SILENT, chat(4, 1, i=40, o=10)], (40, 10, 50), ALL,
                     id="an agent that repeats its last call"),
        pytest.param([TOLD, chat(3, 1, t=30)], (40, 10, 80), "input output", id="a total alone"),
        pytest.param([TOLD, chat(3, 1, i="many", o=None)], (40, 10, 50), ALL, id="no numbers"),
        pytest.param([agent(1, i=99, o=33), TOLD, SILENT], (99, 33, 132), "", id="agent's total"),
        pytest.param(
            [agent(1, i=99, o=33), TOLD, chat(3, 1, i=5, o=5)], (45, 15, 60), "",
            id="an agent's total is not added to its calls",
        ),
        pytest.param(
            [agent(1, i=15, o=5), TOLD, SILENT], (40, 10, 50), ALL,
            id="less than its calls is no total",
        ),
        pytest.param([agent(1, i=30), agent(2, 1, i=10)], (30, None, None), "", id="agents"),
        pytest.param(
            [agent(1), agent(2, 1, i=30, o=3), agent(4, 1, i=10, o=1)], (40, 4, 44), "",
            id="two agents at one time",
        ),
        pytest.param(
            [agent(1, i=30, o=3), chat(2, 1), chat(30, i=5, o=5)], (35, 8, 43), "",
            id="a call beside the agent",
        ),
        pytest.param(
            [agent(1, i=30, o=3), chat(2, 1), chat(30)], (30, 3, 33), ALL,
            id="a silent call beside the agent",
        ),
        pytest.param(
            [chat(1, name="router"), chat(2, 1, i=7, o=3)], (7, 3, 10), "",
            id="a call around the one that states it",
        ),
        pytest.param(
            [agent(1, **{"gen_ai.aggregated_usage.input_tokens": 50,
                         "gen_ai.aggregated_usage.output_tokens": 11}), TOLD, SILENT],
            (50, 11, 61), "", id="pydantic-ai's aggregate",
        ),
        pytest.param([TOLD, failed(SILENT, "RateLimitError", "429")], (40, 10, 50), "", id="429"),
        pytest.param(
            [TOLD, replace(SILENT, attributes={**SILENT.attributes, "error.type": "401"})],
            (40, 10, 50), "", id="a bad key",
        ),
        pytest.param(
            [TOLD, failed(chat(3, 1, i=0, o=0), "APIError")], (40, 10, 50), "",
            id="a failed call with zeros",
        ),
        pytest.param(
            [TOLD, failed(chat(3, 1, i=9, o=0), "BadOutput")], (49, 10, 59), "",
            id="a failed call that states it",
        ),
        pytest.param(
            [TOLD, failed(chat(3, 1, **{"gen_ai.output.messages": SAID}), "ConnectionError")],
            (40, 10, 50), ALL, id="broken off after a part of its answer",
        ),
        pytest.param(
            [TOLD, failed(chat(3, 1, **{"gen_ai.response.id": "r1"}), "ReadError")],
            (40, 10, 50), ALL, id="broken off after its beginning",
        ),
        pytest.param(
            [TOLD, other(3, openinference__span__kind="LLM", llm__model_name="m")],
            (40, 10, 50), ALL, id="OpenInference, streamed",
        ),
        pytest.param(
            [other(3, openinference__span__kind="LLM", llm__token_count__prompt=-1,
                   llm__token_count__completion=4)],
            (None, 4, 4), "total", id="OpenInference, -1",
        ),
        pytest.param(
            [TOLD, other(3, llm__request__type="chat", llm__usage__total_tokens=9)],
            (40, 10, 59), "input output", id="OpenLLMetry, a total alone",
        ),
        pytest.param(
            [other(2, ai__operationId="ai.generateText.doGenerate", ai__usage__inputTokens=5,
                   ai__usage__outputTokens=6),
             other(3, ai__operationId="ai.streamText.doStream")],
            (5, 6, 11), ALL, id="Vercel AI SDK, streamed",
        ),
        pytest.param(
            [TOLD, other(3, langfuse__observation__type="generation",
                         langfuse__observation__usage_details='{"input": -1, "output": -1}')],
            (40, 10, 50), ALL, id="Langfuse, -1 in an object",
        ),
        pytest.param(
            [TOLD, other(3, mlflow__spanType='"LLM"')], (40, 10, 50), ALL, id="MLflow, none"
        ),
    ],
)  # fmt: skip
def test_a_part_is_no_sum(spans: list[Span], numbers: tuple[int | None, ...], lacking: str) -> None:
    """A sum over calls of which one does not state its tokens is the least that it can be."""
    work = agent_work(spans)
    assert (work.input_tokens, work.output_tokens, work.total_tokens) == numbers
    assert {name.removesuffix("_tokens") for name in work.missing} == set(lacking.split())


def outcome(spans: list[Span], task: AgentAssertionTask | TraceAssertionTask) -> str:
    record = EvalRecord({}, trace_id=TRACE)
    result = EvalDataset([record], [task], spans).evaluate().records[0].tasks[0]
    return str(result.outcome) + ("" if result.reason is None else f":{result.reason}")


@pytest.mark.parametrize(
    ("operator", "expected", "wanted"),
    [
        (Op.LessThanOrEqual, 100, "errored:not_told"),
        (Op.LessThan, 50, "failed"),
        (Op.LessThanOrEqual, 30, "failed"),
        (Op.Equals, 50, "errored:not_told"),
        (Op.Equals, 49, "failed"),
        (Op.NotEqual, 49, "passed"),
        (Op.GreaterThan, 40, "passed"),
        (Op.GreaterThan, 60, "errored:not_told"),
        (Op.InRange, [0, 100], "errored:not_told"),
        (Op.InRange, [0, 20], "failed"),
        (Op.IsNumeric, True, "passed"),
    ],
)
def test_an_outcome_that_more_tokens_could_turn_is_none(
    operator: Op, expected: JsonValue, wanted: str
) -> None:
    """A budget that the known part breaks is broken; all else that more could turn is open."""
    task = AgentAssertionTask("t", G.response_total_tokens(), expected, operator, source="spans")
    assert outcome([agent(1), TOLD, SILENT], task) == wanted


def test_the_message_names_the_call() -> None:
    work = agent_work([agent(1), TOLD, SILENT])
    assert work.missing["input_tokens"] == (
        f"the model's call {SILENT.span_id} does not state its input tokens"
    )


HALF: Final = [TOLD, SILENT, span(8, "pay", 1, (80, 85), {"cost": 1}), span(9, "log", 1, (90, 95))]


@pytest.mark.parametrize(
    ("filter", "key", "how", "operator", "expected", "wanted"),
    [
        ("chat m", IN, How.Sum, Op.LessThanOrEqual, 100, "errored:not_told"),
        ("chat m", IN, How.Sum, Op.LessThanOrEqual, 30, "failed"),
        ("chat m", IN, How.Sum, Op.GreaterThanOrEqual, 40, "passed"),
        ("chat m", IN, How.Max, Op.LessThanOrEqual, 40, "errored:not_told"),
        ("chat m", IN, How.Max, Op.LessThanOrEqual, 39, "failed"),
        ("chat m", IN, How.Average, Op.LessThanOrEqual, 100, "errored:not_told"),
        ("chat m", IN, How.Count, Op.Equals, 1, "passed"),
        ("chat m", IN, How.First, Op.Equals, 40, "passed"),
        ("", IN, How.Sum, Op.LessThanOrEqual, 100, "errored:not_told"),
        ("pay", "cost", How.Sum, Op.LessThanOrEqual, 100, "passed"),
        ("", "cost", How.Sum, Op.LessThanOrEqual, 100, "passed"),
    ],
)
def test_an_aggregate_of_attributes_that_lacks_a_span(
    filter: str, key: str, how: How, operator: Op, expected: JsonValue, wanted: str
) -> None:
    """An empty name selects by the attribute itself; a span of another kind lacks nothing."""
    by = SpanFilter.by_name(filter) if filter else SpanFilter.with_attribute(key)
    task = TraceAssertionTask("t", T.span_aggregation(by, key, how), expected, operator)
    assert outcome(HALF, task) == wanted


def test_aggregates_know_failed_calls_and_unknown_numbers() -> None:
    by, le = SpanFilter.with_attribute(IN), Op.LessThanOrEqual
    task = TraceAssertionTask("t", T.span_aggregation(by, IN, How.Sum), 100, le)
    assert outcome([TOLD, failed(SILENT, "RateLimitError")], task) == "passed"
    assert outcome([TOLD, chat(3, 1, i=-1)], task) == "errored:not_told"
    other_model = chat(3, 1, name="mini")
    assert outcome([TOLD, other_model], task) == "errored:not_told"
    charged = [span(at, "pay", None, (at, at + 1), {"cost": at}) for at in (1, 2)]
    costs = T.span_aggregation(SpanFilter.by_name("pay"), "cost", How.Sum)
    budget = TraceAssertionTask("t", costs, 100, le)
    assert outcome(charged, budget) == "passed"
    assert outcome([*charged, span(3, "pay")], budget) == "errored:not_told"


@pytest.mark.parametrize(
    ("usages", "numbers", "lacking"),
    [
        ([{"input_tokens": 5, "output_tokens": 2}] * 2, (10, 4, 14), ""),
        ([{"input_tokens": 5, "output_tokens": 2}, None], (5, 2, 7), ALL),
        ([{"prompt_tokens": 5}, {"completion_tokens": 2}], (5, 2, None), "input output"),
        ([{"input_tokens": -1, "output_tokens": 2}, None], (None, 2, None), "output"),
        ([None, None], (None, None, None), ""),
    ],
)
def test_a_conversation_of_which_an_answer_states_no_usage(
    usages: list[Mapping[str, int] | None], numbers: tuple[int | None, ...], lacking: str
) -> None:
    messages: list[JsonValue] = []
    for usage in usages:
        usage_of_answer: dict[str, JsonValue] = {"usage": {**usage}} if usage else {}
        messages.append({"role": "user", "content": "?"})
        messages.append({"role": "assistant", "content": "Hi.", **usage_of_answer})
    work = find_response({"messages": messages}, tuple(FORMATS))[1]
    assert (work.input_tokens, work.output_tokens, work.total_tokens) == numbers
    assert {name.removesuffix("_tokens") for name in work.missing} == set(lacking.split())
    task = AgentAssertionTask("t", G.response_output_tokens(), 100, Op.LessThanOrEqual)
    result = (
        EvalDataset([EvalRecord({"messages": messages})], [task]).evaluate().records[0].tasks[0]
    )
    is_open = "output" in lacking
    assert result.reason == ("not_told" if is_open else None if numbers[1] else "missing_path")
