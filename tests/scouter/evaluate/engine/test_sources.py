"""Sources of arguments and numbers, empty results, and failures that a later call makes good."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.model.record import EvalRecord
from scouter.model.span import AttributeValue, Span, StatusCode
from tests.scouter.evaluate.spans_support import span

Call = tuple[str, object, object]
"""A tool, its arguments, and its result: `FAILED`, `UNREPORTED`, or a value."""
FAILED, UNREPORTED = "<failed>", "<unreported>"
DEFINITION = [{"name": "find", "parameters": {"properties": {"cabin": {"enum": ["economy"]}}}}]


def work(*calls: Call, question: str = "", said: str = "") -> list[Span]:
    """An agent with these calls in this order."""
    agent: dict[str, AttributeValue] = {"gen_ai.operation.name": "invoke_agent"}
    if question:
        agent["gen_ai.input.messages"] = _message("user", question)
    if said:
        agent["gen_ai.output.messages"] = _message("assistant", said)
    spans = [span(1, "run", None, (0, 90), agent)]
    for at, (name, arguments, result) in enumerate(calls, 2):
        attributes: dict[str, AttributeValue] = {
            "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
            "gen_ai.tool.call.id": f"c{at}", "gen_ai.tool.call.arguments": json.dumps(arguments),
        }  # fmt: skip
        if result not in (FAILED, UNREPORTED):
            attributes["gen_ai.tool.call.result"] = json.dumps(result)
        status = StatusCode.ERROR if result == FAILED else StatusCode.UNSET
        spans.append(
            span(at, f"execute_tool {name}", 1, (at * 2, at * 2 + 1), attributes, status=status)
        )
    return spans


def _message(role: str, text: str) -> str:
    return json.dumps([{"role": role, "parts": [{"type": "text", "content": text}]}])


def value(assertion: AgentAssertion, spans: Sequence[Span]) -> object:
    """The value of an assertion, or the reason why it has none."""
    task = AgentAssertionTask("t", assertion, 0, "Equals", source="spans")
    result: EvalTaskResult = evaluate_record(
        compile_plan([task]), EvalRecord({}), SpanTree(spans)
    ).tasks[0]
    return result.reason or result.actual


ARGUMENTS: Final[Sequence[tuple[str, str, list[Call], object]]] = [
    ("said by the user", "pay A-17", [("pay", {"id": "A-17"}, 1)], 0),
    ("said by nobody", "pay A-17", [("pay", {"id": "A-18"}, 1)], 1),
    ("a result", "pay", [("look", {}, {"id": "A-18"}), ("pay", {"id": "A-18"}, 1)], 0),
    ("too late", "pay", [("pay", {"id": "A-18"}, 1), ("look", {}, {"id": "A-18"})], 1),
    ("a date as people write", "on May 20", [("find", {"date": "2024-05-20"}, 1)], 0),
    ("another date", "on May 20", [("find", {"date": "2024-05-21"}, 1)], 1),
    ("a number as people write", "1,200 euros", [("pay", {"sum": 1200}, 1)], 0),
    ("too small to tell", "two", [("pay", {"sum": 2, "ok": True, "to": "x"}, 1)], 0),
    ("deep inside", "a, b", [("pay", {"all": [{"id": "A-1"}, {"id": "A-2"}]}, 1)], 2),
    ("unreported", "pay", [("look", {}, UNREPORTED), ("pay", {"id": "A-18"}, 1)], "not_told"),
    ("no question", "", [("pay", {"id": "A-18"}, 1)], "not_told"),
]


@pytest.mark.parametrize(("name", "question", "calls", "count"), ARGUMENTS)
def test_arguments_without_a_source(
    name: str, question: str, calls: list[Call], count: object
) -> None:
    spans = work(*calls, question=question)

    assert value(AgentAssertion.unsourced_argument_count(), spans) == count, name


def test_only_named_arguments_count_and_definitions_are_sources() -> None:
    spans = work(("find", {"cabin": "economy", "note": "as usual"}, 1), question="book")
    attributes = {**spans[0].attributes, "gen_ai.tool.definitions": json.dumps(DEFINITION)}
    spans[0] = replace(spans[0], attributes=attributes)

    assert value(AgentAssertion.unsourced_argument_count(["cabin"]), spans) == 0
    assert value(AgentAssertion.unsourced_argument_count(["note"]), spans) == 1


@pytest.mark.parametrize(
    ("said", "count"),
    [
        ("It costs 120 euros.", 0),
        ("It costs 127 euros.", 1),
        ("It costs 120.50 and 99 euros.", 2),
        ("It comes on June 1st, for the order 17.", 0),
        ("It comes on June 2nd.", 1),
        ("It comes in 5 days.", 0),
    ],
)
def test_numbers_without_a_source(said: str, count: int) -> None:
    """The question has 17, the result 120 and a date; numbers of one digit tell nothing."""
    look: Call = ("look", {"id": 17}, {"total": 120, "due": "2026-06-01"})

    assert value(
        AgentAssertion.unsourced_number_count(), work(look, question="17?", said=said)
    ) == (count)


OUTCOMES: Final[Sequence[tuple[list[Call], int, object]]] = [
    ([("a", {"x": 1}, [])], 0, 1),
    ([("a", {"x": 1}, " "), ("b", {}, {}), ("b", {}, "text"), ("b", {}, 0)], 0, 2),
    ([("a", {"x": 1}, FAILED)], 1, 0),
    ([("a", {"x": 1, "y": 2}, FAILED), ("a", {"x": 1, "y": 3}, 5)], 0, 0),
    ([("a", {"x": 1}, FAILED), ("a", {"x": 2}, 5)], 1, 0),
    ([("a", {"x": 1}, FAILED), ("b", {"x": 1}, 5)], 1, 0),
    ([("a", {"x": 1}, 5), ("a", {"x": 1}, FAILED)], 1, 0),
    ([("a", {"x": 1}, FAILED), ("a", {"x": 1}, FAILED), ("a", {"x": 1}, 5)], 0, 0),
    ([("a", {}, FAILED), ("a", {}, 5)], 0, 0),
    ([("a", {}, UNREPORTED)], 0, "not_told"),
]


@pytest.mark.parametrize(("calls", "unrecovered", "empty"), OUTCOMES)
def test_empty_results_and_failures_made_good(
    calls: list[Call], unrecovered: int, empty: object
) -> None:
    assert value(AgentAssertion.unrecovered_tool_error_count(), work(*calls)) == unrecovered
    assert value(AgentAssertion.empty_result_count(), work(*calls)) == empty


def test_sources_are_read_from_spans_only() -> None:
    task = AgentAssertionTask("t", AgentAssertion.unsourced_number_count(), 0, "Equals")

    with pytest.raises(ConfigError, match="say source='spans'"):
        compile_plan([task])


@pytest.mark.parametrize(
    ("calls", "agent_failed", "failed"),
    [
        ([("a", {"x": 1, "y": 2}, FAILED), ("a", {"x": 1, "y": 3}, 5)], False, set[str]()),
        ([("a", {"x": 1}, FAILED), ("a", {"x": 2}, 5)], False, {"tools_recovered"}),
        ([("a", {"x": 1}, 5)], True, {"nothing_failed"}),
    ],
)
def test_agent_health_lets_an_agent_repair_what_failed(
    calls: list[Call], agent_failed: bool, failed: set[str]
) -> None:
    spans = work(*calls, question="a?", said="It is done.")
    if agent_failed:
        spans[0] = replace(spans[0], status=StatusCode.ERROR)
    plan = AgentEvalProfile.from_file("agent_health").plan
    results = evaluate_record(plan, EvalRecord({}), SpanTree(spans)).tasks

    assert {each.task_id for each in results if each.outcome != "passed"} == failed


@pytest.mark.parametrize(
    ("parent", "outcome"),
    [(0, "failed"), (99, "errored")],
    ids=["below what is here", "below what is missing, which may be a tool"],
)
def test_agent_health_fails_an_incomplete_trace_whose_failure_is_proven(
    parent: int, outcome: str
) -> None:
    spans = work(("a", {"x": 1}, 5), question="a?", said="It is done.")
    failed = replace(
        spans[-1],
        span_id="f" * 16,
        parent_span_id=spans[0].span_id if not parent else f"{parent:016x}",
        name="GET",
        attributes={},
        status=StatusCode.ERROR,
        start_ns=spans[-1].end_ns,
    )
    tree = SpanTree([*spans, failed], lost="a span was refused")
    results = evaluate_record(
        AgentEvalProfile.from_file("agent_health").plan, EvalRecord({}), tree
    ).tasks

    assert {r.task_id: str(r.outcome) for r in results}["nothing_failed"] == outcome
