"""Definitions of the tools that an agent has, as its spans tell them."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from scouter.model.genai.wrappers import open_json
from scouter.model.json_value import to_json_value
from scouter.model.span import AttributeValue, Span

TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
LISTS: Final = (TOOL_DEFINITIONS, "ai.prompt.tools")
"""Attributes with all tools: OpenTelemetry's, and those of the Vercel AI SDK 6."""
_SCHEMA: Final = re.compile(r"llm\.tools\.(\d{1,9})\.tool\.json_schema")
"""OpenInference's, one attribute for each tool."""
NUMBERED: Final = ("llm.tools.", "llm.request.functions.")
"""Prefixes of attributes that each hold one, or a part of one."""
_FUNCTION: Final = re.compile(r"llm\.request\.functions\.(\d{1,9})\.(name|description|parameters)")
"""OpenLLMetry's, three attributes for each tool."""


def tool_definitions(spans: Iterable[Span]) -> list[JsonValue]:
    """Read which tools models were given, with descriptions and parameters.

    Args:
        spans: In any order; events are looked at, too.

    Returns:
        Each definition once, as the sender wrote it: usually an object with `name`, `description`
        and a JSON schema of the parameters. Empty where no span reports any.

    Cost: linear in the attributes of the spans and the size of the definitions.
    """
    found: dict[str, JsonValue] = {}
    for span in spans:
        for attributes in (span.attributes, *(event.attributes for event in span.events)):
            for each in definitions_in(attributes):
                found.setdefault(json.dumps(each, sort_keys=True), each)
    return list(found.values())


def tells_tools(name: str) -> bool:
    """Tell whether an attribute holds definitions of tools, or a part of one."""
    return name.startswith(NUMBERED) or name in LISTS


def definitions_in(attributes: Mapping[str, AttributeValue]) -> Iterator[JsonValue]:
    """Read the definitions of tools in the attributes of a span or an event."""
    for name in LISTS:
        if name in attributes:
            yield from _opened(open_json(to_json_value(attributes[name])))
    schemas: dict[int, JsonValue] = {}
    functions: dict[int, dict[str, JsonValue]] = {}
    for name, value in attributes.items():
        if not name.startswith(NUMBERED):
            continue
        if schema := _SCHEMA.fullmatch(name):
            schemas[int(schema[1])] = open_json(to_json_value(value))
        elif function := _FUNCTION.fullmatch(name):
            definition = functions.setdefault(int(function[1]), {})
            plain = to_json_value(value)
            definition[function[2]] = open_json(plain) if function[2] == "parameters" else plain
    yield from (schemas[at] for at in sorted(schemas))
    yield from (functions[at] for at in sorted(functions))


def _opened(value: JsonValue) -> Iterator[JsonValue]:
    """The definitions in a list whose items may be JSON texts; what is no object is none."""
    for each in value if isinstance(value, list) else [value]:
        opened = open_json(each)
        if isinstance(opened, dict):
            yield opened
