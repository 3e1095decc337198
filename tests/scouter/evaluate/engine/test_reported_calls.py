"""Calls that nobody reported are no calls that were not made."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.agent import AgentAssertion as G
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from tests.scouter.evaluate.spans_support import TRACE
from tests.scouter.model.genai.test_acts import made

PASS, FAIL, OPEN = "passed", "failed", "errored:not_told"


def run(
    spans: Sequence[Span],
    assertion: G,
    expected: JsonValue = True,
    operator: Op = Op.Equals,
    **kw: str,
) -> EvalTaskResult:
    task = AgentAssertionTask("t", assertion, expected, operator, source="spans")
    record = EvalRecord({}, trace_id=TRACE)
    return EvalDataset([record], [task], spans, **kw).evaluate().records[0].tasks[0]  # type: ignore[arg-type]


def outcome_of(result: EvalTaskResult) -> str:
    return str(result.outcome) + ("" if result.reason is None else f":{result.reason}")


def wrote(*calls: str, text: str = "", reason: str | None = None) -> str:
    """Output of a model, as its span's attribute."""
    parts: list[JsonValue] = []
    if text:
        parts.append({"type": "text", "content": text})
    for name in calls:
        parts.append({"type": "tool_call", "name": name, "id": f"c-{name}"})  # noqa: PERF401 — typed
    message: dict[str, JsonValue] = {"role": "assistant", "parts": parts}
    if reason:
        message["finish_reason"] = reason
    return json.dumps([message])


def model(id: int = 1, **reported: object) -> Span:
    return made(id, "model", "m", at=(id * 10, id * 10 + 9), **reported)  # type: ignore[arg-type]


AGENT = made(9, "agent", "travel", at=(0, 1000))
TOOL = made(5, "tool", "search", at=(50, 59))
CLAUDE = replace(AGENT, name="claude_code.interaction", attributes={"span.type": "interaction"})
ANSWER = model(2, output_messages=wrote(text="Sunny."))


@pytest.mark.parametrize(
    ("spans", "outcome"),
    [
        pytest.param([TOOL], PASS, id="a tool's span"),
        pytest.param([model(), TOOL], PASS, id="a tool's span beside a silent model"),
        pytest.param([ANSWER], PASS, id="every model tells its output"),
        pytest.param([ANSWER, model()], OPEN, id="one of two models is silent"),
        pytest.param([model(finish=("stop",))], PASS, id="a finish reason asks for none"),
        pytest.param([ANSWER, model(finish=("end_turn",))], PASS, id="output and finish reason"),
        pytest.param([model(output_messages=wrote())], OPEN, id="an output without content"),
        pytest.param(
            [model(output_messages=wrote(reason="stop"))], PASS, id="one that ended by itself"
        ),
        pytest.param([model(finish=("tool_calls",))], OPEN, id="a call that is not reported"),
        pytest.param([model(finish=("tool_use",))], OPEN, id="in Anthropic's word"),
        pytest.param([model(finish=("tool-calls",))], OPEN, id="in the word of the AI SDK"),
        pytest.param([model(finish=("FUNCTION_CALL",))], OPEN, id="in the former word of OpenAI"),
        pytest.param(
            [model(output_messages=wrote(reason="tool_call"))], OPEN, id="said by the message"
        ),
        pytest.param([model(finish=("tool_calls",)), TOOL], PASS, id="a call that is executed"),
        pytest.param(
            [model(finish=("tool_calls",)), model(2, finish=("tool_calls",)), TOOL],
            OPEN,
            id="one of two calls is executed",
        ),
        pytest.param(
            [TOOL, model(7, finish=("tool_calls",))],
            OPEN,
            id="an execution before its request",
        ),
        pytest.param(
            [model(finish=("tool_calls",), output_messages=wrote("find"))], PASS, id="it is written"
        ),
        pytest.param(
            [model(finish=("stop",), output_messages=wrote("find")), model(2, finish=("stop",))],
            OPEN,
            id="a finish reason that says stop of a call says nothing",
        ),
        pytest.param(
            [made(1, "model", "gemini-2.5-flash", finish=("STOP",))], OPEN, id="Google's say stop"
        ),
        pytest.param(
            [model(call="resp_1", finish=("stop",))], OPEN, id="those of Responses are made up"
        ),
        pytest.param([AGENT], OPEN, id="an agent alone"),
        pytest.param([CLAUDE], PASS, id="a convention with a span for every call"),
        pytest.param([CLAUDE, model()], OPEN, id="beside a silent model of another one"),
    ],
)
def test_when_calls_are_reported(spans: list[Span], outcome: str) -> None:
    result = run(spans, G.tool_not_called("delete"))
    assert outcome_of(result) == outcome
    assert result.actual is True


