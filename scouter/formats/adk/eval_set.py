"""Eval sets of ADK as rows: one for each turn of each case.

Three forms are read: eval sets (`eval_cases` with `conversation` or `conversation_scenario`, since
1.0; keys in snake or camel case), and before these the list of turns (`query`, `reference`,
`expected_tool_use`), which is one conversation, and the list of cases (`name`, `data` with such
turns, `initial_session`).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.files.field_errors import Loc
from scouter.evaluate.files.read import Document, read_document

Row: TypeAlias = dict[str, JsonValue]
_Fields: TypeAlias = Mapping[str, JsonValue]

_FORM: Final = (
    "an eval set (an object with eval_cases), a list of turns with query, or of cases with data"
)


def read_eval_set(path: str | Path) -> list[Row]:
    """Read an eval set of ADK.

    Args:
        path: A `.json` file, such as `home.evalset.json` or `home.test.json`.

    Returns:
        For each turn an object with `eval_id`, `turn` (from 0), `prompt`, `reference` (what the
        agent should answer, None where the file does not say) and `reference_trajectory` (calls
        with `tool_name` and `tool_input`). Thoughts are no part of a text. Where the file has them:
        `attachments` (the parts of the user's message that are no text), `session_input`, `rubrics`
        and `final_session_state`. A case that a simulated user leads has one row, with its
        `conversation_plan` and `user_persona`, and nothing that is expected. `EvalTask` takes rows
        as they are, and asks the turns of a case as one conversation.

    Raises:
        FileFormatError: Not an eval set; names line and field.
    """
    document = read_document(path)
    value = document.value
    if isinstance(value, list):
        if value and all(isinstance(item, dict) and "data" in item for item in value):
            return [row for at, case in enumerate(value) for row in _old_case(document, case, at)]
        name = Path(path).name
        return [_old_turn(document, item, (at,), name, at) for at, item in enumerate(value)]
    cases = _get(value, "eval_cases") if isinstance(value, dict) else None
    if not isinstance(cases, list):
        raise document.error("no eval set", expected=_FORM)
    name = "eval_cases" if "eval_cases" in cast("_Fields", value) else "evalCases"
    return [
        row
        for at, case in enumerate(cases)
        for row in _case(document, _object(document, case, (name, at)), (name, at))
    ]


def _case(document: Document, case: _Fields, loc: Loc) -> Iterator[Row]:
    turns, scenario = case.get("conversation"), _get(case, "conversation_scenario")
    if (turns is None) == (scenario is None):
        raise document.error(
            "no conversation" if turns is None else "two conversations", loc,
            "a case with either conversation or conversation_scenario",
        )  # fmt: skip
    eval_id, beside = _get(case, "eval_id"), _there(case, "final_session_state")
    beside |= _session(_get(case, "session_input"))
    if scenario is not None:
        where = (*loc, "conversation_scenario")
        yield {"eval_id": eval_id, **_played(document, scenario, where), **_rubrics(case), **beside}
        return
    for at, turn in enumerate(_list(document, turns, (*loc, "conversation"))):
        where = (*loc, "conversation", at)
        fields = _object(document, turn, where)
        content, answer = _get(fields, "user_content"), _get(fields, "final_response")
        others = list(_others(content))
        yield {
            "eval_id": eval_id,
            "turn": at,
            "prompt": _text(content),
            "reference": None if answer is None else _text(answer),
            "reference_trajectory": list(_calls(document, fields, where)),
            **({"attachments": others} if others else {}),
            **_rubrics(case, fields),
            **beside,
        }


def _played(document: Document, scenario: JsonValue, loc: Loc) -> Row:
    """The one row of a case whose user is simulated."""
    fields = _object(document, scenario, loc)
    prompt, plan = _get(fields, "starting_prompt"), _get(fields, "conversation_plan")
    if not isinstance(prompt, str) or not isinstance(plan, str):
        raise document.error("no prompt or no plan", loc, "starting_prompt and conversation_plan")
    return {
        "turn": 0,
        "prompt": prompt,
        "conversation_plan": plan,
        **_there(fields, "user_persona"),
        "reference": None,
        "reference_trajectory": None,
    }


def _there(fields: _Fields, *names: str) -> Row:
    """Those of some fields that say something."""
    return {name: found for name in names if (found := _get(fields, name))}


def _session(value: JsonValue) -> Row:
    """The session that a case begins with, if it has one."""
    fields = value if isinstance(value, dict) else {}
    found = _there(fields, "app_name", "user_id", "session_id", "state")
    return {"session_input": found} if found else {}


def _rubrics(*owners: _Fields) -> Row:
    """The rubrics of a case and of its turn, together."""
    found = [each for owner in owners if isinstance(each := _get(owner, "rubrics"), list)]
    rubrics = [rubric for each in found for rubric in each]
    return {"rubrics": rubrics} if rubrics else {}


def _calls(document: Document, turn: _Fields, loc: Loc) -> Iterator[JsonValue]:
    """The expected calls: of `tool_uses`, or of the events of the invocation."""
    data = _get(turn, "intermediate_data")
    if data is None:
        return
    name = "intermediate_data" if "intermediate_data" in turn else "intermediateData"
    fields = _object(document, data, (*loc, name))
    uses = _get(fields, "tool_uses")
    if uses is None:
        uses = [call for event in _events(fields) for call in _parts(event, "function_call")]
    for at, use in enumerate(_list(document, uses, (*loc, name, "tool_uses"))):
        yield _call(document, use, (*loc, name, "tool_uses", at))


def _events(data: _Fields) -> Iterator[JsonValue]:
    """Give the contents of the agents' intermediate events, of all authors, in order."""
    events = _get(data, "invocation_events")
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict):
            yield event.get("content")


