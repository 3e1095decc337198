"""The message of a result names the place, the comparison, and the value that was found."""

import pytest

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.model.record import EvalRecord
from scouter.model.span import Span

TRACE = "0af7651916cd43dd8448eb211c80319c"
SPANS = [Span(trace_id=TRACE, span_id="b7ad6b7169203331", name="search", start_ns=0, end_ns=1)]
CALL = {"id": "c1", "type": "function", "function": {"name": "search", "arguments": "{}"}}
CONTEXT = {
    "order_id": "A-1",
    "answer": "Order A-2",
    "messages": [{"role": "assistant", "content": None, "tool_calls": [CALL]}],
}


@pytest.mark.parametrize(
    ("task", "message"),
    [
        pytest.param(
            AssertionTask("t", "answer", "${order_id}", "Contains"),
            '\'answer\' is "Order A-2", expected Contains "A-1"',
            id="a-failed-template-shows-what-it-resolved-to",
        ),
        pytest.param(
            AssertionTask("t", "order_id", "${order_id}", "Equals"),
            "'order_id': Equals \"A-1\" holds",
            id="a-passed-one-too",
        ),
        pytest.param(
            AgentAssertionTask(
                "t", AgentAssertion.tool_called("pay"), True, "Equals", context_path="messages"
            ),
            'ToolCalled(name="pay") is false, expected Equals true',
            id="the-tool-is-named",
        ),
        pytest.param(
            TraceAssertionTask(
                "t", TraceAssertion.span_count(SpanFilter.by_name("search")), 2, "Equals"
            ),
            'SpanCount(filter={"ByName": {"name": "search"}}) is 1, expected Equals 2',
            id="the-filter-is-shown",
        ),
        pytest.param(
            TraceAssertionTask("t", TraceAssertion.trace_span_count(), 1, "Equals"),
            "TraceSpanCount(): Equals 1 holds",
            id="no-arguments",
        ),
    ],
)
def test_message(task: Task, message: str) -> None:
    record = EvalRecord(CONTEXT, trace_id=TRACE)

    (result,) = next(iter(EvalDataset([record], [task], spans=SPANS).evaluate())).eval_set.records

    assert result.message == message


def test_results_compare_themselves() -> None:
    """The same record passes, then fails: 100 % to 0 % is a regression."""
    task = AssertionTask("t", "x", 1, "Equals")
    before = EvalDataset([EvalRecord({"x": 1}, id="r")], [task]).evaluate()
    after = EvalDataset([EvalRecord({"x": 2}, id="r")], [task]).evaluate()

    assert after.compare_to(before).regressed
    assert not before.compare_to(before).regressed
