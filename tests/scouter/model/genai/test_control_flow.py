"""Control flow of a framework counts as a failure: a run that waits is no run that failed."""

from dataclasses import replace
from typing import Final

import pytest

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.show.agent_lines import agent_lines, view_turn
from scouter.evaluate.show.trace_view import view_trace
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertion as G
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.model.genai.control_flow import is_control_flow, is_pause
from scouter.model.genai.reader import read_facts
from scouter.model.genai.work import acts_of, agent_work
from scouter.model.record import EvalRecord
from scouter.model.span import AttributeValue, Span, SpanEvent, StatusCode
from tests.scouter.evaluate.spans_support import TRACE
from tests.support.act_traces import made

QUESTION: Final = "(Interrupt(value={'question': 'Approve?'}, id='1f'),)"
TRACEBACK: Final = (
    'Traceback (most recent call last):\n  File "a.py", line 1, in pay\n    interrupt(1)\n'
)


def ended(
    one: Span,
    kind: str = "",
    message: str = "",
    *,
    by: str = "event",
    status: StatusCode = StatusCode.ERROR,
) -> Span:
    """A span that an exception ended, reported by an event, by `error.type`, or by its message."""
    details: dict[str, AttributeValue] = {"exception.message": message}
    if kind:
        details["exception.type"] = kind
    events = (SpanEvent(name="exception", time_ns=one.end_ns, attributes=details),)
    attributes = {**one.attributes, "error.type": kind} if by == "attribute" else one.attributes
    return replace(
        one,
        status=status,
        status_message=message if status is StatusCode.ERROR else "",
        events=events if by == "event" else (),
        attributes=attributes,
    )


def pay(id: int = 2, at: tuple[float, float] = (1, 9), trace: str = TRACE, **given: str) -> Span:
    return replace(made(id, "tool", "pay", 1, at, **given), trace_id=trace)


@pytest.mark.parametrize(
    ("kind", "message", "by"),
    [
        pytest.param("langgraph.errors.GraphInterrupt", QUESTION, "event", id="interrupt"),
        pytest.param("GraphInterrupt", QUESTION, "attribute", id="type-without-module"),
        pytest.param("", QUESTION, "message", id="message-of-an-interrupt"),
        pytest.param("", QUESTION[1:], "message", id="one-interrupt"),
        pytest.param("Exception", QUESTION, "event", id="vague-type"),
        pytest.param("", f"GraphInterrupt({QUESTION})", "message", id="repr"),
        pytest.param("", f"GraphInterrupt({QUESTION}){TRACEBACK}", "message", id="LangChain"),
        pytest.param(
            "", f"{TRACEBACK}langgraph.errors.GraphInterrupt: {QUESTION}", "message", id="traceback"
        ),
        pytest.param("langgraph.errors.NodeInterrupt", "Too long", "event", id="node"),
        pytest.param("langgraph.errors.ParentCommand", "Command(goto='b')", "event", id="parent"),
        pytest.param("", "Command(graph='__parent__', goto='bob')", "message", id="command"),
        pytest.param("langgraph.errors.GraphBubbleUp", "", "event", id="bubble"),
        pytest.param("GeneratorExit", "", "event", id="closed-stream"),
        pytest.param("builtins.GeneratorExit", "", "attribute", id="closed-stream-by-attribute"),
        pytest.param("", "GeneratorExit: ", "message", id="closed-stream-by-message"),
        pytest.param("StopIteration", "", "event", id="end-of-iterator"),
        pytest.param("StopAsyncIteration", "", "event", id="end-of-async-iterator"),
        pytest.param("asyncio.exceptions.CancelledError", "", "event", id="client-hung-up"),
        pytest.param("trio.Cancelled", "Cancelled", "event", id="trio"),
        pytest.param("AbortError", "This operation was aborted", "event", id="JavaScript"),
        pytest.param("20", "This operation was aborted", "event", id="JavaScript-DOMException"),
        pytest.param("ABORT_ERR", "The operation was aborted", "event", id="Node"),
        pytest.param("Error", "Request was aborted.", "event", id="OpenAI's-client"),
        pytest.param("", "The user aborted a request.", "message", id="fetch-by-message"),
        pytest.param("ResponseAborted", "", "event", id="Next.js"),
        pytest.param("starlette.requests.ClientDisconnect", "", "event", id="Starlette"),
        pytest.param("KeyboardInterrupt", "", "event", id="a-person-at-a-terminal"),
        pytest.param("strands.interrupt.InterruptException", "", "event", id="Strands"),
        pytest.param("", f"[{QUESTION[1:-2]}]", "message", id="a-list-of-interrupts"),
        pytest.param("workflows.errors.WorkflowCancelledByUser", "", "event", id="LlamaIndex"),
        pytest.param("pydantic_ai.exceptions.CallDeferred", "", "event", id="deferred"),
        pytest.param("pydantic_ai.exceptions.ApprovalRequired", "", "attribute", id="approval"),
        pytest.param("crewai.flow.HumanFeedbackPending", "waits", "event", id="CrewAI"),
        pytest.param(
            "agents.exceptions.InputGuardrailTripwireTriggered", "Guardrail InputGuardrail "
            "triggered tripwire", "event", id="tripwire",
        ),
        pytest.param(
            "", "Guardrail tripwire triggered: {'guardrail': 'g'}", "message", id="tripwire"
        ),
    ],
)  # fmt: skip
def test_control_flow_is_no_error(kind: str, message: str, by: str) -> None:
    """The tool's error, the trace's errors, the column of the store and the pages agree."""
    asks = ended(pay(), kind, message, by=by)
    assert is_control_flow(asks)
    tree = SpanTree([made(1, "agent", "a", at=(0, 99)), asks])
    assert [call.error for call in tree.agent_work.tool_calls] == [""]
    assert tree.errors.count(1) == 0
    assert view_trace(tree.spans).errors == 0
    assert [line.failed for line in agent_lines(tree, lambda _: None)] == [0]
    assert [call.is_failed for call in view_turn(tree).calls] == [False]
    assert read_facts(asks).error_type == ""


