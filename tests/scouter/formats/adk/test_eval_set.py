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
        "session_input": {"app_name": "home", "user_id": "u"},
    },
    {
        "eval_id": "lights",
        "turn": 1,
        "prompt": "Thanks.",
        "reference": None,
        "reference_trajectory": [],
        "session_input": {"app_name": "home", "user_id": "u"},
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


def test_a_list_of_cases(tmp_path: Path) -> None:
    """The form between: each case has a name, its turns, and the session that it begins with."""
    turns = [{"query": "Turn off device_2.", "reference": "Done."}, {"query": "Thanks."}]
    session = {"state": {"city": "Oslo"}, "app_name": "home", "user_id": ""}
    cases: list[dict[str, Any]] = [
        {"name": "lights", "data": turns, "initial_session": session},
        {"name": "alone", "data": turns[:1], "initial_session": {}},
    ]
    rows = read_eval_set(write(tmp_path, cases))
    assert [(row["eval_id"], row["turn"], row["prompt"]) for row in rows] == [
        ("lights", 0, "Turn off device_2."), ("lights", 1, "Thanks."),
        ("alone", 0, "Turn off device_2."),
    ]  # fmt: skip
    assert rows[1]["session_input"] == {"app_name": "home", "state": {"city": "Oslo"}}
    assert "session_input" not in rows[2]


def test_a_bare_list_is_one_conversation(tmp_path: Path) -> None:
    rows = read_eval_set(write(tmp_path, [{"query": "a"}, {"query": "b"}]))
    assert [(row["eval_id"], row["turn"]) for row in rows] == [
        ("home.evalset.json", 0), ("home.evalset.json", 1),
    ]  # fmt: skip


@pytest.mark.parametrize("is_camel", [False, True])
def test_thoughts_and_images_are_no_text(tmp_path: Path, is_camel: bool) -> None:
    """Kind: a part of another kind is taken for text. Fields that are null say nothing."""
    image = {"inline_data": {"mime_type": "image/png", "data": "aGk="}}
    turn = {
        "user_content": {"parts": [
            {"text": "What is this?", "thought": None, "file_data": None},
            {**image, "text": None},
            {"file_data": {"file_uri": "gs://b/x.pdf", "mime_type": "application/pdf"}},
        ]},
        "final_response": {"parts": [
            {"text": "I must look. ", "thought": True}, {"text": "A cat.", "thought": False},
        ]},
    }  # fmt: skip
    value = {"eval_cases": [{"eval_id": "x", "conversation": [turn]}]}
    (row,) = read_eval_set(write(tmp_path, camel(value) if is_camel else value))
    assert (row["prompt"], row["reference"]) == ("What is this?", "A cat.")
    first, second = cast("list[dict[str, Any]]", row["attachments"])
    assert first == (camel(image) if is_camel else image)
    assert list(second) == ["fileData" if is_camel else "file_data"]


def test_rubrics_and_the_end_of_a_session_are_stored(tmp_path: Path) -> None:
    """What asks for a check stands in the row, so that it can be judged, or named."""
    rubric = [{"rubric_id": "polite"}]
    turn = {"user_content": content("user", "Hi"), "rubrics": [{"rubric_id": "short"}]}
    case = {"eval_id": "x", "conversation": [turn], "rubrics": rubric,
            "final_session_state": {"done": True}}  # fmt: skip
    (row,) = read_eval_set(write(tmp_path, {"eval_cases": [case]}))
    assert row["rubrics"] == [*rubric, {"rubric_id": "short"}]
    assert row["final_session_state"] == {"done": True}


def test_a_case_that_a_simulated_user_leads(tmp_path: Path) -> None:
    scenario = {"starting_prompt": "Hi", "conversation_plan": "Book it.", "user_persona": "NOVICE"}
    case = {"eval_id": "x", "conversation_scenario": scenario}
    wanted = {
        "eval_id": "x", "turn": 0, "prompt": "Hi", "conversation_plan": "Book it.",
        "user_persona": "NOVICE", "reference": None, "reference_trajectory": None,
    }  # fmt: skip
    assert read_eval_set(write(tmp_path, {"eval_cases": [case]})) == [wanted]
    assert read_eval_set(write(tmp_path, camel({"eval_cases": [case]}))) == [wanted]


WRONG: list[tuple[Any, str]] = [
    ({"cases": ""}, "no eval set; expected an eval set"),
    ({"eval_cases": [1]}, r"field 'eval_cases\[0\]': no object"),
    ({"eval_cases": [{"conversation": "x"}]}, r"conversation': no list"),
    ({"eval_cases": [{"conversation_scenario": "x"}]}, "scenario': no object"),
    ({"eval_cases": [{"conversation_scenario": {}}]}, "expected starting_prompt and"),
    ({"eval_cases": [{"eval_id": "x"}]}, r"field 'eval_cases\[0\]': no conversation"),
    (
        {"eval_cases": [{"conversation": [], "conversation_scenario": {}}]},
        "two conversations; expected a case with either",
    ),
    ([{"name": "x", "data": [{"ask": "x"}]}], r"field '\[0\].data\[0\]': a turn without query"),
    ([{"question": "x"}], r"field '\[0\]': a turn without query"),
    ([{"query": "x", "expected_tool_use": [{"tool": ""}]}], "a call without tool_name"),
    (
        {"eval_cases": [{"conversation": [{"intermediate_data": {"tool_uses": [{"a": 1}]}}]}]},
        r"field '.*\[0\].conversation\[0\].intermediate_data.tool_uses\[0\]': a call "
        "without a name",
    ),
]


@pytest.mark.parametrize(("value", "message"), WRONG)
def test_what_is_no_eval_set(tmp_path: Path, value: object, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        read_eval_set(write(tmp_path, value))
