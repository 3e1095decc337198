"""Patterns applied to every text of a value, and to what a text says that is JSON itself."""

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from scouter.errors import ConfigError
from scouter.model.json_value import plain_text

_STRING: Final = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_NUMBER: Final = rb"-?[0-9][0-9.eE+-]*+"
_LEAF: Final = re.compile(rb"%b|%b" % (_STRING, _NUMBER), re.DOTALL)
_JSON: Final = re.compile(
    rb"\s*+(?=[\[{\"])(?:%b|%b|[\s\[\]{},:]++|true|false|null|NaN|-?Infinity)*+"
    % (_STRING, _NUMBER),
    re.DOTALL,
)
"""Text that holds JSON's strings, numbers, signs and words and nothing else, in whatever order."""
_DECODE: Final = json.JSONDecoder(strict=False).decode
_MAX_INSIDE: Final = 8
"""Levels of JSON written as a string inside JSON that are read."""
_ESCAPES: Final = (
    (rb"\"", b'"'), (rb"\/", b"/"), (rb"\b", b"\b"), (rb"\f", b"\f"),
    (rb"\n", b"\n"), (rb"\r", b"\r"), (rb"\t", b"\t"),
)  # fmt: skip
_CODES: Final = re.compile(rb"(?:\\u[0-9a-fA-F]{4})++")
_NO_TEXT: Final = b"\xff"
"""A byte that UTF-8 never has."""
_ENDS: Final = re.compile(r"(?<!\[)\^|\$|\\[Az]")
"""Signs that tie a pattern to an end of the text.

A pattern with such a sign may find something in a part of a text that it does not find in the
whole.
"""


class TextPattern:
    """One pattern and the replacement of its matches.

    Args:
        text: A regular expression of RE2's syntax.
        change: Makes the replacement of a match from its text.

    Raises:
        ConfigError: It is no such expression, or it finds the empty text.
    """

    def __init__(self, text: str, change: Callable[[str], str]) -> None:
        from scouter.evaluate.patterns import compile_pattern

        compile_pattern(text, "redaction pattern")  # its limits and messages
        import re2

        options = re2.Options()
        options.log_errors = False
        self._compiled: Any = re2.compile(text, options)
        if self._compiled.search(b"") is not None:
            raise ConfigError(f"redaction pattern {text!r}: it finds the empty text, so everything")
        self._change = change
        self.asks_for_ends: Final = _ENDS.search(text) is not None
        """True if it may find something in a part of a text that it does not find in the whole."""

    def finds(self, data: bytes) -> bool:
        """Tell whether there is a match in UTF-8; linear."""
        return self._compiled.search(data) is not None

    def applied(self, data: bytes) -> bytes:
        """UTF-8 with every match changed; linear."""
        return self._compiled.sub(self._changed, data) if self.finds(data) else data

    def applied_across(self, data: bytes) -> bytes:
        """JSON text with every match changed that is not inside one string or number of it."""
        if not self.finds(data):
            return data
        spans = [
            (leaf.start() + 1, leaf.end() - 1) if leaf[0][:1] == b'"' else leaf.span()
            for leaf in _LEAF.finditer(data)
        ]
        starts = [start for start, _ in spans]

        def changed(match: Any) -> bytes:  # noqa: ANN401 - re2 has no types
            at = bisect_right(starts, match.start()) - 1
            is_inside = at >= 0 and match.end() <= spans[at][1]
            return match.group(0) if is_inside else self._changed(match)

        return self._compiled.sub(changed, data)

    def _changed(self, match: Any) -> bytes:  # noqa: ANN401 - re2 has no types
        return self._change(match.group(0).decode()).encode()


