"""Output tools: calls by which a model gives its answer in a form, and which are no calls.

A framework that wants an answer of a type gives the model a tool with the type's parameters. The
call of it is the answer; nothing is executed but what reads the answer. A call is of an output tool
where one of these says so:

* the definitions that the model was given (pydantic-ai's say that it ends the conversation);
* the span that reads it (pydantic-ai's output functions), or what it was answered with;
* its name, where a framework has reserved it;
* for a call that nothing executes or answers: the request, where it names this tool as the one to
  call, or a span around that gives back the call's arguments as its own result.

Source: pydantic-ai 1 and 2, LangChain 1 (`ToolStrategy`, `with_structured_output`), Google's ADK
(`output_schema`), the Claude Agent SDK, LiteLLM, instructor, smolagents, Strands.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from pydantic import JsonValue

from scouter.model.agent_work import ToolCall
from scouter.model.genai.acts import Act
from scouter.model.genai.facts import Field, Kind
from scouter.model.genai.lookup import USES
from scouter.model.genai.messages import field, items, text
from scouter.model.genai.reader import kind_of
from scouter.model.genai.tool_definitions import TOOL_DEFINITIONS
from scouter.model.genai.wrappers import is_hidden_text, open_json
from scouter.model.json_value import to_json_value
from scouter.model.span import AttributeValue, Span

_ENDS: Final = "The final response which ends this conversation"
"""Description of an output tool, or its end."""
_GIVEN: Final = (TOOL_DEFINITIONS, "model_request_parameters")
_OUTPUT_TOOLS: Final = '"output_tools"'
_RESERVED: Final = frozenset(
    {"set_model_response", "StructuredOutput", "json_tool_call", "final_answer"}
)
_FINAL_RESULT: Final = "final_result"
_FINAL: Final = re.compile(rf"{_FINAL_RESULT}(?:_\w+)?")
_READS: Final = "running output function"
_ANSWERS: Final = ("Final result processed", "Returning structured response")
_VALIDATED: Final = re.compile(r"Successfully validated \S+ structured output")
"""What Strands' output tools give back."""
_REQUESTS: Final = (
    "llm.invocation_parameters", "input.value", "request_data", "gen_ai.prompt", "metadata",
    "langfuse.observation.input", "langfuse.observation.model.parameters", "mlflow.spanInputs",
)  # fmt: skip
"""Attributes with a request, which may name the tool to call."""
_CHOSEN: Final = (
    "gen_ai.request.tool_choice", "gen_ai.openai.request.tool_choice", "llm.request.tool_choice",
    "ai.prompt.toolChoice", "langsmith.metadata.ls_structured_output_format",
)  # fmt: skip
"""Attributes with its name alone, or the choice of the request."""
_CHOICES: Final = ("tool_choice", "toolChoice", "ls_structured_output_format")
_AROUND: Final = frozenset({Kind.AGENT, Kind.WORKFLOW, Kind.OTHER})
"""Kinds of spans that give back what models answered inside of them."""
_LEVELS: Final = 2
"""Levels inside of a choice on which it may name a tool."""
_STRUCTURED: Final = "structured_response"
_OUTPUTS: Final = tuple(
    name
    for name, uses in USES[Kind.AGENT].items()
    if any(use.field is Field.OUTPUT and not use.prefix for use in uses)
)
"""Attributes with what an agent or a step gave back."""