def test_each_trace_of_a_session_tells_for_itself() -> None:
    """The tool of one trace does not say that those of another have spans."""
    other = replace(model(), trace_id="f" * 32)
    records = [EvalRecord({}, session_id="s", trace_id=each) for each in (TRACE, "f" * 32)]
    task = AgentAssertionTask(
        "t", G.tool_not_called("pay"), True, Op.Equals, source="spans", scope="session"
    )
    for spans, outcome in (([TOOL, other], OPEN), ([TOOL, model(), model(2)], PASS)):
        results = EvalDataset(records, [task], spans).evaluate()
        assert outcome_of(results.sessions[0].tasks[0]) == outcome


def test_calls_that_the_next_call_of_the_model_was_given() -> None:
    """An answer that was streamed is often not reported; the conversation reports it."""
    question: list[JsonValue] = [{"role": "user", "content": "Weather?"}]
    call: dict[str, JsonValue] = {
        "id": "c1",
        "type": "function",
        "function": {"name": "find", "arguments": '{"q": 1}'},
    }
    past: list[JsonValue] = [
        {"role": "assistant", "tool_calls": [{**call, "id": "c0"}]},
        {"role": "tool", "tool_call_id": "c0", "content": "old"},
    ]
    larger: list[JsonValue] = [
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"sky": "sunny"}'},
    ]
    system: JsonValue = {"role": "system", "content": "Now it is noon."}
    spans = [
        model(1, input_messages=json.dumps([*question, *past])),
        model(
            2,
            input_messages=json.dumps([system, *question, *past, *larger]),
            output_messages=wrote(text="Sunny."),
        ),
    ]
    assert outcome_of(run(spans, G.tool_call_count(), 1)) == PASS
    assert outcome_of(run(spans, G.tool_result("find"), {"sky": "sunny"})) == PASS
    assert outcome_of(run(spans, G.tool_not_called("find"))) == FAIL
    assert outcome_of(run(spans, G.tool_not_called("delete"))) == PASS
    assert outcome_of(run(spans, G.response_content(), "Sunny.")) == PASS


def test_messages_and_spans_are_one_set() -> None:
    """A call that was refused has no span; one that a message leaves out has one."""
    spans = [
        model(1, output_messages=wrote("search", "pay"), finish=("tool_calls",)),
        made(5, "tool", "search", at=(25, 29), call="c-search"),
        made(6, "tool", "log", at=(26, 29)),
    ]
    assert outcome_of(run(spans, G.tool_call_count(), 3)) == PASS
    assert outcome_of(run(spans, G.tool_call_sequence(["search", "pay", "log"]))) == PASS
    assert outcome_of(run(spans, G.tool_called("pay"))) == PASS


def test_an_execution_under_another_id_is_the_same_call() -> None:
    """Frameworks give calls ids of their own; the name and the arguments are alike then."""
    part = {"type": "tool_call", "name": "find", "id": "find_0", "arguments": {"q": 1}}
    spans = [
        model(1, output_messages=json.dumps([{"role": "assistant", "parts": [part]}])),
        made(5, "tool", "find", at=(25, 29), call="adk-7", args='{"q": 1}'),
    ]
    assert outcome_of(run(spans, G.tool_call_count(), 1)) == PASS


SILENT = [model(1, output_messages=wrote("search")), model(2)]
"""One call is seen; the second answer is not reported."""


@pytest.mark.parametrize(
    ("assertion", "operator", "expected", "outcome"),
    [
        (G.tool_called("search"), Op.Equals, True, PASS),
        (G.tool_called("pay"), Op.Equals, True, OPEN),
        (G.tool_not_called("search"), Op.Equals, True, FAIL),
        (G.tool_not_called("pay"), Op.Equals, True, OPEN),
        (G.tool_not_called("pay"), Op.Equals, None, OPEN),
        (G.tool_call_count(), Op.GreaterThanOrEqual, 1, PASS),
        (G.tool_call_count(), Op.GreaterThan, 1, OPEN),
        (G.tool_call_count(), Op.LessThan, 1, FAIL),
        (G.tool_call_count(), Op.LessThanOrEqual, 3, OPEN),
        (G.tool_call_count(), Op.Equals, 1, OPEN),
        (G.tool_call_count(), Op.Equals, 0, FAIL),
        (G.tool_call_count("search"), Op.NotEqual, 0, PASS),
        (G.tool_call_sequence(["search"]), Op.Equals, True, PASS),
        (G.tool_call_sequence(["search", "pay"]), Op.Equals, True, OPEN),
        (G.tool_error_count(), Op.Equals, 0, OPEN),
        (G.response_model(), Op.Equals, "m", PASS),
    ],
)
def test_what_more_calls_could_turn(
    assertion: G, operator: Op, expected: JsonValue, outcome: str
) -> None:
    assert outcome_of(run(SILENT, assertion, expected, operator)) == outcome


