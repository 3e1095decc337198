"""The spans that a result names: those that its task is about, and no more than twenty."""

from typing import Any

import pytest

from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.task_result import MOST_SPAN_IDS, EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertion, AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter, SpanStatus
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import (
    AggregationType,
    AttributeFilterTask,
    MultiResponseMode,
    TraceAssertion,
    TraceAssertionTask,
)
from scouter.model.record import EvalRecord
from tests.scouter.evaluate.spans_support import TRACE, agent_trace, span

A, F = TraceAssertion, SpanFilter
CHAT = F.by_name("chat")
IS_THREE = AttributeFilterTask.assertion(AssertionTask("inner", None, 3, Op.Equals))


def judged(task: Task, spans: SpanTree | None) -> EvalTaskResult:
    (result,) = evaluate_record(compile_plan([task]), EvalRecord(), spans).tasks
    return result


def named(result: EvalTaskResult) -> list[int]:
    return [int(span_id, 16) for span_id in result.span_ids]


@pytest.mark.parametrize(
    ("assertion", "expected"),
    [
        pytest.param(A.span_sequence(["search", "save"]), [3, 6], id="sequence"),
        pytest.param(A.span_set(["run", "fetch", "never"]), [1, 4], id="set"),
        pytest.param(A.span_count(CHAT), [2, 5], id="count"),
        pytest.param(A.span_count(F.sequence(["search", "fetch"])), [3, 4], id="runs"),
        pytest.param(A.span_exists(F.with_status(SpanStatus.Error)), [6], id="exists"),
        pytest.param(A.span_exists(F.by_name("never")), [], id="nothing"),
        pytest.param(A.span_duration(F.child_of(F.by_name("search"))), [4], id="duration"),
        pytest.param(A.span_attribute(CHAT, "nothing"), [2, 5], id="no-such-attribute"),
        pytest.param(A.span_aggregation(CHAT, "tokens", AggregationType.Max), [2, 5], id="max"),
        pytest.param(A.trace_attribute("user"), [1], id="trace-attribute"),
        pytest.param(A.trace_duration(), [1], id="trace-duration"),
        pytest.param(A.trace_span_count(), [1], id="trace-count"),
        pytest.param(A.trace_error_count(), [6], id="trace-errors"),
        pytest.param(A.trace_max_depth(), [4], id="trace-depth"),
        pytest.param(
            A.attribute_filter("size", IS_THREE, MultiResponseMode.All), [3, 4, 6], id="filter"
        ),
    ],
)
def test_a_trace_task_names_its_spans(assertion: TraceAssertion, expected: list[int]) -> None:
    """A task that passes, fails or is errored."""
    for wanted in (True, 10**9):
        assert (
            named(judged(TraceAssertionTask("t", assertion, wanted, Op.Equals), agent_trace()))
            == expected
        )


TOOL = {"gen_ai.operation.name": "execute_tool"}
MODEL = {"gen_ai.operation.name": "chat"}


def work(*, tools: bool = True) -> SpanTree:
    """A model call, two searches, a booking and a last model call; or the model calls alone."""
    messages = '[{"role": "assistant", "tool_calls": [{"function": {"name": "search"}}]}]'
    spans = [
        span(1, "chat", None, (0, 9), {**MODEL, "gen_ai.output.messages": messages}),
        span(2, "execute_tool search", 1, (1, 2), TOOL),
        span(3, "call", 1, (2, 3), {**TOOL, "gen_ai.tool.name": "search"}),
        span(4, "execute_tool book", 1, (3, 4), TOOL),
        span(5, "chat", None, (5, 6), MODEL),
    ]
    return SpanTree(spans if tools else [spans[0], spans[4]])


@pytest.mark.parametrize(
    ("assertion", "expected", "without_tools"),
    [
        pytest.param(AgentAssertion.tool_called("search"), [2, 3], [1, 5], id="called"),
        pytest.param(AgentAssertion.tool_not_called("book"), [4], [1, 5], id="not-called"),
        pytest.param(AgentAssertion.tool_called("never"), [], [1, 5], id="never"),
        pytest.param(AgentAssertion.tool_call_sequence(["book", "x"]), [4], [1, 5], id="sequence"),
        pytest.param(AgentAssertion.tool_call_count(), [2, 3, 4], [1, 5], id="all"),
        pytest.param(AgentAssertion.tool_argument("book", "to"), [4], [1, 5], id="argument"),
        pytest.param(AgentAssertion.response_model(), [5], [5], id="model"),
        pytest.param(AgentAssertion.response_total_tokens(), [1, 5], [1, 5], id="tokens"),
    ],
)
def test_an_agent_task_names_its_spans(
    assertion: AgentAssertion, expected: list[int], without_tools: list[int]
) -> None:
    """Executions of the tools in question; without any, the models that requested tools."""
    task = AgentAssertionTask("t", assertion, True, Op.Equals, source="spans")
    assert named(judged(task, work())) == expected
    assert named(judged(task, work(tools=False))) == without_tools


def test_no_more_than_twenty() -> None:
    """The first ones by time, of any number."""
    many = SpanTree([span(n + 1, "step", None, (n, n + 1)) for n in range(50)])
    task = TraceAssertionTask("t", A.span_count(F.by_name("step")), 50, Op.Equals)
    assert MOST_SPAN_IDS == 20
    assert named(judged(task, many)) == list(range(1, 21))


def test_where_there_are_no_spans() -> None:
    """Neither without a trace, nor of a trace that is too large to be read."""
    task = TraceAssertionTask("t", A.trace_span_count(), 1, Op.Equals)
    assert judged(task, None).span_ids == ()
    assert judged(task, SpanTree([])).span_ids == ()
    assert judged(task, SpanTree([span(1, "a")], unread="too many")).span_ids == ()
    of_context = AgentAssertionTask("t", AgentAssertion.tool_called("search"), True, Op.Equals)
    assert judged(of_context, work()).span_ids == ()


def test_they_are_stored_with_the_results(tmp_path: Any) -> None:
    tasks = [
        TraceAssertionTask("spans", A.span_count(CHAT), 2, Op.Equals),
        AssertionTask("field", "x", 1, Op.Equals),
    ]
    records = [EvalRecord({"x": 1}, trace_id=TRACE), EvalRecord({"x": 1})]
    results = EvalDataset(records, tasks, agent_trace().spans).evaluate()

    path = tmp_path / "results.json"
    path.write_text(results.model_dump_json(), encoding="utf-8")
    for found in (results, EvalResults.model_validate_json(path.read_text(encoding="utf-8"))):
        first, second = found.records
        assert [named(task) for task in first.tasks] == [[2, 5], []]
        assert [named(task) for task in second.tasks] == [[], []]
        assert named(first.tasks[0].seen_in("u", None)) == [2, 5]
    body = first.tasks[0].to_json()
    assert body["span_ids"] == ["0000000000000002", "0000000000000005"]
    assert "span_ids" not in first.tasks[1].to_json()
    assert EvalTaskResult.of(**body) == first.tasks[0]  # type: ignore[arg-type]
    assert first.tasks[0].outcome is Outcome.PASSED
