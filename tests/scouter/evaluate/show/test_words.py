"""A task's definition in words."""

from typing import Any

import pytest

from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.show.definition import definition_of
from scouter.evaluate.show.words import Words
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.base import TaskBase
from scouter.evaluate.tasks.function import ReliabilityTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
from scouter.evaluate.tasks.trace import (
    AggregationType,
    AttributeFilterTask,
    MultiResponseMode,
    TraceAssertion,
    TraceAssertionTask,
)
from scouter.evaluate.tasks.trajectory import TrajectoryTask

PROMPT = Prompt("Rate ${answer} to ${question}.", "model-1", "house")
FILTER = SpanFilter.by_name("a").or_(SpanFilter.by_name("b")).and_(
    SpanFilter.with_status(SpanStatus.Error).not_()
)  # fmt: skip


def marked(words: Words) -> str:
    """Words with values of the profile in square brackets."""
    return "".join(f"[{part.text}]" if part.is_given else part.text for part in words)


def trace(assertion: TraceAssertion, expected: object, operator: str = "Equals") -> TaskBase:
    return TraceAssertionTask("t", assertion, expected, operator)


def agent(assertion: AgentAssertion, expected: object, operator: str = "Equals") -> TaskBase:
    return AgentAssertionTask("t", assertion, expected, operator, source="spans")


@pytest.mark.parametrize(
    ("task", "passes"),
    [
        (
            AssertionTask("t", "a.b", "${order.id}", "Contains"),
            "[a.b] contains the record's [order.id]",
        ),
        (
            AssertionTask("t", None, 4, "HasLengthLessThan"),
            "the whole value has less than [4] characters or items",
        ),
        (
            AssertionTask("t", "rows", [1, 2], "InRange", "n"),
            "[n] of each item of [rows] is between [1] and [2]",
        ),
        (AssertionTask("t", "a", "", "Equals"), '[a] is [""]'),
        (AssertionTask("t", "a", False, "IsNull"), "[a] is not null"),
        (AssertionTask("t", "a", operator="IsUrl"), "[a] is a URL"),
        (
            trace(TraceAssertion.span_duration(SpanFilter.by_name("tool x")), 150, "LessThan"),
            "the duration of each span named [tool x] is less than [150] ms",
        ),
        (
            trace(TraceAssertion.trace_duration(), [1, 9], "InRange"),
            "the duration of the trace is between [1] and [9] ms",
        ),
        (
            trace(TraceAssertion.span_count(FILTER), 0),
            "the number of spans (named [a] or named [b]) and other than those with the status "
            "[Error] is [0]",
        ),
        (
            trace(TraceAssertion.span_exists(SpanFilter.with_duration(2, 5.5)), False),
            "there is no span that took at least [2.0] ms and at most [5.5] ms",
        ),
        (
            trace(TraceAssertion.span_exists(SpanFilter.sequence(["a", "b"])), True),
            "there is a span in a run of the names [a], [b]",
        ),
        (
            trace(TraceAssertion.span_set(["a", "b"]), True, "NotEqual"),
            "one of these names has no span: [a], [b]",
        ),
        (
            trace(
                TraceAssertion.span_exists(
                    SpanFilter.by_scope("lib").child_of(SpanFilter.by_kind("Server"))
                ),
                True,
            ),
            "there is a span whose parent is one of the kind [Server]",
        ),
        (
            trace(
                TraceAssertion.span_aggregation(
                    SpanFilter.with_attribute("k"), "cost", AggregationType.Max
                ),
                3,
                "LessThan",
            ),
            "the greatest of [cost] on the spans with the attribute [k] is less than [3]",
        ),
        (
            trace(
                TraceAssertion.attribute_filter(
                    "out",
                    AttributeFilterTask.assertion(AssertionTask("i", "x", 1, "Equals")),
                    MultiResponseMode.All,
                ),
                True,
            ),
            "in the attribute [out] of each span that has it, [x] is [1]",
        ),
        (agent(AgentAssertion.tool_called("find"), True), "the tool [find] was called"),
        (agent(AgentAssertion.tool_not_called("find"), False), "the tool [find] was called"),
        (
            agent(AgentAssertion.tool_call_sequence(["a", "b"]), True),
            "the tools [a], [b] were called in this order",
        ),
        (
            agent(AgentAssertion.tool_call_count(), 3, "LessThanOrEqual"),
            "the number of calls of all tools is at most [3]",
        ),
        (
            agent(AgentAssertion.guardrail_count("pii", "deny"), 0),
            "the number of checks by [pii] with the verdict [deny] is [0]",
        ),
        (
            agent(AgentAssertion.tool_called("x"), "yes", "IsString"),
            "the tool [x] was called: this is a text",
        ),
        (
            LLMJudgeTask("t", PROMPT, 4, "score", "GreaterThanOrEqual"),
            "[score] of the judge's answer is at least [4]",
        ),
        (TrajectoryTask("t", "recall"), "the part of the expected calls that were made is [1]"),
        (
            TrajectoryTask("t", "single_tool_use", tool_name="find"),
            "the use of [find] (1 or 0) is [1]",
        ),
        (
            ReliabilityTask("t", ["a", "b"], order_matters=True),
            "the score (1 or 0) for calls of [a], [b] in this order is [1]",
        ),
    ],
)
def test_a_condition_is_a_sentence(task: TaskBase, passes: str) -> None:
    assert marked(definition_of(task.model_dump(mode="json")).passes) == passes


