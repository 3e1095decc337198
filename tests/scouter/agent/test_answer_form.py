"""An answer is read as the JSON that it is, or not at all."""

import json
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from pydantic import JsonValue

from scouter.agent.entries import Kind, ProviderEntry, StructuredOutput
from scouter.agent.model_judge import ModelJudge
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.judge.prompt import Prompt, Score
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.mock.llm_server import HttpRequest, HttpResponse, HttpServer, LLMTestServer
from scouter.model.record import EvalRecord
from tests.scouter.agent.providers import ENVIRON, MODELS, VARIABLE, entry


@pytest.mark.parametrize(
    ("kind", "structured"),
    [
        ("openai", "schema"),
        ("openai", "tool"),
        ("openai", "text"),
        ("anthropic", "schema"),
        ("anthropic", "text"),
        ("google", "schema"),
        ("google", "text"),
    ],
)
@pytest.mark.parametrize(
    "answer",
    [
        '{"score": 1, "score": 5, "reason": "r"}',
        '{"reason": "r", "score": 5, "sc\\u006fre": 5}',
        f'{{"reason": "{"r" * 500}", "score": 1, "score": 5}}',
    ],
)
def test_a_key_twice_is_no_answer(kind: Kind, structured: StructuredOutput, answer: str) -> None:
    """Nobody knows whether 1 or 5 is meant; the message says so."""
    prompt = Prompt("Rate ${answer}.", MODELS[kind], f"our-{kind}", output_type=Score)
    task = LLMJudgeTask("q", prompt, 3, "score", "GreaterThan")
    with LLMTestServer(answer) as server:
        judge = ModelJudge([entry(kind, server, structured_output=structured)], environ=ENVIRON)
        found = EvalDataset([EvalRecord({"answer": "x"})], [task]).evaluate(judge=judge)
    result = found.records[0].tasks[0]
    assert (result.outcome, result.reason, result.actual) == (Outcome.ERRORED, Reason.PARSE, None)
    assert "twice in one object" in result.message
    assert "key 'score'" in result.message.replace('"score"', "'score'")


WRITTEN = [
    '```json {"score": 4, "reason": "r"}```',
    '```{"score": 4, "reason": "r"}```',
    '\ufeff{"score": 4, "reason": "r"}',
    '\ufeff```json\n\ufeff{"score": 4, "reason": "r"}\n```\n',
    'Here it is:\n```json\n{"score": 4, "reason": "r"}\n```',
    '```JSON\r\n{"score": 4,\r\n "reason": "r"}\r\n```\r\nI hope that this helps.',
    'Sure! ```json {"score": 4, "reason": "r"}``` Anything else?',
    '{"score": 4, "reason": "r"}',
    '```json {"score": 4, "reason": "r"}',
    'Sure! {"score": 4, "reason": "r"}',
    '<think>It wrote {"score": 1, "reason": "r"}.</think>{"score": 4, "reason": "r"}',
    'It wrote {"score": 1, "reason": "r"}.\n</think>\n\n{"score": 4, "reason": "r"}',
    '{"score": 4, "reason": "It wrote <think>1</think>, and </think>."}',
]
UNCLEAR = [
    'First ```json {"score": 4, "reason": "r"}``` or ```json {"score": 5, "reason": "r"}```',
    '{"score": 4, "reason": "r"} ```json {"score": 5, "reason": "r"}```',
    'I say ```4``` of 5.',
    '```json```',
    '<think>Perhaps {"score": 4, "reason": "r"}',
    '<think>{"score": 4, "reason": "r"}</think>',
    'Sure! {"score": 4, "reason": "r"',
]  # fmt: skip


@contextmanager
def writing(*texts: str, by_tool: bool = False) -> Generator[str]:
    """A server of OpenAI's protocol whose model writes a text, or calls its tool with each.

    Gives its address.
    """
    message: JsonValue = {"role": "assistant", "content": None if by_tool else texts[0]}
    if by_tool:
        message["tool_calls"] = [
            {"id": f"c{at}", "type": "function", "function": {"name": "answer", "arguments": text}}
            for at, text in enumerate(texts)
        ]
    choice = {"index": 0, "finish_reason": "tool_calls" if by_tool else "stop", "message": message}
    whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "m"}
    body = json.dumps({**whole, "choices": [choice]}).encode()

    async def respond(_: HttpRequest) -> HttpResponse:
        return HttpResponse(body=body, headers={"Content-Type": "application/json"})

    server = HttpServer(respond)
    server.start()
    try:
        yield f"http://127.0.0.1:{server.port}/v1"
    finally:
        server.stop()


def judged(*texts: str, structured: StructuredOutput, by_tool: bool = False) -> EvalTaskResult:
    """The result of a task on a text, or on calls of the tool."""
    prompt = Prompt("Rate ${answer}.", "m", "local", output_type=Score)
    task = LLMJudgeTask("q", prompt, 4, "score", "Equals")
    with writing(*texts, by_tool=by_tool) as url:
        local = ProviderEntry(
            name="local",
            kind="openai",
            base_url=url,
            key_variable=VARIABLE,
            structured_output=structured,
        )
        judge = ModelJudge([local], environ=ENVIRON)
        found = EvalDataset([EvalRecord({"answer": "x"})], [task]).evaluate(judge=judge)
    return found.records[0].tasks[0]


@pytest.mark.parametrize("text", WRITTEN)
@pytest.mark.parametrize("structured", ["schema", "tool", "text", "called"])
def test_json_with_fences_and_prose_is_read_in_every_mode(structured: str, text: str) -> None:
    """Local models write both whatever the prompt says, and as the arguments of a tool, too."""
    is_called = structured == "called"
    result = judged(
        text,
        structured="tool" if is_called else structured,  # pyright: ignore[reportArgumentType] - the modes
        by_tool=is_called,
    )

    assert (result.outcome, result.actual) == (Outcome.PASSED, 4), result.message


@pytest.mark.parametrize("text", UNCLEAR)
@pytest.mark.parametrize("structured", ["schema", "tool", "text"])
def test_what_is_not_clearly_the_answer_is_none(structured: StructuredOutput, text: str) -> None:
    """Two blocks that differ, a number in a sentence: nobody knows what is meant."""
    result = judged(text, structured=structured)

    assert (result.outcome, result.reason, result.actual) == (Outcome.ERRORED, Reason.PARSE, None)


@pytest.mark.parametrize(
    ("calls", "ending"),
    [
        pytest.param([4, 4], "passed", id="the same twice"),
        pytest.param([5, 4], "errored:parse", id="two verdicts"),
        pytest.param([4, 4, 1], "errored:parse", id="two of three agree"),
        pytest.param([1, 1], "failed", id="a bad one twice"),
    ],
)
def test_a_tool_that_takes_the_answer_is_called_twice(calls: list[int], ending: str) -> None:
    """Kind: one of two verdicts is taken. Reasons may differ."""
    texts = [json.dumps({"score": score, "reason": f"r{at}"}) for at, score in enumerate(calls)]
    result = judged(*texts, structured="tool", by_tool=True)

    assert ":".join(filter(None, (result.outcome, result.reason))) == ending


def test_fences_inside_a_text_of_an_answer_are_its_own() -> None:
    """An answer that begins as JSON is read as a whole."""
    answer = {"score": 4, "reason": 'it wrote ```json {"score": 1}``` twice'}

    assert judged(json.dumps(answer), structured="schema").actual == 4
    assert judged(f"```json\n{json.dumps(answer)}\n```", structured="text").actual == 4
