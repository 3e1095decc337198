"""Eval sets of ADK as rows: one for each turn of each case.

Two forms are read: eval sets (`eval_cases` with `conversation`, since 1.0; keys in snake or camel
case) and the list of turns that came before (`query`, `reference`, `expected_tool_use`).
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.evaluate.files.read import Document, Loc, read_document

Row: TypeAlias = dict[str, JsonValue]
_Fields: TypeAlias = Mapping[str, JsonValue]

_FORM: Final = "an eval set (an object with eval_cases), or a list of turns with query"


def read_eval_set(path: str | Path) -> list[Row]:
    """Read an eval set of ADK.

    Args:
        path: A `.json` file, such as `home.evalset.json` or `home.test.json`.

    Returns:
        For each turn an object with `eval_id`, `turn` (from 0), `prompt`, `reference` (what the
        agent should answer, None where the file does not say) and `reference_trajectory` (calls
        with `tool_name` and `tool_input`). `EvalTask` takes them as they are.

    Raises:
        FileFormatError: Not an eval set; names line and field.
    """
    document = read_document(path)
    value = document.value
    if isinstance(value, list):
        return [_old_turn(document, item, (at,)) for at, item in enumerate(value)]
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
    turns = case.get("conversation")
    if turns is None and _get(case, "conversation_scenario") is not None:
        raise document.error(
            "a conversation that ADK's simulated user makes up has no expected calls", loc,
            "a case with conversation",
        )  # fmt: skip
    for at, turn in enumerate(_list(document, turns, (*loc, "conversation"))):
        where = (*loc, "conversation", at)
        fields = _object(document, turn, where)
        answer = _get(fields, "final_response")
        yield {
            "eval_id": _get(case, "eval_id"),
            "turn": at,
            "prompt": _text(_get(fields, "user_content")),
            "reference": None if answer is None else _text(answer),
            "reference_trajectory": list(_calls(document, fields, where)),
        }


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


def _old_turn(document: Document, item: JsonValue, loc: Loc) -> Row:
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
        "eval_id": fields.get("name"),
        "turn": loc[-1],
        "prompt": fields["query"],
        "reference": fields.get("reference"),
        "reference_trajectory": calls,
    }


def _text(content: JsonValue) -> str:
    """The texts of a content, put together."""
    return "".join(text for text in _parts(content, "text") if isinstance(text, str))


def _parts(content: JsonValue, kind: str) -> Iterator[JsonValue]:
    parts = content.get("parts") if isinstance(content, dict) else None
    for part in parts if isinstance(parts, list) else ():
        found = _get(part, kind) if isinstance(part, dict) else None
        if found is not None:
            yield found


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
