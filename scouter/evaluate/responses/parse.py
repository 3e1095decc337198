"""Recognise a response and read it as an agent's work."""

import threading
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.operators.show import KEYS_SHOWN, kind_of, show_name
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.responses import vendors
from scouter.model.agent_work import AgentWork
from scouter.model.genai.messages import field, text
from scouter.model.json_value import parse_if_json

MAX_JSON: Final = 1_000_000
"""Characters of JSON in texts that are read for one response; they may become 24 MB of values."""
MAX_VALUES: Final = 500_000
"""Values that are looked through for one response."""


def parsed(value: JsonValue) -> JsonValue:
    """Give the object or list that a text holds as JSON; see `parse_if_json`.

    Args:
        value: The text; anything else is given back.

    Raises:
        TaskFault: It has more than `MAX_JSON` characters (`Reason.LIMIT`).
    """
    _check(_json_characters(value), MAX_JSON, "characters of JSON in a text")
    return parse_if_json(value)


def check_response(value: JsonValue) -> None:
    """Refuse what is too large to be looked through as a response.

    Raises:
        TaskFault: It has more than `MAX_VALUES` values, or more than `MAX_JSON` characters of
            JSON in its texts (`Reason.LIMIT`).
    """
    values = characters = 0
    waiting = [value]
    while waiting:
        values += 1
        item = waiting.pop()
        if isinstance(item, list):
            waiting += item
        elif isinstance(item, dict):
            waiting += item.values()
        else:
            characters += _json_characters(item)
        _check(values + len(waiting), MAX_VALUES, "values")
    _check(characters, MAX_JSON, "characters of JSON in its texts")


def _check(found: int, limit: int, unit: str) -> None:
    if found > limit:
        raise TaskFault(
            Reason.LIMIT,
            f"the response has more than {limit:,} {unit}; name the way to it more closely",
        )


def _json_characters(value: JsonValue) -> int:
    is_read = isinstance(value, str) and value.lstrip()[:1] in ("{", "[")
    return len(value) if isinstance(value, str) and is_read else 0


Parse: TypeAlias = Callable[[vendors.Object], AgentWork | None]

RESPONSES: Final[Mapping[str, Parse]] = {
    "OpenAI chat": vendors.openai_chat,
    "OpenAI Responses": vendors.openai_responses,
    "Anthropic": vendors.anthropic,
    "Gemini": vendors.gemini,
    "Bedrock Converse": vendors.bedrock,
    "Vertex": vendors.vertex,
    "Google ADK": vendors.adk,
}
"""One answer of a provider, in the order in which the formats are tried."""

CONVERSATIONS: Final[Mapping[str, Parse]] = {
    "a list of messages": vendors.messages,
    "one message": vendors.one_message,
}
"""Messages in any dialect, OpenTelemetry's among them; tried last, as they are the least sure."""

FORMATS: Final[Mapping[str, Parse]] = {**RESPONSES, **CONVERSATIONS}

_GOOGLE: Final = ("Gemini", "Vertex", "Google ADK")
_MESSAGES: Final = tuple(CONVERSATIONS)
PROVIDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "openai": ("OpenAI chat", "OpenAI Responses"),
    "anthropic": ("Anthropic",),
    "gemini": ("Gemini",),
    "google": _GOOGLE,
    "vertex": ("Gemini", "Vertex", "Anthropic"),
    "google_adk": ("Google ADK", "Gemini"),
    "bedrock": ("Bedrock Converse",),
    "otel": _MESSAGES,
    "messages": _MESSAGES,
}
"""The formats that a task's `provider` stands for. Lists of messages are read for each of them."""


def formats_of(provider: str | None) -> tuple[str, ...]:
    """Give the formats of a provider, all of them for none.

    Args:
        provider: A key of `PROVIDERS`; case, blanks, `-` and `_` do not matter.

    Raises:
        ConfigError: No such provider.
    """
    if provider is None or _plain(provider) in ("", "undefined"):
        return tuple(FORMATS)
    for name, formats in PROVIDERS.items():
        if _plain(name) == _plain(provider):
            return formats
    known = ", ".join(map(repr, PROVIDERS))
    raise ConfigError(f"provider {provider!r} is unknown; there are {known}")