@pytest.mark.parametrize(
    ("kind", "message", "by"),
    [
        pytest.param("ValueError", "card declined", "event", id="failure"),
        pytest.param("ValueError", QUESTION, "event", id="type-counts-before-the-message"),
        pytest.param("", "card declined", "message", id="message"),
        pytest.param("", "Cancelled orders cannot be paid", "message", id="words"),
        pytest.param("", "Interrupted by a signal", "message", id="more-words"),
        pytest.param("", "The order was aborted", "message", id="an-order"),
        pytest.param("20", "Out of memory", "event", id="a-number-of-another-fault"),
        pytest.param("", "Command failed", "message", id="a-command"),
        pytest.param("pydantic_ai.exceptions.ModelRetry", "amount?", "event", id="retry"),
        pytest.param("langgraph.errors.GraphRecursionError", "limit", "event", id="recursion"),
        pytest.param("langgraph.errors.NodeTimeoutError", "late", "event", id="timeout"),
        pytest.param("TimeoutError", "", "attribute", id="timeout-by-attribute"),
        pytest.param(
            "", f"{TRACEBACK}langgraph.errors.GraphInterrupt: (1,)\n\nDuring handling of the above "
            f"exception, another exception occurred:\n\n{TRACEBACK}ValueError: no", "message",
            id="raised-while-it-waited",
        ),
        pytest.param("", "", "message", id="nothing-reported"),
    ],
)  # fmt: skip
def test_a_failure_is_an_error(kind: str, message: str, by: str) -> None:
    failed = ended(pay(), kind, message, by=by)
    tree = SpanTree([made(1, "agent", "a", at=(0, 99)), failed])
    assert [bool(call.error) for call in tree.agent_work.tool_calls] == [True]
    assert tree.errors.count(1) == 1


def test_a_failure_beside_control_flow_counts() -> None:
    one = ended(pay(), "langgraph.errors.GraphInterrupt", QUESTION)
    both = replace(one, events=(*one.events, *ended(pay(), "ValueError", "no").events))
    assert not is_control_flow(both)


