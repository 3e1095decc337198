"""Words of the user, as spans of several dialects and contexts tell them."""

import json
from typing import Any

import pytest

from scouter.client.expectation import read_conversation
from scouter.model.span import Span, SpanEvent

CHAT = {"gen_ai.operation.name": "chat"}


def span(number: int, attributes: dict[str, Any], *events: SpanEvent) -> Span:
    return Span(
        trace_id="1" * 32, span_id=f"{number:016x}", name="chat", start_ns=number, end_ns=number,
        attributes=attributes, events=events,
    )  # fmt: skip


def chat(number: int, *messages: dict[str, Any], answer: str = "") -> Span:
    said = {"role": "assistant", "parts": [{"type": "text", "content": answer}]}
    return span(
        number,
        {
            **CHAT,
            "gen_ai.input.messages": json.dumps(messages),
            "gen_ai.output.messages": json.dumps([said]),
        },
    )


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "parts": [{"type": "text", "content": text}]}


def event(name: str, content: str) -> SpanEvent:
    return SpanEvent(name=name, time_ns=1, attributes={"content": content})


ASSISTANT = {"role": "assistant", "content": "hm"}

PICTURE = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}


@pytest.mark.parametrize(
    "spans",
    [
        pytest.param([chat(1, user("a"), ASSISTANT, user("b"))], id="conventions"),
        pytest.param(
            [chat(1, user("a")), chat(2, user("a"), ASSISTANT, user("b"))], id="goes-on-later"
        ),
        pytest.param(
            [chat(1, user("a"), user("b")), chat(2, user("for a tool")), chat(3, user("a"))],
            id="agents-inside-and-a-shorter-history",
        ),
        pytest.param(
            [
                span(
                    1,
                    {
                        "openinference.span.kind": "LLM",
                        "llm.input_messages.0.message.role": "system",
                        "llm.input_messages.0.message.content": "be good",
                        "llm.input_messages.1.message.role": "user",
                        "llm.input_messages.1.message.content": "a",
                        "llm.input_messages.2.message.role": "user",
                        "llm.input_messages.2.message.content": "b",
                    },
                )
            ],
            id="openinference",
        ),
        pytest.param(
            [
                span(
                    1,
                    {
                        "llm.request.type": "chat",
                        "gen_ai.prompt.0.role": "user",
                        "gen_ai.prompt.0.content": "a",
                        "gen_ai.prompt.1.role": "user",
                        "gen_ai.prompt.1.content": "b",
                    },
                )
            ],
            id="openllmetry",
        ),
        pytest.param(
            [
                span(
                    1,
                    CHAT,
                    event("gen_ai.system.message", "be good"),
                    event("gen_ai.user.message", "a"),
                    event("gen_ai.assistant.message", "hm"),
                    event("gen_ai.user.message", "b"),
                )
            ],
            id="events",
        ),
        pytest.param(
            [
                chat(
                    1,
                    {"role": "user", "content": [{"type": "text", "text": "a"}]},
                    {"role": "user", "content": [{"type": "tool_result", "content": "no words"}]},
                    {"role": "user", "content": "b"},
                )
            ],
            id="a-result-of-a-tool-is-not-said",
        ),
        pytest.param(
            [
                chat(
                    1,
                    {"role": "user", "content": [PICTURE, {"type": "text", "text": "a"}]},
                    {"role": "user", "content": [PICTURE]},
                    {"role": "user", "content": "b"},
                )
            ],
            id="pictures-are-left-out",
        ),
    ],
)
def test_the_questions(spans: list[Span]) -> None:
    found = read_conversation(spans, {"question": "not this"})
    assert found is not None
    assert found.questions == ("a", "b")


@pytest.mark.parametrize(
    ("context", "questions", "answer"),
    [
        ({"question": "a", "answer": "x"}, ("a",), "x"),
        ({"input": " ", "query": "a", "response": {"not": "a text"}, "output": "y"}, ("a",), "y"),
        ({"messages": [user("a"), ASSISTANT, user("b")]}, ("a", "b"), None),
        ({"messages": [ASSISTANT], "prompt": "a"}, ("a",), None),
        ({"n": 1}, None, None),
        (["a"], None, None),
        (None, None, None),
    ],
)
def test_without_model_calls_the_context_is_read(
    context: Any, questions: tuple[str, ...] | None, answer: str | None
) -> None:
    found = read_conversation([span(1, {})], context)
    assert (found and found.questions, found and found.answer) == (questions, answer)


def test_the_answer_is_that_of_the_last_model_call_even_where_it_has_no_words() -> None:
    """An answer out of the context would hide that the agent fell silent."""
    spoken = read_conversation([chat(1, user("a"), answer="x"), chat(2, answer="y")], {})
    silent = read_conversation([chat(1, user("a"), answer="x"), chat(2)], {"answer": "z"})
    assert spoken is not None
    assert silent is not None
    assert (spoken.answer, silent.answer) == ("y", None)


def test_an_agent_whose_models_nobody_traced() -> None:
    agent = span(
        1,
        {
            "openinference.span.kind": "AGENT",
            "input.value": '{"task": "What is up?", "stream": false}',
            "output.value": "All is well.",
        },
    )
    found = read_conversation([agent], {"response": "of the context"})
    assert found is not None
    assert (found.questions, found.answer) == (("What is up?",), "All is well.")
