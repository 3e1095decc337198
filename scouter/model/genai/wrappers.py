"""Wrappers around arguments, results and messages, and what stands for a masked value."""

import ast
import json
import re
from typing import Final

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.model.json_value import MAX_DEPTH, to_json_value

_LONGEST: Final = 200
"""Characters; a longer text is no mask."""
_SIGNS: Final = frozenset("[<({_*#%$•●█▓■xX…@hsmrRSP\"'")
"""First characters of all that is looked at."""
_WORDS: Final = (
    "redact[a-z]*|scrubbed|masked|hidden|omitted|removed|filtered|saniti[sz]ed|anonymi[sz]ed|"
    "suppressed|withheld|elided|stripped|truncated|censored|obfuscated|confidential|sensitive|"
    "protected|pii|phi|gdpr|dropped|disabled|too (?:large|long|big|deep)|max depth|"
    "(?:un|non-|not )serializable|failed to serialize|not (?:recorded|captured|logged)|"
    "geschwärzt|entfernt|zensiert|masqué|caviardé|supprimé|censuré|oculto|censurado|eliminado|"
    "скрыто|удалено|已屏蔽|已脱敏|已隐藏|非表示|伏せ字|삭제됨"
)
_KINDS: Final = (
    "email|phone|person|name|iban|credit|us|location|address|url|ip|date|ssn|pii|card|account|"
    "passport|password|token|user|organization|private|secret"
)
_MASK: Final = re.compile(
    rf"[\[<({{]+[\s_*#]*(?:[\w ,:'-]{{0,40}}[\s_:*-])?(?:{_WORDS})"
    r"(?:[\s_:,*-][^\]>)}]{0,80})?[\s_*#]*[\]>)}]+"
    rf"|[_*#%$@]{{2,}}(?:{_WORDS})[_*#%$@]{{2,}}"
    r"|redacted(?:[ _]by[ _]\w{1,20})?\.?|scrubbed|[*•●█▓■ ]{3,}|x{4,}|#{4,}|…"
    r"|[\[<(][.…]{1,3}[\]>)]|@@@langfusemedia:.*@@@|<nil>"
    rf"|<(?:{_KINDS})\w*>|(?-i:\[+(?:{_KINDS.upper()})[A-Z0-9_]*\]+)"
    r"|[\[<(](?:base64|binary|bytes|blob|image|audio|file|media)\b[^\]>)]*[\]>)]"
    r"|[\[<(]?(?:hmac|sha\d{1,3}|md5|hash(?:ed)?)[:=-][0-9a-f]{4,}[\]>)]?"
    r"|\[(?:object \w+|object|array|circular|(?:async)?(?:generator)?function\b[^\]]*)\]"
    r"(?:,\[object \w+\])*|(?:promise|readablestream) \{[^}]*\}"
    r"|<(?:[\w.]+ ){1,4}at 0x[0-9a-f]+>",
    re.IGNORECASE,
)
_DIGEST: Final = re.compile(r"[0-9a-f]{32,128}", re.IGNORECASE)
_DIGESTS: Final = frozenset({32, 40, 64, 96, 128})
"""Digits of MD5, SHA-1, SHA-256, SHA-384 and SHA-512, with which collectors hash attributes."""
_JSON: Final = re.compile(r"\s*(?:\{\s*[\"']|\[\s*[\[{\"'])")


def is_hidden(value: JsonValue) -> bool:
    """Tell whether a value is a mask, or an object as a language prints it, and no value."""
    if not isinstance(value, str) or not value or value[0] not in _SIGNS or len(value) > _LONGEST:
        return False
    return _MASK.fullmatch(value.strip("\"' \n")) is not None


def is_hidden_text(value: JsonValue) -> bool:
    """Tell whether a mask, or a hash, stands for a text that is no hash by itself."""
    if not isinstance(value, str):
        return False
    return is_hidden(value) or (len(value) in _DIGESTS and _DIGEST.fullmatch(value) is not None)


_CUT: Final = re.compile(
    r"(?:[\[<({][^\[\]<>(){}]{0,40}\b|(?:…|\.\.\.) ?)truncated\b"
    r"(?:[\s:,]*[\d.,]*(?: ?(?:of|/) ?[\d.,]+)? ?(?:more )?"
    r"(?:[km]?b|chars?|characters|bytes|tokens)?)?[\s.…]*[\]>)}]*[\s.…]*"
    r"|[\[<(](?:…|\.\.\.)?[ +]*[\d,.]+ (?:more )?(?:chars?|characters|bytes|tokens)"
    r"(?: (?:more|truncated|omitted|left out))?[\s.…]*[\]>)]\s*",
    re.IGNORECASE,
)
_END: Final = 120
"""Characters at the end of a text that may say that it was cut."""


