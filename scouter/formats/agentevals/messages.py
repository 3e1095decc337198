"""Chat messages read for the calls in them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.model.json_value import to_json_value

PlainCall: TypeAlias = dict[str, JsonValue]

_ROLES: Final = {"human": "user", "ai": "assistant", "AIMessageChunk": "assistant"}
"""LangChain's words for OpenAI's."""
_FORM: Final = "expected a list of messages with a role, or an object with 'messages'"


@dataclass(frozen=True, slots=True)
class Said:
    """Role and tool calls of one message."""

    role: str
    calls: tuple[PlainCall, ...]


def trajectory_from_messages(messages: object) -> list[JsonValue]:
    """Read the calls that chat messages ask for.

    Args:
        messages: A list of OpenAI's messages (`tool_calls` with `function`) or of LangChain's
            (objects, or with `name` and `args`), one message, or an object with `messages`.

    Returns:
        The calls as plain data. Those of one message run side by side: where there are several
        they stand in a list of their own, as a step.

    Raises:
        DataError: Not messages, or arguments that are no JSON object; names the message.
    """
    steps: list[JsonValue] = []
    for said in read_messages(messages, "messages"):
        calls: list[JsonValue] = list(said.calls)
        if calls:
            steps.append(calls[0] if len(calls) == 1 else calls)
    return steps


def read_messages(messages: object, what: str) -> list[Said]:
    """Read roles and calls of messages; see `trajectory_from_messages`.

    Args:
        messages: The same.
        what: Their name in errors.
    """
    if isinstance(messages, Mapping):
        fields = cast("Mapping[str, object]", messages)
        if "role" not in fields and "messages" not in fields:
            raise DataError(f"{what}: an object with {', '.join(fields) or 'no key'}; {_FORM}")
        messages = [fields] if "role" in fields else fields["messages"]
    if isinstance(messages, str) or not isinstance(messages, Iterable):
        raise DataError(f"{what}: got {type(messages).__name__}; {_FORM}")
    found = enumerate(cast("Iterable[object]", messages))
    return [_read(message, f"{what}[{at}]") for at, message in found]


def _read(message: object, where: str) -> Said:
    if isinstance(message, Mapping):
        fields = cast("Mapping[str, object]", message)
        role, calls = fields.get("role") or fields.get("type"), fields.get("tool_calls")
    else:  # a message of LangChain's
        role, calls = getattr(message, "type", None), getattr(message, "tool_calls", None)
    if not isinstance(role, str):
        raise DataError(f"{where}: no role; {_FORM}")
    if not isinstance(calls, Sequence | None) or isinstance(calls, str):
        raise DataError(f"{where}: tool_calls is no list")
    found = cast("Sequence[object]", calls or ())
    read = [_call(each, f"{where}.tool_calls[{at}]") for at, each in enumerate(found)]
    return Said(_ROLES.get(role, role), tuple(read))


def _call(value: object, where: str) -> PlainCall:
    call = to_json_value(value)
    function = call.get("function", call) if isinstance(call, dict) else None
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise DataError(f"{where}: no call; expected an object with function.name")
    given = function.get("args") if "args" in function else function.get("arguments")
    if isinstance(given, str):
        try:
            given = cast("JsonValue", json.loads(given))
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where}: the arguments are no JSON: {error}") from error
    if given is not None and not isinstance(given, dict):
        raise DataError(f"{where}: the arguments are no object")
    return {"tool_name": function["name"], "tool_input": given or {}}
