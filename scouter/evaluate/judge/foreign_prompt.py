"""Prompts as the original system writes them, turned into the fields of ours.

It writes the request to its provider (`request`), in words that differ by provider. Beside it stand
`model`, `provider`, and the fields that follow from the request: `version`, `parameters` and
`response_type`. All fields of the request are settings for the model, except the messages and the
schema of the answer.

In its messages `{name}` and `${name}` are variables, even within further braces. Paths are no
variables, and system messages have none. Both forms become variables of ours.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Final, cast

_BESIDE: Final = ("request", "model", "provider", "version", "parameters", "response_type")
_VARIABLE: Final = re.compile(r"\$?\{([A-Za-z_]\w*)\}|\$\{")
_JSON_ANSWER: Final = ("responseMimeType", "responseJsonSchema")
_SYSTEM: Final = ("system", "developer")

Fields = dict[str, object]


def is_foreign(data: object) -> bool:
    """Tell whether a value is a prompt as the original writes it."""
    return isinstance(data, Mapping) and isinstance(
        cast("Mapping[str, object]", data).get("request"), Mapping
    )


def from_foreign(data: Mapping[str, object]) -> Fields:
    """Turn a prompt of the original into the fields of ours.

    Args:
        data: For which `is_foreign` holds.

    Raises:
        ValueError: A message is no text, such as an image.
    """
    request = dict(cast("Mapping[str, object]", data["request"]))
    model = request.pop("model", None)
    fields: Fields = {name: value for name, value in data.items() if name not in _BESIDE}
    fields["model"] = data.get("model", model)
    fields["provider"] = data.get("provider")
    read = _gemini if "contents" in request else _chat
    messages, system, schema = read(request)
    fields["messages"] = [
        {"role": role, "content": _with_variables(text)} for role, text in messages
    ]
    if system:
        fields["system_instructions"] = [text.replace("${", "$${") for text in system]
    fields["output_type"] = schema
    fields["model_settings"] = request or None
    return fields


_Read = tuple[list[tuple[str, str]], list[str], object]
"""Role and text of the messages, texts of the system, schema of the answer."""


def _chat(request: Fields) -> _Read:
    """Requests to OpenAI, whose first messages may be the system's, and to Anthropic."""
    said = _said(request.pop("messages", ()), "content")
    system = [text for role, text in said if role in _SYSTEM]
    system += [_text(part) for part in _items(request.pop("system", ()))]
    schema = None
    for key in ("response_format", "output_format"):
        form = _fields(request.pop(key, None))
        form = _fields(form.get("json_schema")) or form
        schema = form.get("schema") or schema
    return [each for each in said if each[0] not in _SYSTEM], system, schema


def _gemini(request: Fields) -> _Read:
    """Requests to Gemini, by whatever way."""
    said = _said(request.pop("contents"), "parts")
    spoken = request.pop("systemInstruction", None)
    system = [] if spoken is None else [text for _, text in _said([spoken], "parts")]
    config = _fields(request.pop("generation_config", None))
    schema = config.get(_JSON_ANSWER[1])
    for key in _JSON_ANSWER:
        config.pop(key, None)
    if config:
        request["generation_config"] = config
    return said, system, schema


def _said(messages: object, where: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for each in _items(messages):
        message = _fields(each)
        parts = [_text(part) for part in _items(message.get(where, ()))]
        found.append((str(message.get("role", "user")), "\n".join(parts)))
    return found


def _items(value: object) -> Sequence[object]:
    if isinstance(value, Sequence) and not isinstance(value, str):
        return cast("Sequence[object]", value)
    return (value,)


def _fields(value: object) -> Fields:
    return dict(cast("Mapping[str, object]", value)) if isinstance(value, Mapping) else {}


def _text(part: object) -> str:
    text = part if isinstance(part, str) else _fields(part).get("text")
    if not isinstance(text, str):
        kind = _fields(part).get("type") or ", ".join(_fields(part)) or type(part).__name__
        raise ValueError(f"a message holds something other than text ({kind}), which is not read")
    return text


def _with_variables(text: str) -> str:
    return _VARIABLE.sub(lambda found: f"${{{found[1]}}}" if found[1] else "$${", text)
