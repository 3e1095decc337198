"""Definitions of tools, as conventions write them and as recorded clients send them."""

import json
from typing import Any, Final

import pytest

from scouter.model.genai.tool_definitions import tool_definitions
from scouter.model.span import AttributeValue, SpanEvent
from tests.scouter.evaluate.spans_support import span
from tests.support.agent_traces import find_clients, load_client

PARAMETERS: Final[dict[str, Any]] = {"type": "object", "properties": {"q": {"type": "string"}}}
SEARCH: Final[dict[str, Any]] = {
    "name": "search", "description": "Find.", "parameters": PARAMETERS,
}  # fmt: skip
BOOK: Final[dict[str, Any]] = {"name": "book"}


@pytest.mark.parametrize(
    "attributes",
    [
        {"gen_ai.tool.definitions": json.dumps([SEARCH, BOOK])},
        {"gen_ai.tool.definitions": (SEARCH, BOOK)},
        {"gen_ai.tool.definitions": (json.dumps(SEARCH), json.dumps(BOOK))},
        {"ai.prompt.tools": (json.dumps(SEARCH), json.dumps(BOOK), "no object")},
        {
            "llm.tools.1.tool.json_schema": json.dumps(BOOK),
            "llm.tools.0.tool.json_schema": json.dumps(SEARCH),
        },
        {
            "llm.request.functions.0.name": "search",
            "llm.request.functions.0.description": "Find.",
            "llm.request.functions.0.parameters": json.dumps(PARAMETERS),
            "llm.request.functions.1.name": "book",
        },
    ],
)
def test_conventions(attributes: dict[str, AttributeValue]) -> None:
    """Each tool once, however many calls of models repeat it."""
    spans = [span(1, "chat", attributes=attributes), span(2, "chat", attributes=attributes)]
    assert tool_definitions(spans) == [SEARCH, BOOK]


def test_events_and_what_is_none() -> None:
    event = SpanEvent(
        name="details", time_ns=0, attributes={"gen_ai.tool.definitions": json.dumps([BOOK])}
    )
    assert tool_definitions([span(1, "chat", events=(event,))]) == [BOOK]
    for nothing in ("", "[]", "search", 3, "[1]"):
        assert (
            tool_definitions([span(1, "c", attributes={"gen_ai.tool.definitions": nothing})]) == []
        )


def test_recorded_clients() -> None:
    """Of those that tell definitions, each tells the two tools that its agent had."""
    compared = 0
    for path in find_clients():
        client = load_client(path)
        found = json.dumps(tool_definitions(client.spans))
        if found != "[]":
            compared += 1
            assert "get_weather" in found, client.name
    assert compared >= 20
