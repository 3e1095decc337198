"""What a model's call ran with: values that a release changes, the agent's or the provider's."""

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from typing import Final, TypeAlias

from pydantic import JsonValue

from scouter.model.genai.messages import field
from scouter.model.genai.tool_definitions import definitions_in, tells_tools
from scouter.model.genai.wrappers import first_item, open_json
from scouter.model.json_value import to_json_value
from scouter.model.span import Attributes, AttributeValue, Span

PROMPT: Final = "prompt"
"""Name and version of a prompt in a registry."""
PROMPT_DIGEST: Final = "prompt_digest"
"""Its hash as the registry states it; else a digest of its template, or of the instructions."""
TOOLS_DIGEST: Final = "tools_digest"
"""Digest of the definitions of tools, in whichever order they stand."""
RESPONSE_MODEL: Final = "response_model"
FINGERPRINT: Final = "fingerprint"
"""`system_fingerprint` of OpenAI and those who speak its protocol: the provider's own release."""
VERSION: Final = "version"
"""Name and version of a service, of any span."""
KINDS: Final = (PROMPT, PROMPT_DIGEST, TOOLS_DIGEST, RESPONSE_MODEL, FINGERPRINT, VERSION)

_LONGEST: Final = 128
_INSTRUCTING: Final = frozenset({"system", "developer"})
_NAME: Final = "system_fingerprint"
_FINGERPRINT: Final = re.compile(r'system_fingerprint\\*["\']?\s*[:=]\s*\\*["\']([\w.:-]{1,64})')
"""A response inside of a text, be it JSON or JSON inside of JSON."""


def setup_text(kind: str, value: str) -> str:
    """One value that a call ran with, in the form of a tag: `prompt=travel 3`."""
    return f"{kind}={value[:_LONGEST]}"


def digest_of(value: AttributeValue | JsonValue) -> str:
    """Twelve hex digits of a text or of a JSON value, whatever the order of its keys."""
    text = value
    if not isinstance(text, str):
        text = json.dumps(value, sort_keys=True, default=to_json_value)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=6).hexdigest()


def tools_digest(span: Span) -> str:
    """Digest of the tools that a call was given; empty where its span does not report any.

    Cost: linear in the attributes; definitions are parsed once for all spans that repeat them.
    """
    for attributes in (span.attributes, *(event.attributes for event in span.events)):
        pairs = tuple(pair for pair in attributes.items() if tells_tools(pair[0]))
        if pairs and (found := _known_digest(pairs)):
            return found
    return ""


_Pairs: TypeAlias = tuple[tuple[str, AttributeValue], ...]


def _known_digest(pairs: _Pairs) -> str:
    try:
        return _cached_digest(pairs)
    except TypeError:  # a value that is no text cannot be looked up
        return _digest(pairs)


def _digest(pairs: _Pairs) -> str:
    texts = sorted(json.dumps(each, sort_keys=True) for each in definitions_in(dict(pairs)))
    return digest_of("\n".join(texts)) if texts else ""


_cached_digest: Final = lru_cache(maxsize=256)(_digest)


def instructions(value: AttributeValue | Attributes, prefix: str) -> JsonValue:
    """The first message of an input where it instructs the model; None where it is a user's.

    Args:
        value: A list of messages or its JSON, of which only the first one is parsed; or all
            attributes.
        prefix: Of attributes that hold the messages; empty for a list.
    """
    if isinstance(value, Mapping):
        for part in (f"{prefix}0.message.", f"{prefix}0."):
            if value.get(f"{part}role") in _INSTRUCTING:
                return to_json_value(value.get(f"{part}content"))
        return None
    if isinstance(value, str):
        first = first_item(value)
    else:
        items = to_json_value(value)
        first = open_json(items[0]) if isinstance(items, list) and items else None
    return first if field(first, "role") in _INSTRUCTING else None


def fingerprint_in(text: str) -> str:
    """The provider's fingerprint in a whole response; empty where there is none."""
    if _NAME not in text:  # which is found in a tenth of the time
        return ""
    found = _FINGERPRINT.search(text)
    return found[1] if found else ""
