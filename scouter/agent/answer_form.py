"""The form of a question and of its answer, and how the answer is read back."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic import JsonValue

from scouter.agent.entries import StructuredOutput
from scouter.evaluate.judge.answer_text import only_value, read_answer, under
from scouter.evaluate.judge.port import JudgeError, Message
from scouter.evaluate.outcome import Reason

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse
    from pydantic_ai.models import Model, ModelRequestParameters

_NAME: Final = "answer"
"""Name of the schema, of the tool, and of the field that wraps an answer that is not an object."""
_SHOWN: Final = 2_000
"""Most characters of an answer that an error message quotes."""
_MAX_FORMS: Final = 256

_INSTRUCTIONS: Final = """\
Answer with one JSON value that matches this JSON schema. Write nothing before it, nothing after \
it, and no Markdown.

"""


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerForm:
    """Form in which one model is called for answers that follow one JSON schema."""

    parameters: "ModelRequestParameters"
    instructions: str = ""
    """Said by the system, where the schema has to stand in the prompt."""
    is_wrapped: bool = False
    """True if the answer is a field of an object, as vendors hold models to objects only."""
    is_json: bool = False
    """True if the vendor got the form; a text may still be JSON where it was not."""

    def read(self, response: "ModelResponse") -> JsonValue:
        """Take the answer out of a response.

        Raises:
            JudgeError: `PARSE`: there is no answer, or it is not JSON where it has to be.
        """
        calls = [
            cast("JsonValue", part.args)
            for part in response.parts
            if part.part_kind == "tool-call" and part.tool_name == _NAME
        ]
        answer: JsonValue = calls[0] if calls else response.text or ""
        if any(call != answer for call in calls):  # two verdicts, or two reasons for one
            answer = "\n".join(
                call if isinstance(call, str) else json.dumps(call) for call in calls
            )
        if answer in ("", None):
            raise JudgeError(Reason.PARSE, "the model's answer is empty")
        if self.is_json and isinstance(answer, str):
            answer = read_answer(answer, under(_NAME)) if self.is_wrapped else only_value(answer)
        if self.is_wrapped:
            if not isinstance(answer, dict) or _NAME not in answer:
                shown = _shown(json.dumps(answer))
                raise JudgeError(
                    Reason.PARSE, f"the model's answer has no field {_NAME!r}: {shown}"
                )
            answer = answer[_NAME]
        return answer


class AnswerForms:
    """Makes forms, and keeps them: the same schema comes with every question of a task."""

    def __init__(self) -> None:
        self._forms: dict[tuple[int, str], tuple[object, AnswerForm]] = {}

    def get(
        self,
        schema: Mapping[str, JsonValue] | None,
        model: "Model",
        structured: StructuredOutput,
    ) -> AnswerForm:
        """The form for a schema.

        Args:
            schema: JSON schema of the wanted answer; None for free text.
            model: The model that answers; its abilities count.
            structured: The setting of the provider entry.
        """
        mode = "free" if schema is None else _mode(model, structured)
        key = id(schema), mode
        retained = self._forms.get(key)
        if retained is not None:
            return retained[1]
        if len(self._forms) >= _MAX_FORMS:
            self._forms.clear()
        form = _make(schema, mode)
        self._forms[key] = schema, form  # the schema, too: its id stays its own as long
        return form


def _mode(model: "Model", structured: StructuredOutput) -> str:
    if structured != "auto":
        return structured
    profile = model.profile
    if profile.get("supports_json_schema_output", False):
        return "schema"
    return "tool" if profile.get("supports_tools", True) else "text"


def _make(schema: Mapping[str, JsonValue] | None, mode: str) -> AnswerForm:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    if schema is None:
        return AnswerForm(parameters=ModelRequestParameters())
    if mode == "text":
        is_text = schema.get("type") == "string"  # then any answer is of the wanted form
        text = "" if is_text else _INSTRUCTIONS + json.dumps(schema, ensure_ascii=False)
        return AnswerForm(parameters=ModelRequestParameters(), instructions=text)
    is_wrapped = schema.get("type") != "object"
    sent = _wrapped(schema) if is_wrapped else cast("dict[str, Any]", dict(schema))
    if mode == "schema":
        wanted = OutputObjectDefinition(json_schema=sent, name=_NAME)
        parameters = ModelRequestParameters(output_mode="native", output_object=wanted)
    else:
        tool = ToolDefinition(
            name=_NAME,
            parameters_json_schema=sent,
            description="Takes your answer. Call it once.",
            kind="output",
        )
        parameters = ModelRequestParameters(
            output_mode="tool", output_tools=[tool], allow_text_output=False
        )
    return AnswerForm(parameters=parameters, is_wrapped=is_wrapped, is_json=True)


def _wrapped(schema: Mapping[str, JsonValue]) -> dict[str, Any]:
    """Make an object of a schema that is none; definitions stay where references look for them."""
    inner = {name: value for name, value in schema.items() if name != "$defs"}
    whole: dict[str, Any] = {
        "type": "object",
        "properties": {_NAME: inner},
        "required": [_NAME],
        "additionalProperties": False,
    }
    return {**whole, "$defs": schema["$defs"]} if "$defs" in schema else whole


def _shown(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def to_model_messages(messages: Iterable[Message]) -> "list[ModelMessage]":
    """Translate messages, in their order.

    `system` and `developer` instruct, `assistant` and `model` are the model's own words, `user`
    and `tool` are what it reads. Where a vendor has one place for instructions, those from the
    middle of a conversation go there, too.
    """
    from pydantic_ai.messages import (  # a second of imports that only a real judge pays for
        ModelRequest,
        ModelResponse,
        SystemPromptPart,
        TextPart,
        UserPromptPart,
    )

    found: list[ModelMessage] = []
    parts: list[ModelRequestPart] = []
    for message in messages:
        role, content = message["role"], message["content"]
        if role in {"assistant", "model"}:
            if parts:
                found.append(ModelRequest(parts=parts))
                parts = []
            found.append(ModelResponse(parts=[TextPart(content)]))
        elif role in {"system", "developer"}:
            parts.append(SystemPromptPart(content))
        else:
            parts.append(UserPromptPart(content))
    if parts:
        found.append(ModelRequest(parts=parts))
    return found