@pytest.mark.parametrize(
    ("task", "reads"),
    [
        (AssertionTask("t", "a.b", 1, "Equals"), "[a.b] of the context"),
        (
            AssertionTask("t", "a", ["${b.c}", "to ${d}, $${e}"], "ContainsAll"),
            "[a] of the context; expected value: [b.c], [d]",
        ),
        (trace(TraceAssertion.trace_max_depth(), 1), "the spans of the trace"),
        (
            agent(AgentAssertion.response_content(), "x"),
            "calls, messages and tokens on the spans of the trace",
        ),
        (
            AgentAssertionTask("t", AgentAssertion.response_content(), "x", "Equals"),
            "the whole context",
        ),
        (
            LLMJudgeTask("t", PROMPT, True, operator="Equals", reference="truth"),
            "[answer], [question], [truth] of the context",
        ),
        (
            TrajectoryTask("t", "recall"),
            "the calls of tools on the spans of the trace; expected calls: [expected_trajectory] "
            "of the context",
        ),
        (ReliabilityTask("t", ["a"], predicted="calls"), "[calls] of the context"),
    ],
)
def test_what_a_task_reads_is_reported(task: TaskBase, reads: str) -> None:
    assert marked(definition_of(task.model_dump(mode="json")).reads) == reads


def test_a_sentence_has_an_end() -> None:
    """A filter and a value may be of any size."""
    names: list[Any] = [SpanFilter.by_name(str(number)) for number in range(300)]
    joined = names[0]
    for each in names[1:]:
        joined = joined.or_(each)
    found = definition_of(trace(TraceAssertion.span_count(joined), 0).model_dump(mode="json"))
    assert marked(found.passes).endswith(" … is [0]")
    assert len(found.passes) < 100
    found = definition_of(AssertionTask("t", "a", "x" * 9_999, "Equals").model_dump(mode="json"))
    assert marked(found.passes) == f"[a] is [{'x' * 200}…]"


@pytest.mark.parametrize(
    ("when", "words", "is_of_spans"),
    [
        (
            {"context_path": "topic", "operator": "Equals", "expected_value": "refund"},
            "[topic] is [refund]",
            False,
        ),
        (
            {
                "assertion": {"ToolCalled": {"name": "pay"}}, "source": "spans",
                "operator": "Equals", "expected_value": True,
            },
            "the tool [pay] was called",
            True,
        ),
        (
            {
                "assertion": {"TraceSpanCount": {}}, "operator": "LessThan", "expected_value": 9,
            },
            "the number of spans in the trace is less than [9]",
            True,
        ),
    ],
)  # fmt: skip
def test_a_condition_is_reported(when: dict[str, Any], words: str, is_of_spans: bool) -> None:
    wire = AssertionTask("t", "a", 1, "Equals", when=when).model_dump(mode="json")
    found = definition_of(wire)
    assert (marked(found.when), found.is_of_spans) == (words, is_of_spans)


def test_a_check_in_python_is_reported() -> None:
    wire = {
        "task_type": "Code", "id": "t", "check": "polite", "source": "spans",
        "operator": "Equals", "expected_value": 1,
    }  # fmt: skip
    found = definition_of(wire)
    assert marked(found.passes) == "the result of the check [polite] (true is 1) is [1]"
    assert (found.kind, found.is_of_spans) == ("check in Python", True)


def test_a_judge_is_named_with_its_criteria() -> None:
    task = LLMJudgeTask(
        "t", PROMPT, True, "all_met", "Equals", depends_on=["gate"], condition=True,
        rubric={"kind": "Is it kind?"}, samples=3, sample_rate=0.5,
    )  # fmt: skip
    found = definition_of(task.model_dump(mode="json"))
    assert found.judge is not None
    assert (found.judge.model, found.judge.provider) == ("model-1", "house")
    assert (found.judge.samples, found.judge.sample_rate) == (3, 0.5)
    assert found.judge.criteria == [("kind", "Is it kind?")]
    assert found.judge.messages == [("user", "Rate ${answer} to ${question}.")]
    assert (found.kind, found.depends_on, found.is_gate) == ("judge", ["gate"], True)
