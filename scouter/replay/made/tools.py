"""An agent's tools, and the calls that they would take."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from pydantic import JsonValue, TypeAdapter
from pydantic.errors import PydanticUserError

from scouter.errors import ConfigError
from scouter.evaluate.files.read import Document, read_document
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.schema.schema import Schema, compile_schema
from scouter.model.json_value import to_json_value
from scouter.model.visible import did_you_mean, some_of
from scouter.replay.loading import load_object

_OPTION: Final = "--tools"
_SCHEMAS: Final = ("parameters", "input_schema", "inputSchema")
"""Names under which OpenAI, Anthropic and MCP put a tool's schema."""
_FORM: Final = '{"name": …, "description": …, "parameters": {a JSON schema}}'
_NOTHING: Final[Mapping[str, JsonValue]] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool of an agent."""

    name: str
    description: str
    parameters: Mapping[str, JsonValue]
    """JSON schema of its arguments."""
    schema: Schema = field(repr=False, compare=False)
    """The same, but that no argument is required: an expectation names those that it knows."""

    @staticmethod
    def of(name: str, description: str, parameters: Mapping[str, JsonValue]) -> "Tool":
        """Make a tool.

        Raises:
            ConfigError: The schema is none.
        """
        optional = {key: value for key, value in parameters.items() if key != "required"}
        schema = compile_schema(optional, f"the tool {name!r}")
        return Tool(name=name, description=description, parameters=parameters, schema=schema)

    def to_json(self) -> dict[str, JsonValue]:
        """The tool as a model is shown it."""
        return {
            "name": self.name,
            "description": self.description,
            "parameters": dict(self.parameters),
        }


class Tools:
    """All tools of an agent, by name.

    Args:
        tools: In the order in which a model is shown them.

    Raises:
        ConfigError: There are none, or two have one name.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self._by_name: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self._by_name:
                raise ConfigError(f"{_OPTION}: two tools have the name {tool.name!r}")
            self._by_name[tool.name] = tool
        if not self._by_name:
            raise ConfigError(f"{_OPTION}: there are no tools; expected at least one")

    @staticmethod
    def read(references: Iterable[str]) -> "Tools":
        """Read tools.

        Args:
            references: Files (.json, .yaml) with definitions as OpenAI, Anthropic or MCP write
                them, or `module:name` of a function, of a list of them, or of definitions.

        Raises:
            FileFormatError: A file is no list of definitions; names the place.
            ConfigError: No such module or name, or what it names is no tool.
        """
        return Tools(tool for each in references for tool in _read(each))

    def to_json(self) -> list[JsonValue]:
        """The tools as a model is shown them."""
        return [tool.to_json() for tool in self._by_name.values()]

    def fault(self, name: str, arguments: Mapping[str, JsonValue]) -> str:
        """Say why a call cannot be; "" if it can.

        Args:
            name: The tool.
            arguments: Those of its arguments that are known.
        """
        tool = self._by_name.get(name)
        if tool is None:
            question = did_you_mean(name, self._by_name)
            return f"unknown tool {name!r}" + (f" ({question})" if question else "")
        known = tool.parameters.get("properties")
        unknown = [key for key in arguments if not (isinstance(known, dict) and key in known)]
        if unknown:
            return f"{name}: unknown parameter {some_of([repr(key) for key in unknown])}"
        try:
            problem = tool.schema.explain(dict(arguments))
        except TaskFault as error:
            problem = str(error)
        return f"{name}: breaks the schema: {problem}" if problem else ""


def _read(reference: str) -> Iterator[Tool]:
    if Path(reference).suffix in {".json", ".yaml", ".yml"} or Path(reference).exists():
        document = read_document(reference)
        value, place = document.inside("tools")
        for at, item in enumerate(value if isinstance(value, list) else [value]):
            loc = (*place, at) if isinstance(value, list) else place
            yield _defined(item, lambda text, loc=loc: _fault_in(document, text, loc))
        return
    found = load_object(reference, _OPTION)
    for item in cast("Iterable[object]", found) if isinstance(found, list | tuple) else (found,):
        if not isinstance(item, dict):
            yield _of_function(item, reference)
            continue
        try:
            definition = to_json_value(cast("object", item))
        except ValueError as error:
            raise ConfigError(f"{_OPTION} {reference}: {error}") from error
        yield _defined(definition, lambda text: ConfigError(f"{_OPTION} {reference}: {text}"))


def _fault_in(document: Document, text: str, loc: tuple[str | int, ...]) -> ConfigError:
    return document.error(text, loc, _FORM)


def _defined(item: JsonValue, fault: Callable[[str], ConfigError]) -> Tool:
    inner = item.get("function") if isinstance(item, dict) else None
    fields = inner if isinstance(inner, dict) else item
    name = fields.get("name") if isinstance(fields, dict) else None
    if not isinstance(fields, dict) or not isinstance(name, str) or not name:
        raise fault("no definition of a tool: it has no name")
    schema = next((fields[key] for key in _SCHEMAS if fields.get(key) is not None), dict(_NOTHING))
    if not isinstance(schema, dict):
        raise fault(f"the tool {name!r} has parameters that are no JSON schema")
    try:
        return Tool.of(name, str(fields.get("description") or ""), schema)
    except ConfigError as error:
        raise fault(str(error)) from error


def _of_function(function: object, reference: str) -> Tool:
    """Read a tool off a function's signature and docstring."""
    if not callable(function) or isinstance(function, type):
        raise ConfigError(
            f"{_OPTION} {reference}: a {type(function).__name__} is no tool; expected a function "
            f"with types in its signature, a list of such, or definitions in a file: {_FORM}"
        )
    name = str(getattr(function, "__name__", type(function).__name__))
    try:
        schema: dict[str, Any] = TypeAdapter(cast("Any", function)).json_schema()
    except (PydanticUserError, NameError, TypeError) as error:
        problem = str(error).partition("\n")[0]
        raise ConfigError(
            f"{_OPTION} {reference}: the signature of {name!r} has no JSON schema ({problem}); "
            f"write its definition into a file: {_FORM}"
        ) from error
    return Tool.of(name, inspect.getdoc(function) or "", schema)
