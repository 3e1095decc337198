"""Assertions without a record."""

import pytest
from pydantic import JsonValue

from scouter.evaluate.engine.execute import (
    execute_agent_assertion_tasks,
    execute_trace_assertion_tasks,
)
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.scouter.evaluate.spans_support import agent_trace


def test_trace_assertions() -> None:
    task = TraceAssertionTask("Count", TraceAssertion.trace_span_count(), 6, Op.Equals)
    results = execute_trace_assertion_tasks([task], agent_trace().spans)

    assert results["Count"].passed
    assert results["count"].actual == 6
    assert [name for name, _ in results.items()] == list(results) == ["count"]
    assert len(results) == 1
    with pytest.raises(RuntimeError, match="Key not found: other; the tasks are 'count'"):
        _ = results["other"]


def test_agent_assertions() -> None:
    response: JsonValue = {"role": "assistant", "content": "Blue.", "tool_calls": []}
    task = AgentAssertionTask("said", AgentAssertion.response_content(), "Blue", Op.Contains)
    assert execute_agent_assertion_tasks([task], {"response": response})["said"].passed