def is_cut_text(text: str) -> bool:
    """Tell whether a text ends with the words of an instrumentor that cut it."""
    end = text[-_END:]
    return any(_CUT.fullmatch(end, found.start()) for found in _CUT.finditer(end))


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


_REMARKS: Final = frozenset(
    {"args", "tags", "metadata", "kwargs", "sanitize_inputs_outputs", "run_id", "config"}
)
"""Keys that stand beside keywords and tell nothing of them."""
_CALL: Final = frozenset({"tool_name", "name", "arguments"})
"""Keys of MCP's call of a tool."""
_MCP_RESULT: Final = frozenset({"content", "isError", "structuredContent", "_meta", "meta"})
_GEMINI_RESULT: Final = frozenset({"id", "name", "response", "scheduling", "will_continue"})
_BESIDE_RESULT: Final = frozenset({"kwargs", "tags", "origin"})
_FIELD: Final = re.compile(
    r"""(\w+)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|None)(?:\s|$)""", re.DOTALL
)
"""A field of an object as Python prints it; one that is no text ends the reading."""
_DEEPEST: Final = 12
"""Wrappers around wrappers."""
_FAILURES: Final = ("is_error", "isError", "status", 'error"', "error'", "errorType")
"""One of these is in every text that reports a failure."""
_PRINTED_FAILURE: Final = re.compile(r"(?:meta|content)=.*\bis_?[eE]rror=True\s*", re.DOTALL)
"""MCP's result as Python prints it."""
_RPC: Final = frozenset({"jsonrpc", "id"})
_LAMBDA: Final = frozenset({"errorMessage", "errorType"})
_SMALL: Final = 3_000
"""Characters; an integer that is too long has more."""
_OPENERS: Final = ("{", "[", '"')


def open_json(value: JsonValue) -> JsonValue:
    """Give what a text holds as JSON: an object, a list, or a text that is no JSON in turn."""
    for _ in range(_DEEPEST):
        if not isinstance(value, str) or value.lstrip()[:1] not in _OPENERS:
            return value
        try:
            value = _read_json(_DECODER.decode(value), value)
        except (ValueError, RecursionError, DataError):
            return value
    return value


def _read_json(read: JsonValue, text: str) -> JsonValue:
    """What a text holds; what may be more than `to_json_value` lets through is copied by it."""
    is_small = len(text) < _SMALL and text.count("{") + text.count("[") < MAX_DEPTH
    return read if is_small and "\\u" not in text else to_json_value(read)


def first_item(text: str) -> JsonValue:
    """The first item of a list that is written as JSON, without the rest being read; else None."""
    start = len(text) - len(text.lstrip())
    if text[start : start + 1] != "[":
        return None
    start += 1
    while text[start : start + 1].isspace():
        start += 1
    try:
        read, end = _DECODER.raw_decode(text, start)
        return _read_json(read, text[start:end])
    except (ValueError, RecursionError, DataError):
        return None


def _none(_: str) -> None:
    """NaN and infinities, as `to_json_value` has it."""


_DECODER: Final = json.JSONDecoder(parse_constant=_none)


def open_arguments(value: JsonValue) -> JsonValue:
    """Give the arguments that a value holds; see the rule above."""
    for _ in range(_DEEPEST):
        opened = _literal(open_json(value))
        if isinstance(opened, dict):
            opened = _keywords(opened)
        if opened is value:
            return value
        value = opened
    return value


def _keywords(value: dict[str, JsonValue]) -> JsonValue:
    if "input_str" in value:
        inputs = value.get("inputs")
        return inputs if isinstance(inputs, dict) and inputs else value["input_str"]
    inner = value.get("kwargs")
    if isinstance(inner, dict) and value.keys() <= _REMARKS:
        return inner or value.get("args") or inner
    if isinstance(value.get("name"), str) and value.get("type") == "tool_call":
        return value.get("args")
    if "arguments" in value and value.keys() <= _CALL:
        return value["arguments"]
    return value


def _literal(value: JsonValue) -> JsonValue:
    """Read a dict that Python wrote."""
    if not isinstance(value, str) or value.lstrip()[:1] != "{":
        return value
    try:
        return to_json_value(ast.literal_eval(value.strip()))
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError, DataError):
        return value


def open_result(value: JsonValue) -> JsonValue:
    """Give the result that a value holds; see the rule above."""
    for _ in range(_DEEPEST):
        opened = _printed(open_json(value))
        if isinstance(opened, dict):
            opened = _content(opened)
        elif isinstance(opened, list):
            opened = _blocks(opened)
        if opened is value:
            return value
        value = opened
    return value