def test_the_message_says_who_is_silent() -> None:
    message = run(SILENT, G.tool_not_called("pay")).message
    assert SILENT[1].span_id in message
    assert "tells neither what it wrote" in message


def test_no_genai_span_at_all_keeps_its_own_error() -> None:
    plain = made(1, "tool", "x")
    assert run([replace(plain, attributes={})], G.tool_not_called("pay")).reason == "no_spans"


# --- calls_told_by --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spans", "by", "outcome"),
    [
        ([model()], "spans", PASS),
        ([AGENT], "spans", PASS),
        ([model(finish=("tool_use",))], "spans", OPEN),
        ([model(), TOOL], "messages", OPEN),
        ([ANSWER, TOOL], "messages", PASS),
        ([ANSWER, TOOL], "nobody", OPEN),
    ],
)
def test_who_tells_of_calls(spans: list[Span], by: str, outcome: str) -> None:
    assert outcome_of(run(spans, G.tool_not_called("pay"), calls_told_by=by)) == outcome


def test_a_profile_says_it_for_all_its_tasks(tmp_path: Path) -> None:
    def tasks() -> list[Task]:
        return [
            AgentAssertionTask("a", G.tool_not_called("x"), True, Op.Equals, source="spans"),
            AgentAssertionTask(
                "b", G.tool_called("x"), True, Op.Equals, source="spans", calls_told_by="nobody"
            ),
            AgentAssertionTask("c", G.tool_called("x"), True, Op.Equals),
        ]

    plain = AgentEvalProfile(tasks(), alias="shop")
    profile = AgentEvalProfile(tasks(), alias="shop", calls_told_by="spans")
    assert [task.calls_told_by for task in profile.agent_assertion_tasks] == [
        "spans",
        "nobody",
        None,
    ]
    assert profile.digest != plain.digest
    again = AgentEvalProfile.from_file(profile.save_to_json(tmp_path / "shop.json"))
    assert (again, again.digest) == (profile, profile.digest)
    assert "calls_told_by" not in plain.model_dump(mode="json")
    with pytest.raises(ValueError, match="calls_told_by"):
        AgentEvalProfile(tasks(), calls_told_by="me")


# --- errors ---------------------------------------------------------------------------------------

FAILED = made(6, "tool", "pay", at=(60, 69))
BROKEN = Span(
    trace_id=TRACE, span_id="0" * 15 + "7", name="t", start_ns=70_000_000, end_ns=79_000_000,
    attributes={**FAILED.attributes, "error.type": "TimeoutError"},
)  # fmt: skip


@pytest.mark.parametrize(
    ("assertion", "value"),
    [
        (G.tool_error("pay"), "TimeoutError"),
        (G.tool_error("search"), None),
        (G.tool_error_count(), 1),
        (G.tool_error_count("pay"), 1),
        (G.tool_error_count("search"), 0),
        (G.tool_error_count("never"), 0),
    ],
)
def test_errors_of_tools(assertion: G, value: JsonValue) -> None:
    result = run([TOOL, FAILED, BROKEN], assertion, value)
    assert (outcome_of(result), result.actual) == (PASS, value)


def test_the_error_of_a_tool_that_was_not_called() -> None:
    result = run([TOOL], G.tool_error("pay"), None)
    assert (outcome_of(result), "'search'" in result.message) == ("errored:missing_path", True)


def test_an_outcome_that_nobody_tells_is_no_success() -> None:
    """The call is known from a message alone; its result is not."""
    spans = [model(1, output_messages=wrote("pay"))]
    assert outcome_of(run(spans, G.tool_error("pay"), None)) == "errored:missing_path"
    assert outcome_of(run(spans, G.tool_error_count(), 0)) == OPEN
    assert outcome_of(run(spans, G.tool_error_count(), 0, Op.GreaterThanOrEqual)) == PASS
    result = run(spans, G.tool_error_count(), 0)
    assert "the outcome of 1 of 1 calls is not reported" in result.message