def in_texts(value: object, patterns: Sequence[TextPattern]) -> object:
    """Change the matches in every text of a value, keys and numbers included.

    Cost: linear in the size of the value.
    """
    if not patterns:
        return value
    if isinstance(value, str):
        return in_text(value, patterns)
    if isinstance(value, bytes):
        # Bytes travel as base64, in which no pattern finds anything: so here, if they are text.
        try:
            text = value.decode()
        except UnicodeDecodeError:
            return value
        return in_text(text, patterns).encode()
    if isinstance(value, Mapping):
        out: dict[object, object] = {}
        for key, item in cast("Mapping[object, object]", value).items():
            out[free_key(in_texts(key, patterns), out)] = in_texts(item, patterns)
        return out
    if isinstance(value, list | tuple):
        items = [in_texts(item, patterns) for item in cast("Sequence[object]", value)]
        return tuple(items) if isinstance(value, tuple) else items
    if type(value) is int or type(value) is float:
        text = in_text(shown := str(value), patterns)
        return value if text is shown else text
    return value


def in_text(text: str, patterns: Sequence[TextPattern], level: int = 0) -> str:
    """Change the matches in a text; in one that is JSON, in its strings as they read.

    Args:
        text: Any text.
        patterns: In the order in which they are applied.
        level: Number of JSON texts around it.

    Returns:
        The very same object if nothing was changed.

    Cost: linear in its length, at most `_MAX_INSIDE` times.
    """
    data = before = plain_text(text).encode()
    changed = None
    if level < _MAX_INSIDE and data.lstrip()[:1] in {b"[", b"{", b'"'}:
        changed = _in_json(data, patterns, level)
    if changed is None:
        for pattern in patterns:
            data = pattern.applied(data)
    else:
        data = changed
    return text if data is before else data.decode()


def _in_json(data: bytes, patterns: Sequence[TextPattern], level: int) -> bytes | None:
    """JSON text with the matches changed; None if it is none.

    It is not parsed and written anew: whatever no pattern finds stays as it is written, such as
    long numbers and a key that is there twice, and no depth of brackets is too much.
    """
    if not _may_hold_match(data, patterns, level):
        return data
    if _JSON.fullmatch(data) is None:
        return None
    try:
        out = _LEAF.sub(lambda leaf: _in_leaf(leaf[0], patterns, level), data)
    except ValueError:  # a string with an escape that JSON does not know
        return None
    # Rules may also be written for JSON's own marks, such as `"password":"\w+"`.
    for pattern in patterns:
        out = pattern.applied_across(out)
    return data if out == data else out


def _may_hold_match(data: bytes, patterns: Sequence[TextPattern], level: int) -> bool:
    """Look through all strings of JSON text at once, which is a small part of reading each."""
    if any(each.asks_for_ends for each in patterns):
        return True
    before = None
    while level <= _MAX_INSIDE and data != before:
        if any(each.finds(data) for each in patterns):
            return True
        before, data, level = data, _unescaped(data), level + 1
    return False


def _unescaped(data: bytes) -> bytes:
    """JSON text in which all strings are as they read, those in strings one level less escaped."""
    if b"\\" not in data:
        return data
    data = data.replace(rb"\\", _NO_TEXT)
    for escape, sign in _ESCAPES:
        data = data.replace(escape, sign)
    return _CODES.sub(_of_codes, data).replace(_NO_TEXT, b"\\")


def _of_codes(codes: re.Match[bytes]) -> bytes:
    return plain_text(cast("str", _DECODE(f'"{codes[0].decode()}"'))).encode()


def _in_leaf(leaf: bytes, patterns: Sequence[TextPattern], level: int) -> bytes:
    """A string or number of JSON text; a number becomes a string if it holds a match."""
    if not _may_hold_match(leaf, patterns, level):
        return leaf
    written = leaf.decode()
    text = cast("str", _DECODE(written)) if leaf[:1] == b'"' else written
    changed = in_text(text, patterns, level + 1)
    return leaf if changed is text else json.dumps(changed, ensure_ascii=False).encode()


def free_key(key: object, taken: Mapping[Any, object]) -> Any:  # noqa: ANN401 - as the mapping's
    """The key, or where two became one a longer one, so that no value is lost."""
    while key in taken:
        key = f"{key}*"
    return key
