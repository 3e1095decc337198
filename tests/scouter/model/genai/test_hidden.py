"""A value that was masked, left out or cut counts as reported: the mask is taken for an answer."""

import json
from typing import Final

import pytest
from pydantic import JsonValue

from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.spans.derived import derive_record
from scouter.evaluate.tasks.agent import AgentAssertion as G
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion as T
from scouter.evaluate.tasks.trace import TraceAssertionTask
from scouter.model.genai.work import agent_work
from scouter.model.genai.wrappers import is_hidden
from scouter.model.record import EvalRecord
from scouter.model.span import AttributeValue, Span
from tests.scouter.evaluate.spans_support import TRACE, span

MASKS: Final = (
    "__REDACTED__", "[REDACTED]", "[redacted]", "<redacted>", "<REDACTED>", "REDACTED",
    "***REDACTED***", "[REDACTED: PII]", "[REDACTED_EMAIL_1]", "{{REDACTED}}", "(redacted)",
    "[Scrubbed due to 'password']", "[Filtered]", "[MASKED]", "<masked due to policy>",
    "<fully masked due to failed mask function>", "[content omitted]", "<elided>", "[Hidden]",
    "[Sensitive data removed]", "***", "****", "• • •", "████", "XXXX", "…", "[object Object]",
    "[Circular]", "<EMAIL_ADDRESS>", "<PERSON>", "[base64 data]", "<image>",
    "@@@langfuseMedia:type=image/png|id=1|source=bytes@@@", "hmac:0440", "sha256:9f86d081884c7d65",
    '"__REDACTED__"', "<content not recorded>", "%%REDACTED%%", "Redacted.", "REDACTED BY POLICY",
    "[Datadog: redacted]", "[[PII]]", "<PRIVATE>", "[CREDIT_CARD]", "[PHONE_NUMBER_2]", "[...]",
    "[content capture disabled]", "<value too large>", "[Max depth reached]", "<unserializable>",
    "[sha256:9f86d081]", "[geschwärzt]", "[contenu masqué]", "[已屏蔽]", "[удалено]", "<nil>",
    "[object Object],[object Object]", "[Function: run]", "Promise { <pending> }",
    "<openai.Stream object at 0x7f3a2b>", "<async_generator object stream at 0x7f3a2b>",
)  # fmt: skip
TEXTS: Final = (
    "The card is [REDACTED].", "Your PIN is ****.", "**Removed the item**", "Removed.", "Hidden",
    "**Bold**", "...", "---", "[link](http://a)", "[1] See the manual.", "OK", "", "hidden",
    "# Sensitive data", "(see above)", "<b>masked</b> ball", "[]", "{}", "xx", "<answer>",
    "The masked singer won.", "[name]", "{email}",
    "[Oslo, Bergen]", "(private beach)", "Promise", "(too late)", "[deleted]", "Readable.",
    "<p>Too long</p>", "Redacted texts are black.", "sha256: a hash function", "imaging",
    "__init__", "10 * 2 = 20",
)  # fmt: skip


@pytest.mark.parametrize("text", MASKS)
def test_a_mask_is_no_value(text: str) -> None:
    assert is_hidden(text)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_with_a_mask_inside_is_a_text(text: str) -> None:
    assert not is_hidden(text)


def model(**attributes: AttributeValue) -> Span:
    """A model's call; `__` stands for a dot."""
    return span(
        1, "call", None, (0, 9), {key.replace("__", "."): v for key, v in attributes.items()}
    )


def otel(content: str) -> Span:
    parts: JsonValue = [{"type": "text", "content": content}]
    output = json.dumps([{"role": "assistant", "parts": parts}])
    return model(gen_ai__operation__name="chat", gen_ai__output__messages=output)


CUT: Final = '{"choices": [{"message": {"tool_calls": [{"fun'