class OutputTools:
    """Tells output tools from tools, in one trace.

    Args:
        models: Calls of models, in time order.
        spans: All spans, in time order.
    """

    def __init__(self, models: Sequence[Act], spans: Sequence[Span]) -> None:
        self._models, self._spans = models, spans
        self._given: dict[int, frozenset[str]] = {}
        self._results: list[JsonValue] | None = None

    def has(self, call: ToolCall, by: int, execution: Act | None) -> bool:
        """Tell whether a call is one of an output tool.

        Args:
            call: As a model requested it.
            by: Place of the model.
            execution: What executed it.
        """
        if execution is not None:
            return is_reading(execution)
        if call.name in _RESERVED or call.name in self._names(by):
            return True
        if call.has_result:
            return isinstance(call.result, str) and call.result.startswith(_ANSWERS)
        if _FINAL.fullmatch(call.name) or self._is_named(call.name, by):
            return True
        return isinstance(call.arguments, dict) and self._is_given_back(call.arguments)

    def _names(self, by: int) -> frozenset[str]:
        """Names of the output tools that a model was given."""
        found = self._given.get(by)
        if found is None:
            found = self._given[by] = frozenset(_output_names(self._models[by].spans))
        return found

    def _is_named(self, name: str, by: int) -> bool:
        for value in _values(self._models[by].spans, _REQUESTS):
            if not isinstance(value, str) or name not in value:
                continue
            if any(choice in value for choice in _CHOICES):
                request = open_json(value)
                if any(_names_tool(field(request, choice), name) for choice in _CHOICES):
                    return True
        chosen = _values(self._models[by].spans, _CHOSEN)
        return any(_names_tool(to_json_value(value), name) for value in chosen)

    def _is_given_back(self, arguments: dict[str, JsonValue]) -> bool:
        """Tell whether a span around gives back arguments, or the only one of them."""
        if not arguments:
            return False
        wanted = [arguments, *arguments.values()] if len(arguments) == 1 else [arguments]
        if self._results is None:
            self._results = list(_results(self._spans))
        return any(result in wanted for result in self._results)


def is_reading(execution: Act) -> bool:
    """Tell whether a tool's span is of the function that reads an answer."""
    return (
        execution.facts.tool in _RESERVED
        or _is_validated(execution)
        or any(
            str(span.attributes.get("logfire.msg", span.name)).startswith(_READS)
            or span.name.startswith(_READS)
            for span in execution.spans
        )
    )


def _is_validated(execution: Act) -> bool:
    result = execution.facts.result
    return isinstance(result, str) and _VALIDATED.fullmatch(result) is not None


def as_answer(call: ToolCall, execution: Act | None) -> str | None:
    """Give the answer that a call of an output tool is, as a text or as JSON.

    It is what the function that reads the answer made of it, else the call's arguments. None where
    these are masked or not reported.
    """
    answer = call.arguments
    if execution is not None and is_reading(execution) and not _is_validated(execution):
        answer = execution.facts.result if execution.facts.has_result else answer
    if answer is None or is_hidden_text(answer):
        return None
    return answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)


def _values(spans: Iterable[Span], names: Sequence[str]) -> Iterator[AttributeValue]:
    for span in spans:
        for name in names:
            if (value := span.attributes.get(name)) is not None:
                yield value


def _output_names(spans: Iterable[Span]) -> Iterator[str]:
    for value in _values(spans, _GIVEN):
        written = value if isinstance(value, str) else json.dumps(to_json_value(value))
        if _ENDS not in written and _OUTPUT_TOOLS not in written:
            continue
        opened = open_json(written)
        yield from (text(field(each, "name")) for each in items(field(opened, "output_tools")))
        for each in items(opened):
            definition = open_json(each)
            inner = field(definition, "function") or definition
            if text(field(inner, "description")).endswith(_ENDS):
                yield text(field(inner, "name"))


def _names_tool(choice: JsonValue, name: str) -> bool:
    """Tell whether a request's choice is one tool, in the words of any provider."""
    choice = open_json(choice)
    if isinstance(choice, str):
        return choice == name
    holders = [choice]
    for _ in range(_LEVELS):
        holders += [
            each for holder in holders if isinstance(holder, dict) for each in holder.values()
        ]
    return any(field(holder, key) == name for holder in holders for key in ("name", "toolName"))


def _results(spans: Iterable[Span]) -> Iterator[JsonValue]:
    """What agents and steps gave back, as far as it is JSON."""
    for span in spans:
        if kind_of(span) not in _AROUND:
            continue
        for name in _OUTPUTS:
            value = span.attributes.get(name)
            is_json = isinstance(value, str) and value.lstrip()[:1] in ("{", "[")
            if not is_json and name != _FINAL_RESULT:
                continue
            opened = open_json(to_json_value(value))
            yield opened
            if isinstance(opened, dict) and _STRUCTURED in opened:
                yield opened[_STRUCTURED]
