"""Eval sets in the forms that versions of ADK wrote them in."""

import json
from pathlib import Path
from typing import Any, cast

import pytest

from scouter.errors import FileFormatError
from scouter.formats.adk.eval_set import read_eval_set


def content(role: str, *texts: str) -> dict[str, Any]:
    return {"role": role, "parts": [{"text": text} for text in texts]}


NEW: dict[str, Any] = {
    "eval_set_id": "home",
    "name": "home",
    "description": None,
    "eval_cases": [
        {
            "eval_id": "lights",
            "conversation": [
                {
                    "invocation_id": "i-1",
                    "user_content": content("user", "Turn off ", "device_2."),
                    "final_response": content("model", "Done."),
                    "intermediate_data": {
                        "tool_uses": [
                            {"id": None, "name": "set_device", "args": {"id": "device_2"}},
                            {"id": None, "name": "log", "args": None},
                        ],
                        "intermediate_responses": [],
                    },
                    "creation_timestamp": 0.0,
                },
                {"invocation_id": "i-2", "user_content": content("user", "Thanks.")},
            ],
            "session_input": {"app_name": "home", "user_id": "u", "state": {}},
        }
    ],
}
ROWS: list[dict[str, Any]] = [
    {
        "eval_id": "lights",
        "turn": 0,
        "prompt": "Turn off device_2.",
        "reference": "Done.",
        "reference_trajectory": [
            {"tool_name": "set_device", "tool_input": {"id": "device_2"}},
            {"tool_name": "log", "tool_input": {}},
        ],
    },
    {
        "eval_id": "lights",
        "turn": 1,
        "prompt": "Thanks.",
        "reference": None,
        "reference_trajectory": [],
    },
]


def write(folder: Path, value: object) -> Path:
    path = folder / "home.evalset.json"
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def camel(value: Any) -> Any:
    """The same with keys in camel case, as `model_dump(by_alias=True)` writes them."""
    if isinstance(value, list):
        return [camel(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    fields = cast("dict[str, Any]", value)
    return {_camel(key): v if key == "args" else camel(v) for key, v in fields.items()}


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(map(str.capitalize, rest))


def test_an_eval_set(tmp_path: Path) -> None:
    assert read_eval_set(write(tmp_path, NEW)) == ROWS
    assert read_eval_set(write(tmp_path, camel(NEW))) == ROWS


def test_calls_in_events(tmp_path: Path) -> None:
    """Newer versions keep all events of an invocation, of every author."""
    call = {"function_call": {"name": "set_device", "args": {"id": "device_2"}}}
    events = [
        {"author": "root", "content": {"parts": [{"text": "I will."}, call]}},
        {"author": "tool", "content": None},
        {"author": "sub", "content": {"parts": [{"function_call": {"name": "log"}}]}},
    ]
    changed = json.loads(json.dumps(NEW))
    changed["eval_cases"][0]["conversation"][0]["intermediate_data"] = {"invocation_events": events}
    assert read_eval_set(write(tmp_path, changed)) == ROWS


def test_the_first_form(tmp_path: Path) -> None:
    rows = read_eval_set(
        write(
            tmp_path,
            [
                {
                    "query": "Turn off device_2.",
                    "reference": "Done.",
                    "expected_tool_use": [
                        {"tool_name": "set_device", "tool_input": {"id": "device_2"}},
                    ],
                    "expected_intermediate_agent_responses": [],
                },
                {"query": "Thanks."},
            ],
        )
    )
    assert [(row["prompt"], row["reference"], row["turn"]) for row in rows] == [
        ("Turn off device_2.", "Done.", 0),
        ("Thanks.", None, 1),
    ]
    assert rows[0]["reference_trajectory"] == ROWS[0]["reference_trajectory"][:1]
    assert rows[1]["reference_trajectory"] == []


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"cases": ""}, "no eval set; expected an eval set"),
        ({"eval_cases": [1]}, r"field 'eval_cases\[0\]': no object"),
        ({"eval_cases": [{"conversation": "x"}]}, r"conversation': no list"),
        ({"eval_cases": [{"conversation_scenario": "x"}]}, "simulated user"),
        ([{"question": "x"}], r"field '\[0\]': a turn without query"),
        ([{"query": "x", "expected_tool_use": [{"tool": ""}]}], "a call without tool_name"),
        (
            {"eval_cases": [{"conversation": [{"intermediate_data": {"tool_uses": [{"a": 1}]}}]}]},
            r"line 1, field '.*\[0\].conversation\[0\].intermediate_data.tool_uses\[0\]': a call "
            "without a name",
        ),
    ],
)
def test_what_is_no_eval_set(tmp_path: Path, value: object, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_eval_set(write(tmp_path, value))