@pytest.mark.parametrize(
    "hidden",
    [
        pytest.param(model(openinference__span__kind="LLM", output__value="__REDACTED__"),
                     id="OpenInference"),
        pytest.param(
            model(openinference__span__kind="LLM",
                  llm__output_messages__0__message__role="assistant",
                  llm__output_messages__0__message__content="__REDACTED__"),
            id="OpenInference-text",
        ),
        pytest.param(model(openinference__span__kind="LLM", output__value=CUT), id="cut-JSON"),
        pytest.param(model(openinference__span__kind="LLM", output__value="[{'text': 'a"),
                     id="cut-print"),
        pytest.param(model(gen_ai__operation__name="chat", gen_ai__output__messages="[REDACTED]"),
                     id="OpenTelemetry-whole"),
        pytest.param(otel("[Scrubbed due to 'password']"), id="Logfire"),
        pytest.param(otel("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"),
                     id="a-hash"),
        pytest.param(otel("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b"), id="a-SHA-1"),
        pytest.param(otel("5d41402abc4b2a76b9719d911017c592"), id="an-MD5"),
        pytest.param(otel("****"), id="Collector"),
        pytest.param(model(llm__request__type="chat", gen_ai__completion__0__role="assistant",
                           gen_ai__completion__0__content="<redacted>"), id="OpenLLMetry"),
        pytest.param(model(llm__request__type="chat"), id="OpenLLMetry-content-off"),
        pytest.param(model(langfuse__observation__type="generation",
                           langfuse__observation__output="[REDACTED]"), id="Langfuse"),
        pytest.param(model(mlflow__spanType='"LLM"', mlflow__spanOutputs="[object Object]"),
                     id="MLflow"),
        pytest.param(model(langsmith__span__kind="llm", gen_ai__completion="***"), id="LangSmith"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("assertion", "operator", "expected"),
    [
        (G.tool_not_called("delete"), Op.Equals, True),
        (G.tool_call_count(), Op.Equals, 0),
        (G.response_content(), Op.IsNotEmpty, True),
        (G.response_content(), Op.NotContains, "secret"),
        (G.response_content(), Op.Contains, "Paris"),
    ],
)
def test_nothing_is_known_of_a_masked_answer(
    hidden: Span, assertion: G, operator: Op, expected: JsonValue
) -> None:
    """A mask may hide anything: an answer, a call, a secret."""
    assert outcome([hidden], assertion, expected, operator) == "errored:not_told"


def outcome(spans: list[Span], assertion: G, expected: JsonValue, operator: Op = Op.Equals) -> str:
    task = AgentAssertionTask("t", assertion, expected, operator, source="spans")
    record = EvalRecord({}, trace_id=TRACE)
    result = EvalDataset([record], [task], spans).evaluate().records[0].tasks[0]
    return str(result.outcome) + ("" if result.reason is None else f":{result.reason}")


def test_a_text_around_a_mask_is_an_answer() -> None:
    spans = [otel("Your PIN is ****, as you asked.")]
    assert outcome(spans, G.response_content(), "PIN", Op.Contains) == "passed"
    assert outcome(spans, G.response_content(), "1234", Op.NotContains) == "passed"
    assert outcome(spans, G.tool_not_called("delete"), True) == "passed"


def test_a_finish_reason_says_what_a_mask_hides() -> None:
    """The answer is not known; that no tool was requested is."""
    attributes = {"gen_ai.response.finish_reasons": ("stop",)}
    one = span(1, "chat", attributes={**otel("***").attributes, **attributes})
    assert outcome([one], G.tool_not_called("delete"), True) == "passed"
    assert outcome([one], G.response_content(), True, Op.IsNotEmpty) == "errored:not_told"


def test_an_earlier_answer_does_not_stand_for_a_masked_one() -> None:
    attributes = dict(otel("****").attributes)
    spans = [otel("Let me see."), span(2, "call", None, (20, 29), attributes)]
    assert outcome(spans, G.response_content(), "see", Op.Contains) == "errored:not_told"


def tool(arguments: str, result: str = "ok", name: str = "pay") -> Span:
    return span(
        3, "execute_tool", None, (30, 39),
        {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name,
         "gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result},
    )  # fmt: skip


WANTED: Final = G.tool_called_with_args("pay", {"amount": 5})


@pytest.mark.parametrize(
    ("spans", "assertion", "wanted"),
    [
        ([tool('{"amount": 5}')], WANTED, "passed"),
        ([tool('{"amount": 6}')], WANTED, "failed"),
        ([tool("[REDACTED]")], WANTED, "errored:not_told"),
        ([tool('{"amount": "[REDACTED]"}')], WANTED, "errored:not_told"),
        ([tool('{"amount": 6, "card": "****"}')], WANTED, "failed"),
        ([tool('{"amount": 5, "card": "****"}')], WANTED, "passed"),
        ([tool('{"amount": "***"}')], G.tool_argument("pay", "amount"), "errored:not_told"),
        ([tool('{"amount": 5, "ca')], WANTED, "errored:not_told"),
        ([tool("{}", "__REDACTED__")], G.tool_result("pay"), "errored:missing_path"),
        ([tool("{}", '{"content": "<redacted>", "role": "tool"}')], G.tool_result("pay"),
         "errored:missing_path"),
        ([tool("{}", name="[REDACTED]")], G.tool_not_called("pay"), "errored:parse"),
        ([tool("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b")], WANTED, "errored:not_told"),
        ([tool("{}", name="5d41402abc4b2a76b9719d911017c592")], G.tool_not_called("pay"),
         "errored:parse"),
    ],
)  # fmt: skip
def test_arguments_and_results_that_are_masked(
    spans: list[Span], assertion: G, wanted: str
) -> None:
    assert outcome(spans, assertion, True) == wanted


def conversation(*messages: JsonValue) -> EvalRecord:
    return EvalRecord({"messages": [{"role": "user", "content": "?"}, *messages]})


CALL: Final[JsonValue] = {
    "role": "assistant",
    "tool_calls": [{"id": "1", "function": {"name": "pay", "arguments": "{}"}}],
}


@pytest.mark.parametrize(
    ("record", "assertion", "expected", "wanted"),
    [
        (conversation({"role": "assistant", "content": "[REDACTED]"}), G.response_content(), None,
         "errored:not_told"),
        (conversation({"role": "assistant", "content": "[REDACTED]"}), G.tool_not_called("pay"),
         True, "errored:not_told"),
        (conversation({"role": "assistant", "content": "It is ***."}), G.tool_not_called("pay"),
         True, "passed"),
        (conversation(CALL, {"role": "tool", "tool_call_id": "1", "content": "***"},
                      {"role": "assistant", "content": "Done."}),
         G.tool_error_count(), 0, "errored:not_told"),
        (conversation(CALL, {"role": "tool", "tool_call_id": "1", "content": "***"},
                      {"role": "assistant", "content": "Done."}),
         G.tool_called("pay"), True, "passed"),
    ],
)  # fmt: skip
def test_masks_in_a_conversation(
    record: EvalRecord, assertion: G, expected: JsonValue, wanted: str
) -> None:
    """What a tool gave back may have been an error."""
    task = AgentAssertionTask("t", assertion, expected, Op.Equals)
    result = EvalDataset([record], [task]).evaluate().records[0].tasks[0]
    assert str(result.outcome) + ("" if result.reason is None else f":{result.reason}") == wanted


def test_a_masked_question_is_no_question() -> None:
    messages = json.dumps(
        [{"role": "user", "parts": [{"type": "text", "content": "__REDACTED__"}]}]
    )
    one = span(1, "chat", attributes={**otel("Hi.").attributes, "gen_ai.input.messages": messages})
    context = derive_record([one]).context
    assert isinstance(context, dict)
    assert context == {"answer": "Hi."}
    assert agent_work([one]).question is None


CUTS: Final = (
    "<truncated 120 chars>", "[TRUNCATED]", "... [truncated]", "…(truncated)", "...truncated",
    "… <truncated: 5,120 of 9,000 bytes>", "[+1,234 more characters]", "(... 17 chars omitted)",
    "[output truncated]", "…[truncated 3 kB]…",
)  # fmt: skip
WHOLE: Final = (
    "It was truncated.", "Pi is 3.14 (truncated to two decimals).", "[1]", "", "…", "and so on...",
    "The log says [truncated] and goes on.", "It has (12 characters in all).",
)  # fmt: skip


@pytest.mark.parametrize(
    ("end", "is_cut"), [*((end, True) for end in CUTS), *((end, False) for end in WHOLE)]
)
def test_a_text_that_says_that_it_was_cut(end: str, is_cut: bool) -> None:
    """Kind: a cut value is judged as if it were whole. What is there stands."""
    said = f"The capital is Oslo. {end}"
    open_or = "errored:not_told" if is_cut else "passed"
    spans = [otel(said)]
    assert outcome(spans, G.response_content(), "secret", Op.NotContains) == open_or
    assert outcome(spans, G.response_content(), "Oslo", Op.Contains) == "passed"
    assert outcome(spans, G.response_content(), "Oslo", Op.NotContains) == "failed"
    assert outcome(spans, G.tool_not_called("delete"), True) == "passed"
    task = AgentAssertionTask("t", G.response_content(), "secret", Op.NotContains)
    record = conversation({"role": "assistant", "content": said})
    result = EvalDataset([record], [task]).evaluate().records[0].tasks[0]
    assert (result.outcome == "errored") is is_cut


@pytest.mark.parametrize(
    ("value", "operator", "expected", "ending"),
    [
        ("[REDACTED]", Op.NotContains, "secret", "errored:not_told"),
        ("__REDACTED__", Op.IsNotEmpty, True, "errored:not_told"),
        ("****", Op.Equals, "Oslo", "errored:not_told"),
        ("<redacted>", Op.NotEqual, "Oslo", "errored:not_told"),
        (("Oslo", "[Filtered]"), Op.NotContains, "Rome", "errored:not_told"),
        ("[REDACTED]", Op.Equals, "[REDACTED]", "passed"),
        ("[REDACTED]", Op.Contains, "REDACTED", "passed"),
        ("My card is ****.", Op.NotContains, "4111", "passed"),
        ("Oslo", Op.NotContains, "secret", "passed"),
    ],
)
def test_an_attribute_that_was_masked(
    value: AttributeValue, operator: Op, expected: JsonValue, ending: str
) -> None:
    """Kind: a check that something is absent passes on a mask. One may expect the mask itself."""
    named = T.span_attribute(SpanFilter.by_name("call"), "text")
    for assertion in (named, T.trace_attribute("text")):
        task = TraceAssertionTask("t", assertion, expected, operator)
        record = EvalRecord({}, trace_id=TRACE)
        result = EvalDataset([record], [task], [model(text=value)]).evaluate().records[0].tasks[0]
        outcome = ":".join(filter(None, (result.outcome, result.reason)))
        assert outcome == ending, (assertion, result.message)