def _call(document: Document, use: JsonValue, loc: Loc) -> JsonValue:
    fields = _object(document, use, loc)
    if not isinstance(fields.get("name"), str):
        raise document.error("a call without a name", loc, "an object with name and args")
    args = fields.get("args")
    return {"tool_name": fields["name"], "tool_input": {} if args is None else args}


def _old_case(document: Document, value: JsonValue, at: int) -> Iterator[Row]:
    case = _object(document, value, (at,))
    session = _session(_get(case, "initial_session"))
    for turn, item in enumerate(_list(document, case["data"], (at, "data"))):
        row = _old_turn(document, item, (at, "data", turn), case.get("name"), turn)
        yield {**row, **session}


def _old_turn(document: Document, item: JsonValue, loc: Loc, name: JsonValue, turn: int) -> Row:
    fields = _object(document, item, loc)
    if "query" not in fields:
        raise document.error("a turn without query", loc, _FORM)
    calls: list[JsonValue] = []
    for at, use in enumerate(_list(document, fields.get("expected_tool_use"), loc)):
        call = _object(document, use, (*loc, "expected_tool_use", at))
        if not isinstance(call.get("tool_name"), str):
            raise document.error("a call without tool_name", (*loc, "expected_tool_use", at))
        given = call.get("tool_input")
        calls.append({"tool_name": call["tool_name"], "tool_input": {} if given is None else given})
    return {
        "eval_id": name,
        "turn": turn,
        "prompt": fields["query"],
        "reference": fields.get("reference"),
        "reference_trajectory": calls,
    }


def _text(content: JsonValue) -> str:
    """The texts of a content, put together; what a model only thought is none of them."""
    texts = (part.get("text") for part in _parts_of(content) if part.get("thought") is not True)
    return "".join(text for text in texts if isinstance(text, str))


def _others(content: JsonValue) -> Iterator[JsonValue]:
    """The parts of a content that are no text, such as images, without fields that are null."""
    for part in _parts_of(content):
        said: Row = {name: value for name, value in part.items() if value is not None}
        if said.keys() - {"text", "thought"}:
            yield said


def _parts(content: JsonValue, kind: str) -> Iterator[JsonValue]:
    for part in _parts_of(content):
        found = _get(part, kind)
        if found is not None:
            yield found


def _parts_of(content: JsonValue) -> list[_Fields]:
    parts = content.get("parts") if isinstance(content, dict) else None
    return [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []


def _get(fields: _Fields, name: str) -> JsonValue:
    """The value of a key, in snake or camel case."""
    head, *rest = name.split("_")
    camel = head + "".join(word.capitalize() for word in rest)
    return fields[name] if name in fields else fields.get(camel)


def _object(document: Document, value: JsonValue, loc: Loc) -> _Fields:
    if not isinstance(value, dict):
        raise document.error("no object", loc, "an object")
    return value


def _list(document: Document, value: JsonValue, loc: Loc) -> Sequence[JsonValue]:
    if value is None:
        return ()
    if not isinstance(value, list):
        raise document.error("no list", loc, "a list")
    return value
