"""Calls compared with the definitions of the tools: what is wrong with them without any dataset."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.journey.message import Agents, JourneyMessage, read_messages, requested_calls
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.schema.schema import Schema, compile_schema
from scouter.model.json_value import to_json_value
from scouter.model.span import Span
from scouter.model.visible import did_you_mean


class CallFault(StrEnum):
    """One way in which a call does not fit the definition of its tool."""

    NO_TOOLS = "empty_api_spec"
    BAD_DEFINITION = "invalid_api_spec"
    BAD_CALL = "invalid_tool_call"
    """The arguments are no JSON object."""
    NO_SUCH_TOOL = "non_existent_function"
    NO_SUCH_ARGUMENT = "non_existent_parameter"
    MISSING_ARGUMENT = "missing_required_parameter"
    WRONG_TYPE = "incorrect_parameter_type"
    WRONG_VALUE = "allowed_values_violation"
    """Not one of the values that are allowed."""
    OTHER = "json_schema_validation"


_BY_KEYWORD: Final = {
    "required": CallFault.MISSING_ARGUMENT,
    "type": CallFault.WRONG_TYPE,
    "enum": CallFault.WRONG_VALUE,
    "const": CallFault.WRONG_VALUE,
    "additionalProperties": CallFault.NO_SUCH_ARGUMENT,
}
_SCHEMA_FIELDS: Final = ("parameters", "input_schema", "inputSchema")
"""Fields in which OpenAI, Anthropic and MCP put the schema of the arguments, in this order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallCheck:
    """One fault of a call."""

    message: int
    """Index of its message."""
    index: int
    """Its place among the calls of the message, from 0."""
    tool: str
    faults: Mapping[CallFault, str] = field(default_factory=dict[CallFault, str])
    """Faults in a sentence each, by kind; empty for a call that fits."""

    @property
    def passed(self) -> bool:
        """True if the call fits the tool's definition."""
        return not self.faults


def check_tool_calls(
    messages: Iterable[Mapping[str, Any] | JourneyMessage | Span],
    tools: Iterable[Mapping[str, Any]],
    *,
    agents: Mapping[str, Any] | None = None,
) -> tuple[CallCheck, ...]:
    """Check the calls of a conversation by the definitions of the tools, without a judge.

    Args:
        messages: As for `evaluate_journey`: messages of any dialect, or spans.
        tools: Definitions as models get them, in the form of OpenAI, Anthropic or MCP.
        agents: The agents, as for `evaluate_journey`.

    Returns:
        One for each call, in order. Handoffs to other agents are left out, unless they are tools.

    Raises:
        ConfigError: A definition is no object.
        DataError: A message is none.

    Cost: linear in the calls and their arguments; the schema of a tool is compiled once.
    """
    known = dict(_read(tool) for tool in tools)
    routes = Agents.read(agents)
    found: list[CallCheck] = []
    for at, message in enumerate(read_messages(messages)):
        for index, call in enumerate(requested_calls(message)):
            tool = call.name.strip()
            if tool in known or routes.agent_called(tool) is None:
                faults = _faults(tool, call.arguments, known)
                found.append(CallCheck(message=at, index=index, tool=tool, faults=faults))
    return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Tool:
    schema: Schema | None
    arguments: tuple[str, ...] = ()
    is_open: bool = False
    """True if the definition expressly allows arguments that it does not name."""
    problem: str = ""
    """Fault for which the definition cannot be used; empty for none."""


def _read(tool: object) -> tuple[str, _Tool]:
    value = to_json_value(tool)
    if not isinstance(value, dict):
        raise ConfigError(f"tools: {value!r:.60} is no definition of a tool; expected an object")
    function = value.get("function", value)
    inner = function if isinstance(function, dict) else {}
    name = inner.get("name")
    if not isinstance(name, str) or not name:
        raise ConfigError(f"tools: {value!r:.60} has no name; expected the definition of a tool")
    there = [inner[each] for each in _SCHEMA_FIELDS if inner.get(each) is not None]
    given: JsonValue = there[0] if there else {}
    try:
        schema = compile_schema(given, f"tool {name!r}")
    except ConfigError as error:
        return name, _Tool(schema=None, problem=str(error))
    listed = given.get("properties") if isinstance(given, dict) else None
    more = given.get("additionalProperties") if isinstance(given, dict) else None
    arguments = tuple(listed) if isinstance(listed, dict) else ()
    return name, _Tool(
        schema=schema, arguments=arguments, is_open=more is True or isinstance(more, dict)
    )


def _faults(name: str, arguments: JsonValue, known: Mapping[str, _Tool]) -> dict[CallFault, str]:
    if not known:
        return {CallFault.NO_TOOLS: f"{name!r} was called, and no tool is defined"}
    tool = known.get(name)
    if tool is None:
        hint = did_you_mean(name, known) or f"there are {', '.join(map(repr, known))}"
        return {CallFault.NO_SUCH_TOOL: f"there is no tool {name!r}; {hint}"}
    if tool.schema is None:
        return {CallFault.BAD_DEFINITION: tool.problem}
    passed = _opened(arguments)
    if passed is None:
        shown = f"{arguments!r:.80}"
        return {CallFault.BAD_CALL: f"the arguments of {name!r} are no JSON object: {shown}"}
    faults: dict[CallFault, list[str]] = {}
    unknown = [each for each in passed if each not in tool.arguments and not tool.is_open]
    for each in unknown:
        hint = did_you_mean(each, tool.arguments) or f"it has {', '.join(tool.arguments) or 'none'}"
        faults.setdefault(CallFault.NO_SUCH_ARGUMENT, []).append(
            f"{name!r} has no argument {each!r}; {hint}"
        )
    try:
        for keyword, why in tool.schema.faults(dict(passed)):
            kind = _BY_KEYWORD.get(keyword, CallFault.OTHER)
            if kind is not CallFault.NO_SUCH_ARGUMENT or not unknown:
                faults.setdefault(kind, []).append(why)
    except TaskFault as fault:
        faults.setdefault(CallFault.OTHER, []).append(fault.message)
    return {kind: "; ".join(dict.fromkeys(texts)) for kind, texts in faults.items()}


def _opened(arguments: JsonValue) -> Mapping[str, JsonValue] | None:
    """The arguments as an object; none at all are an empty one."""
    found: JsonValue = arguments
    if isinstance(arguments, str) and arguments.strip():
        try:
            found = json.loads(arguments)
        except (ValueError, RecursionError):
            return None
    if found is None or found == "":
        found = dict[str, JsonValue]()
    return found if isinstance(found, dict) else None