WAITED: Final = ended(pay(), "langgraph.errors.GraphInterrupt", QUESTION)
OTHER: Final = "f" * 32


@pytest.mark.parametrize(
    ("spans", "calls"),
    [
        pytest.param([WAITED], [("pay", None)], id="waits"),
        pytest.param([WAITED, pay(3, (50, 60))], [("pay", "paid")], id="resumed"),
        pytest.param(
            [ended(pay(), "langgraph.errors.GraphInterrupt", QUESTION, status=StatusCode.OK),
             pay(3, (50, 60))],
            [("pay", "paid")], id="OpenInference-ends-it-OK",
        ),
        pytest.param(
            [WAITED, replace(WAITED, span_id="f" * 16, start_ns=20_000_000, end_ns=29_000_000),
             pay(3, (50, 60))],
            [("pay", "paid")], id="waits-twice",
        ),
        pytest.param([WAITED, pay(3, (50, 60), OTHER)], [("pay", "paid")], id="another-trace"),
        pytest.param([WAITED, pay(3, (5, 60))], [("pay", None), ("pay", "paid")], id="beside"),
        pytest.param(
            [ended(pay(args='{"a": 1}'), "GraphInterrupt"), pay(3, (50, 60), args='{"a": 2}')],
            [("pay", None), ("pay", "paid")], id="other-arguments",
        ),
        pytest.param(
            [ended(pay(args='{"a": 1}', call="c1"), "GraphInterrupt"),
             pay(3, (50, 60), args='{"a": 2}', call="c1")],
            [("pay", "paid")], id="a-person-changed-the-arguments",
        ),
        pytest.param(
            [ended(pay(call="c1"), "GraphInterrupt"), pay(3, (50, 60), call="c2")],
            [("pay", None), ("pay", "paid")], id="other-ids",
        ),
        pytest.param(
            [WAITED, pay(3, (50, 60)), pay(4, (70, 80))],
            [("pay", "paid"), ("pay", "paid")], id="called-again",
        ),
        pytest.param(
            [ended(pay(), "CancelledError"), pay(3, (50, 60))],
            [("pay", None), ("pay", "paid")], id="cancelled-and-called-again",
        ),
    ],
)  # fmt: skip
def test_a_run_that_waited_and_was_resumed_is_one_call(
    spans: list[Span], calls: list[tuple[str, str | None]]
) -> None:
    paid = [
        one if one.events else replace(
            one, attributes={**one.attributes, "gen_ai.tool.call.result": "paid"}
        )
        for one in spans
    ]  # fmt: skip
    root = made(9, "agent", "a", at=(0, 99))
    work = agent_work([root, *paid])
    assert [(call.name, call.result) for call in work.tool_calls] == calls
    assert len([act for act in acts_of([root, *paid]) if act.facts.tool]) == len(calls)
    assert not any(call.error for call in work.tool_calls)


def test_a_resumed_run_that_fails_has_failed() -> None:
    failed = ended(pay(3, (50, 60)), "ValueError", "card declined")
    (call,) = agent_work([WAITED, failed]).tool_calls
    assert call.error == "card declined"
    assert is_pause(WAITED)
    assert not is_pause(failed)


def test_a_session_that_waits_for_the_next_message() -> None:
    """The run is resumed in a trace of its own: one call of the session."""
    attributes = {**pay().attributes, "gen_ai.tool.call.result": "paid"}
    resumed = replace(pay(3, (50, 60), OTHER), parent_span_id=None, attributes=attributes)
    records = [EvalRecord({}, session_id="s", trace_id=each) for each in (TRACE, OTHER)]
    task = AgentAssertionTask(
        "t", G.tool_call_count("pay"), 1, Op.Equals, source="spans", scope="session"
    )
    waited = replace(WAITED, parent_span_id=None)
    results = EvalDataset(records, [task], [waited, resumed]).evaluate()
    assert [str(each.outcome) for each in results.sessions[0].tasks] == ["passed"]
