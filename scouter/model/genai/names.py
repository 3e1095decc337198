"""Names of tools and models, and arguments of calls, so that two accounts can be compared."""

import json
import re
from collections.abc import Container
from functools import lru_cache
from typing import Final

import orjson
from pydantic import JsonValue

_MCP: Final = re.compile(r"mcp__.+?__(?=.)")
_PLUGIN: Final = re.compile(r"[A-Z]\w*-(?=\w)")
_CALL: Final = ".__call__"
_HAND_OFF: Final = re.compile(r"hand[-_ ]?off to (.+)", re.IGNORECASE)
_NO_LETTER: Final = re.compile(r"[^a-zA-Z0-9_]")
_PROVIDER: Final = re.compile(r"^(?:[a-z]+\.)+(?=[a-z])")
_VERSION: Final = re.compile(
    r"(?:[-@:_](?:\d{4}-\d\d-\d\d|\d\d-\d\d|\d{3,8}|v\d+(?:[.:]\d+)?|latest|preview|exp))+$"
)
_LONGEST: Final = 200
"""Characters of a model's name that is looked into; a version is searched for at each."""


def bare_name(name: str) -> str:
    """Take the framework's part off a tool's name: `mcp__travel__book` is `book`.

    So are `Travel-book` of Semantic Kernel and `book.__call__`.
    """
    bare = name.removesuffix(_CALL) or name
    for prefix in (_MCP, _PLUGIN):
        if found := prefix.match(bare):
            return bare[found.end() :]
    return bare


def call_of_hand_off(name: str) -> str:
    """Give the tool that a model calls for a hand-off whose span names the agent only.

    The OpenAI Agents SDK makes `transfer_to_billing_bob` of the agent `Billing Bob`.
    """
    found = _HAND_OFF.fullmatch(name)
    return "transfer_to_" + _NO_LETTER.sub("_", found[1]).lower() if found else name


def is_hand_off(name: str) -> bool:
    """Tell whether a span's name is that of a hand-off to an agent."""
    return _HAND_OFF.fullmatch(name) is not None


def is_called(name: str, wanted: str) -> bool:
    """Tell whether a tool is the one requested, by its name or its bare name."""
    return name == wanted or bare_name(name) == wanted


def known_as(name: str, known: Container[str]) -> str:
    """Give the name by which a tool is known: its own, else its bare one if that is known."""
    if name in known:
        return name
    bare = bare_name(name)
    return bare if bare in known else name


def bare_model(name: str) -> str:
    """Take provider and version off a model's name, so that two that are one model's are equal."""
    return _plain_model(name) if len(name) <= _LONGEST else name


@lru_cache(maxsize=1024)
def _plain_model(name: str) -> str:
    """`us.anthropic.claude-3-5-sonnet-20241022-v2:0` and its like become `claude-3-5-sonnet`."""
    return _VERSION.sub("", _PROVIDER.sub("", name.lower().rpartition("/")[2]))


_WHOLE: Final = re.compile(rb"\.0|\de\+?\d")
"""A sign of a float that is a whole number; texts have it, too."""


def arguments_text(arguments: JsonValue) -> bytes:
    """Write arguments so that equal JSON is equal text: keys in order, and 2.0 as 2.

    Cost: linear in their size; about 1 µs for a few.
    """
    try:
        text = orjson.dumps(arguments, option=orjson.OPT_SORT_KEYS)
        if _WHOLE.search(text) is not None:
            text = orjson.dumps(_whole(arguments), option=orjson.OPT_SORT_KEYS)
        return text
    except TypeError:  # an integer of more than 64 bits
        return json.dumps(_whole(arguments), sort_keys=True).encode()


def _whole(value: JsonValue) -> JsonValue:
    """The same with integers in place of floats that are whole."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else value
    if isinstance(value, list):
        return [_whole(item) for item in value]
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    return value