def test_errors_in_a_response() -> None:
    """A conversation in a record's context tells of errors where its dialect marks them."""
    use: JsonValue = {"type": "tool_use", "id": "1", "name": "pay", "input": {}}
    request: JsonValue = {"role": "assistant", "content": [use]}
    failed: JsonValue = {
        "type": "tool_result", "tool_use_id": "1", "is_error": True, "content": "no",
    }  # fmt: skip
    rest: list[JsonValue] = [
        {"role": "user", "content": [failed]}, {"role": "assistant", "content": "Sorry."},
    ]  # fmt: skip
    tasks = [
        AgentAssertionTask("error", G.tool_error("pay"), "error", Op.Equals),
        AgentAssertionTask("count", G.tool_error_count(), 1, Op.Equals),
    ]
    records = [EvalRecord({"response": [request, *rest]}), EvalRecord({"response": [request]})]
    closed, opened = EvalDataset(records, tasks).evaluate().records
    assert [outcome_of(task) for task in closed.tasks] == [PASS, PASS]
    assert [outcome_of(task) for task in opened.tasks] == ["errored:missing_path", OPEN]


# --- guardrails -----------------------------------------------------------------------------------


def check(id: int, name: str = "pii", verdict: str = "", action: str = "") -> Span:
    spans = made(id, "guardrail", name, at=(id * 10, id * 10 + 5))
    attributes = {
        key: value
        for key, value in (
            ("gen_ai.guardrail.verdict.type", verdict),
            ("gen_ai.guardrail.action.type", action),
        )
        if value
    }
    return replace(spans, attributes={**spans.attributes, **attributes})


CHECKS = [
    check(1, verdict="allow", action="allow"),
    check(2, verdict="deny", action="allow"),
    check(3, "topics", verdict="warn", action="block"),
    check(4, "topics", verdict="allow", action="allow"),
]


@pytest.mark.parametrize(
    ("assertion", "value"),
    [
        (G.guardrail_verdict(), "deny"),
        (G.guardrail_action(), "allow"),
        (G.guardrail_verdict("topics"), "warn"),
        (G.guardrail_action("topics"), "block"),
        (G.guardrail_count(), 4),
        (G.guardrail_count("pii"), 2),
        (G.guardrail_count("never"), 0),
        (G.guardrail_count(verdict="deny", action="allow"), 1),
        (G.guardrail_count("topics", verdict="deny", action="allow"), 0),
        (G.guardrail_count(action="block"), 1),
    ],
)
def test_guardrails(assertion: G, value: JsonValue) -> None:
    result = run(CHECKS, assertion, value)
    assert (outcome_of(result), result.actual) == (PASS, value)


@pytest.mark.parametrize(
    ("spans", "assertion", "words"),
    [
        (CHECKS, G.guardrail_verdict("toxicity"), "those that have are 'pii', 'topics'"),
        ([TOOL], G.guardrail_verdict(), "those that have are none"),
        ([TOOL], G.guardrail_count(verdict="deny"), "those that have are none"),
        (
            [check(1)],
            G.guardrail_verdict(),
            "1 of 1 checks by guardrails do not tell their verdict",
        ),
        ([check(1, verdict="deny")], G.guardrail_action(), "do not tell their action"),
        (
            [check(1, verdict="deny"), check(2, verdict="allow", action="allow")],
            G.guardrail_count(verdict="deny", action="allow"),
            "1 of 2 checks by guardrails do not tell their action",
        ),
    ],
)
def test_what_guardrails_do_not_tell(spans: list[Span], assertion: G, words: str) -> None:
    result = run(spans, assertion, 0)
    assert outcome_of(result) == "errored:missing_path"
    assert words in result.message


def test_a_verdict_that_is_not_reported_is_no_matter_beside_the_strictest() -> None:
    assert run([check(1), check(2, verdict="deny")], G.guardrail_verdict(), "deny").message


def test_an_action_that_cannot_count_need_not_be_reported() -> None:
    spans = [check(1, verdict="warn"), check(2, verdict="deny", action="block")]
    assert outcome_of(run(spans, G.guardrail_count(verdict="deny", action="allow"), 0)) == PASS


def test_guardrails_are_in_spans_only() -> None:
    task = AgentAssertionTask("t", G.guardrail_count(), 0, Op.Equals)
    with pytest.raises(ConfigError, match="source='spans'"):
        EvalDataset([EvalRecord({})], [task])