def is_only_error(result: JsonValue) -> bool:
    """Tell whether a result is nothing but an error.

    So Gemini's reference, JSON-RPC and AWS Lambda have it.
    """
    if not isinstance(result, dict):
        return False
    is_alone = result.keys() - _RPC == {"error"} and bool(result["error"])
    return is_alone or result.keys() >= _LAMBDA


def is_true(flag: JsonValue) -> bool:
    """Tell whether a flag is set, be it as a text."""
    return flag is True or (isinstance(flag, str) and flag.lower() == "true")


def tells_failure(value: JsonValue) -> bool:
    """Tell whether what is around a result says that the tool failed."""
    if isinstance(value, str) and not any(flag in value for flag in _FAILURES):
        return False  # without reading it
    if isinstance(value, str) and _PRINTED_FAILURE.fullmatch(value):
        return True
    for _ in range(_DEEPEST):
        opened = _literal(_printed(open_json(value)))
        if isinstance(opened, list):
            opened = _blocks(opened)
        if isinstance(opened, dict):
            if is_only_error(opened):
                return True
            message = open_message(opened)
            flags = (message.get("is_error"), message.get("isError"))
            if any(map(is_true, flags)) or (
                message.get("status") == "error" and "content" in message
            ):
                return True
            opened = _content(opened)
        if opened is value:
            return False
        value = opened
    return False


def _printed(value: JsonValue) -> JsonValue:
    """Read LangChain's message of a tool or Agno's result as Python prints it."""
    if not isinstance(value, str) or not _FIELD.match(value):
        return value
    parsed: dict[str, JsonValue] = {}
    at = 0
    while found := _FIELD.match(value, at):
        parsed[found[1]] = ast.literal_eval(found[2])
        at = found.end()
    if parsed.keys() >= {"content", "tool_call_id"}:
        return {**parsed, "type": "tool"}
    if parsed.keys() >= {"status", "result", "error"}:
        status = "error" if parsed["status"] == "failure" else parsed["status"]
        said = parsed["error"] if parsed["result"] is None else parsed["result"]
        return {"type": "tool", "content": said, "status": status}
    return value


def _content(value: dict[str, JsonValue]) -> JsonValue:
    message = open_message(value)
    kind = message.get("role") or message.get("type")
    if kind in ("tool", "tool_result", "tool-result") or "tool_call_id" in message:
        for key in ("content", "output", "result"):
            if key in message:
                return message[key]
    if "tool_output" in value:
        return value["tool_output"]
    if isinstance(value.get("blocks"), list) and "tool_name" in value:
        return value["blocks"]
    content = value.get("content")
    if isinstance(content, list) and content and value.keys() <= _MCP_RESULT:
        return content
    if isinstance(inner := value.get("toolResult"), dict):
        return inner.get("content")
    if "response" in value and "name" in value and value.keys() <= _GEMINI_RESULT:
        return value["response"]
    if value.get("type") in ("tool_call_response", "function_call_output"):
        return value.get("response", value.get("output"))
    for key in ("result", "output", "tool_call_result"):
        if key in value and _is_alone(value, key):
            return value[key]
    return value


def _is_alone(value: dict[str, JsonValue], key: str) -> bool:
    beside = value.keys() - {key} - _BESIDE_RESULT
    return not beside or (beside == {"error"} and not value["error"])


def _blocks(value: list[JsonValue]) -> JsonValue:
    texts: list[str] = []
    for block in value:
        if not isinstance(block, dict):
            return value
        said = block.get("text")
        if not isinstance(said, str) or block.get("type", "text") != "text":
            break
        texts.append(said)
    if texts and len(texts) == len(value):
        return "".join(texts)
    if len(value) == 1 and isinstance(value[0], dict):
        only = value[0]
        if only.keys() == {"json"}:
            return only["json"]
        if only.keys() & {"toolResult", "tool_call_result"}:
            return only
        if only.get("type") in ("tool", "tool_result", "tool_call_response"):
            return only
        if only.get("role") == "tool" and isinstance(only.get("parts"), list):
            return only["parts"]
    return value


def open_message(value: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Give the message that LangChain or LlamaIndex put into an object of its own."""
    inner = value.get("kwargs")
    if "lc" in value and isinstance(inner, dict):
        return inner
    inner = value.get("data")
    if isinstance(inner, dict) and isinstance(value.get("type"), str):
        return {"type": value["type"], **inner}
    if "_role" in value:  # Haystack's, in its earlier form
        return {"role": value["_role"], "content": value.get("_content")}
    return value
