"""Hidden values: what stands in the place of a value that was masked, left out or not written down.

Only a whole value is one. A text that has a mask somewhere inside is a text.

Source: OpenInference (`__REDACTED__`), Logfire (`[Scrubbed due to 'password']`), Langfuse, Sentry,
Claude Code, Google's ADK (`<elided>`), Presidio, the redaction processor of the OpenTelemetry
Collector (`****`), Scouter's own `Redaction`, and JavaScript's print of an object.
"""

import re
from typing import Final

from pydantic import JsonValue

_LONGEST: Final = 200
"""Characters; a longer text is no mask."""
_SIGNS: Final = frozenset("[<({_*#•●█▓■xX…@hsmrRS\"'")
"""First characters of all that is looked at."""
_WORDS: Final = (
    "redact[a-z]*|scrubbed|masked|hidden|omitted|removed|filtered|saniti[sz]ed|anonymi[sz]ed|"
    "suppressed|withheld|elided|stripped|truncated|censored|obfuscated|confidential|sensitive|"
    "not (?:recorded|captured|logged)"
)
_MASK: Final = re.compile(
    rf"[\[<({{]+[\s_*#]*(?:[\w ,'-]{{0,40}}[\s_:*-])?(?:{_WORDS})"
    r"(?:[\s_:,*-][^\]>)}]{0,80})?[\s_*#]*[\]>)}]+"
    rf"|[_*#]{{2,}}(?:{_WORDS})[_*#]{{2,}}"
    r"|redacted|scrubbed|[*•●█▓■ ]{3,}|x{4,}|#{4,}|…|@@@langfusemedia:.*@@@"
    r"|\[(?:object \w+|object|array|circular)\]"
    r"|<(?:email|phone|person|name|iban|credit|us|location|address|url|ip|date|ssn|pii)[\w]*>"
    r"|[\[<(](?:base64|binary|bytes|blob|image|audio|file|media)\b[^\]>)]*[\]>)]"
    r"|(?:hmac|sha\d{1,3}|md5|hash(?:ed)?)[:=-][0-9a-f]{4,}",
    re.IGNORECASE,
)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}|[0-9a-f]{128}")
_JSON: Final = re.compile(r"\s*(?:\{\s*[\"']|\[\s*[\[{\"'])")


def is_hidden(value: JsonValue) -> bool:
    """Tell whether a value is a mask, and no value."""
    if not isinstance(value, str) or not value or value[0] not in _SIGNS or len(value) > _LONGEST:
        return False
    return _MASK.fullmatch(value.strip("\"' \n")) is not None


def is_hidden_text(text: str) -> bool:
    """Tell whether what somebody said is a mask, or a hash in the place of it."""
    return is_hidden(text) or (len(text) in (64, 128) and _DIGEST.fullmatch(text) is not None)


def is_broken_json(value: JsonValue) -> bool:
    """Tell of a text that was not read as JSON whether it begins as an object or a list does."""
    return isinstance(value, str) and _JSON.match(value) is not None


def has_hidden(value: JsonValue) -> bool:
    """Tell whether a value is hidden, or a part of it at any level."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item
        elif is_hidden(item):
            return True
    return False
