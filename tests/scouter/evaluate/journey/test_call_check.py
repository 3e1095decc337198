"""Calls compared with the definitions of the tools."""

from typing import Any, Final

import pytest

from scouter.errors import ConfigError
from scouter.evaluate.journey.call_check import check_tool_calls
from tests.support.journeys import calls, says, user

CITY: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"city": {"type": "string", "enum": ["Lyon", "Rome"]}, "n": {"type": "integer"}},
    "required": ["city"],
}
FORMS: Final[dict[str, dict[str, Any]]] = {
    "openai": {"type": "function", "function": {"name": "book", "parameters": CITY}},
    "responses": {"type": "function", "name": "book", "parameters": CITY},
    "anthropic": {"name": "book", "input_schema": CITY},
    "mcp": {"name": "book", "inputSchema": CITY},
}


@pytest.mark.parametrize("tool", FORMS.values(), ids=FORMS.keys())
def test_every_form_of_a_definition(tool: dict[str, Any]) -> None:
    """Parallel calls are distinguished, and each fault of a call is named."""
    messages = [
        user("hi"),
        calls(
            ("book", {"city": "Lyon"}), ("book", {"city": "Oslo", "n": "2", "m": 1}), ("bok", {})
        ),
        says("Done."),
    ]
    right, wrong, unknown = check_tool_calls(messages, [tool])
    assert (right.message, right.index, right.passed) == (1, 0, True)
    assert (wrong.message, wrong.index) == (1, 1)
    assert {kind.value for kind in wrong.faults} == {
        "non_existent_parameter", "allowed_values_violation", "incorrect_parameter_type",
    }  # fmt: skip
    assert [*unknown.faults.values()] == ["there is no tool 'bok'; did you mean 'book'?"]


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ("{bad", "invalid_tool_call"),
        ("[1]", "invalid_tool_call"),
        ('"Lyon"', "invalid_tool_call"),
        ("", "missing_required_parameter"),
        ("null", "missing_required_parameter"),
        ('{"city": null}', "incorrect_parameter_type"),
        ('{"city": "Lyon", "n": true}', "incorrect_parameter_type"),
    ],
)
def test_arguments_as_models_write_them(arguments: str, fault: str) -> None:
    call = {"id": "1", "function": {"name": "book", "arguments": arguments}}
    message = {"role": "assistant", "type": "tool_call", "tool_calls": [call]}
    (check,) = check_tool_calls([message], [FORMS["mcp"]])
    assert fault in check.faults


def test_arguments_that_are_allowed_in_so_many_words() -> None:
    message = calls(("book", {"city": "Lyon", "x": 1}))
    for more, expected in ((True, True), ({"type": "integer"}, True), ({"type": "null"}, False),
                           (False, False)):  # fmt: skip
        tool = {"name": "book", "input_schema": {**CITY, "additionalProperties": more}}
        assert check_tool_calls([message], [tool])[0].passed is expected, more


def test_handoffs_are_no_calls_of_tools() -> None:
    messages = [
        calls(("chat_with_collaborator_hr", {}), ("transfer_to_hr", {}), ("transfer_to_x", {}))
    ]
    (left,) = check_tool_calls(messages, [FORMS["mcp"]], agents={"hr": []})
    assert left.tool == "transfer_to_x"


def test_definitions_that_cannot_be_used() -> None:
    message = calls(("book", {"city": "Lyon"}))
    assert "empty_api_spec" in check_tool_calls([message], [])[0].faults
    bad = {"name": "book", "input_schema": {"type": "nothing"}}
    assert "invalid_api_spec" in check_tool_calls([message], [bad])[0].faults
    nothing: Any
    for nothing in ({"parameters": CITY}, "book"):
        with pytest.raises(ConfigError, match="definition of a tool"):
            check_tool_calls([message], [nothing])