def _plain(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter not in " -_")


Found: TypeAlias = tuple[JsonValue, AgentWork]
"""The response as it was sent, and what it says."""


class _Shared(threading.local):
    """Responses that this thread has read inside of `shared_responses`."""

    found: dict[tuple[int, tuple[str, ...]], tuple[JsonValue, Found | TaskFault]] | None = None
    """Responses by the `id` of their value, and the formats.

    The value is stored beside, so that no other one gets its `id`.
    """


_SHARED: Final = _Shared()


@contextmanager
def shared_responses() -> Generator[None]:
    """Read each value once, however many tasks ask for it: for as long as no value changes."""
    before = _SHARED.found
    _SHARED.found = {}
    try:
        yield
    finally:
        _SHARED.found = before


def find_response(value: JsonValue, formats: tuple[str, ...]) -> Found:
    """Find the response in a context, or give what was found before in `shared_responses`.

    Raises:
        TaskFault: Nothing there is in one of the formats; says what there is.
    """
    known = _SHARED.found
    if known is None:
        return _find(value, formats)
    key = (id(value), formats)
    if key not in known:
        try:
            known[key] = (value, _find(value, formats))
        except TaskFault as fault:
            if fault.reason is Reason.LIMIT:  # a task behind it may have more
                raise
            known[key] = (value, fault)
    _, found = known[key]
    if isinstance(found, TaskFault):
        raise TaskFault(found.reason, found.message)
    return found


def _find(value: JsonValue, formats: tuple[str, ...]) -> Found:
    """Find the response in a context.

    It is the context itself (or the JSON text that it is) if that is one of a provider's
    responses, else its field `response`, else the context as a conversation: so the messages of a
    request that stands beside its response are never taken for it.

    Returns:
        The response as it was sent, and what it says.

    Raises:
        TaskFault: Nothing there is in one of the formats; says what there is. Or it is too large
            (`Reason.LIMIT`).
    """
    value = parsed(value)
    check_response(value)
    answers = [name for name in formats if name in RESPONSES]
    work = _parse(value, answers) if isinstance(value, dict) else None
    if work is not None:
        return value, work
    if isinstance(value, dict) and "response" in value:
        inner = parsed(value["response"])
        if inner is not value["response"]:
            check_response(inner)
        work = _parse(inner, formats)
        if work is not None:
            return inner, work
    work = _parse(value, formats)
    if work is not None:
        return value, work
    raise _unknown_format(value, formats)


def _parse(value: JsonValue, formats: Iterable[str]) -> AgentWork | None:
    if isinstance(value, list):  # whatever the provider: its messages are read as such
        return vendors.messages({"messages": value})
    if not isinstance(value, dict):
        return None
    works = (FORMATS[name](value) for name in formats)
    return next((work for work in works if work is not None), None)


def _unknown_format(value: JsonValue, formats: tuple[str, ...]) -> TaskFault:
    """Say that a response was not recognised, what is there, and what it may be instead."""
    there = _describe(value)
    if isinstance(value, dict) and "response" in value:
        there += f", in its 'response' {_describe(parsed(value['response']))}"
    whose = "provider's" if set(formats) < set(FORMATS) else "known"
    others = [name for name in FORMATS if name not in formats and _parse(value, (name,))]
    hint = f" (it reads as {others[0]}: leave out the provider)" if others else ""
    known = ", ".join(formats)
    return TaskFault(
        Reason.PARSE,
        f"the response is in none of the {whose} formats ({known}): found {there}{hint}; use "
        "context_path to point at it, or source: spans to read the trace instead",
    )


def _describe(value: JsonValue) -> str:
    if isinstance(value, list):
        roles = dict.fromkeys(text(field(item, "role")) for item in value)
        named = ", ".join(show_name(role) for role in list(roles)[:KEYS_SHOWN] if role)
        if named:
            return f"messages of {named} only"
        return f"a list of {len(value)} items without roles"
    if isinstance(value, dict):
        keys = ", ".join(map(show_name, islice(value, KEYS_SHOWN))) or "no keys"
        return f"an object with {keys}"
    return kind_of(value)
