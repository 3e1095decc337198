"""Redaction: rules of a user for data that must not leave the process, and their application."""

import hashlib
import hmac
import json
import os
import re
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal, TypeAlias, cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr

from scouter.errors import ConfigError
from scouter.evaluate.paths.syntax import Segment, is_digits, parse_path
from scouter.model.json_value import plain_text, to_json_value, tree_bytes
from scouter.model.record import RecordSnapshot

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


class RedactionRule(BaseModel):
    r"""One thing to drop, hash or mask.

    Give a place, a pattern, or both: a place alone means the whole value there; a pattern alone
    means each match in every text of spans and records; both mean the matches in that place.

    Examples:
        `RedactionRule(action="drop", context="customer.email")`,
        `RedactionRule(action="mask", attribute="gen_ai.input.*")`,
        `RedactionRule(action="hash", pattern=r"[\w.]+@[\w.]+")`

    Args:
        action: `drop` takes it away (in a list `null` stays, so that the others keep their
            places); `hash` writes its HMAC-SHA256, so that equal values stay equal; `mask` writes
            `Redaction.mask`.
        attribute: Name of attributes of spans, their events, links and resources; `*` stands for
            any characters.
        context: Path into the contexts of records, written as in tasks (`items[*].email`).
        pattern: A regular expression of RE2's syntax, as in tasks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    action: Literal["drop", "hash", "mask"]
    attribute: str | None = Field(default=None, min_length=1)
    context: str | None = Field(default=None, min_length=1)
    pattern: str | None = Field(default=None, min_length=1)


class Redaction(BaseModel):
    """Rules for everything that Scouter sends: applied to its copy, before anything waits.

    The application's own exporters see their spans as they are. Patterns are looked for in
    span names, attributes, events, links, status texts, resources; in contexts, ids of records
    and sessions, and tags; names of attributes and keys included. Rules are applied in order,
    those with a place before those without.

    Args:
        rules: The rules.
        hash_key: Key of the hashes. Environment: SCOUTER_REDACTION_KEY.
        mask: Text in place of a masked value.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    rules: tuple[RedactionRule, ...]
    hash_key: SecretStr | None = Field(
        default_factory=lambda: (
            SecretStr(text) if (text := os.environ.get("SCOUTER_REDACTION_KEY")) else None
        ),
        repr=False,
    )
    mask: str = "[redacted]"


GONE: Final = object()
"""Stands for a value that was dropped."""
_MAX_NAMES: Final = 10_000

Change: TypeAlias = Callable[[object], object]
"""A value in its redacted form, or `GONE`."""


class Redactor:
    """Applies a `Redaction`; safe to use from several threads.

    Args:
        redaction: The rules.

    Raises:
        ConfigError: A rule has neither place nor pattern or both places, a path or a pattern is
            none, a pattern finds the empty text, or a hash has no key.
    """

    def __init__(self, redaction: Redaction) -> None:
        self.redaction: Final = redaction
        self._key = _key_of(redaction)
        self._everywhere: list[TextPattern] = []
        self._paths: list[tuple[tuple[Segment, ...], Change]] = []
        self._attributes: list[tuple[re.Pattern[str], Change]] = []
        self._by_name: dict[str, tuple[str, tuple[Change, ...]]] = {}
        for rule in redaction.rules:
            self._add(rule)

    def _add(self, rule: RedactionRule) -> None:
        pattern = None
        if rule.pattern is not None:
            pattern = TextPattern(rule.pattern, self._text_change(rule.action))
        if rule.attribute is not None and rule.context is not None:
            raise ConfigError(f"redaction rule {_said(rule)}: write one rule for each place")
        if rule.attribute is None and rule.context is None:
            if pattern is None:
                raise ConfigError(
                    f"redaction rule {_said(rule)}: expected attribute=, context= or pattern="
                )
            self._everywhere.append(pattern)
            return
        change = (
            self._whole(rule.action) if pattern is None else partial(in_texts, patterns=[pattern])
        )
        if rule.context is not None:
            self._paths.append((parse_path(rule.context), change))
        else:
            parts = (re.escape(part) for part in (rule.attribute or "").split("*"))
            self._attributes.append((re.compile(".*".join(parts), re.DOTALL), change))

    def _text_change(self, action: str) -> Callable[[str], str]:
        if action == "drop":
            return lambda _: ""
        if action == "hash":
            return self._digest
        return lambda _: self.redaction.mask

    def _whole(self, action: str) -> Change:
        if action == "drop":
            return lambda _: GONE
        change = self._text_change(action)
        return lambda value: change(
            plain_text(value) if isinstance(value, str) else _canonical(value)
        )

    def _digest(self, text: str) -> str:
        return "hmac:" + hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    # --- what is redacted ---

    def text(self, text: str) -> str:
        """A text by the patterns without a place."""
        return in_text(text, self._everywhere) if self._everywhere else text

    def record(self, snapshot: RecordSnapshot) -> RecordSnapshot:
        """A record's snapshot: context by paths and patterns, ids and tags by patterns."""
        uid, record_id, session_id, trace_id, created_ns, context_json, tags = snapshot
        tree = self.context(json.loads(context_json))
        return (
            uid,
            self.text(record_id),
            self.text(session_id),
            trace_id,
            created_ns,
            tree_bytes(tree),
            {self.text(key): self.text(value) for key, value in tags.items()},
        )

    def context(self, tree: JsonValue) -> JsonValue:
        """A context; the tree may be changed on the way.

        Returns:
            None where a rule drops the whole.
        """
        value: object = tree
        for segments, change in self._paths:
            value = _at(value, segments, 0, change)
        return None if value is GONE else cast("JsonValue", in_texts(value, self._everywhere))

    def attributes(self, attributes: Mapping[str, Any]) -> dict[str, Any]:
        """Attributes of a span, event, link or resource, as a new dict."""
        out: dict[str, Any] = {}
        for key, value in dict(attributes).items():
            name, changes = self._by_name.get(key) or self._rules_for(key)
            for change in changes:
                value = change(value)
                if value is GONE:
                    break
            else:
                out[free_key(name, out)] = in_texts(value, self._everywhere)
        return out

    def _rules_for(self, key: str) -> tuple[str, tuple[Change, ...]]:
        changes = tuple(change for name, change in self._attributes if name.fullmatch(key))
        if len(self._by_name) >= _MAX_NAMES:
            self._by_name.clear()
        found = self._by_name[key] = self.text(key), changes
        return found


def _at(value: Any, segments: tuple[Segment, ...], depth: int, change: Change) -> object:  # noqa: ANN401 - a JSON tree
    """Change what a path leads to, in place; places that are not there are passed by."""
    if depth == len(segments):
        return change(value)
    for key in _keys(value, segments[depth]):
        item = _at(value[key], segments, depth + 1, change)
        if item is not GONE:
            value[key] = item
        elif isinstance(value, dict):
            del value[key]
        else:
            value[key] = None
    return cast("object", value)


def _keys(value: Any, segment: Segment) -> list[Any]:  # noqa: ANN401 - a JSON tree
    if isinstance(value, dict):
        names = list(cast("dict[str, object]", value))
        if segment is None:
            return names
        return [segment] if isinstance(segment, str) and segment in names else []
    if not isinstance(value, list):
        return []
    count = len(cast("list[object]", value))
    if segment is None:
        return list(range(count))
    if isinstance(segment, slice):
        return list(range(*segment.indices(count)))
    if isinstance(segment, str) and not is_digits(segment):
        return []
    index = int(segment)
    return [index] if -count <= index < count else []


def _canonical(value: object) -> str:
    return json.dumps(to_json_value(value), ensure_ascii=False, sort_keys=True)


def _key_of(redaction: Redaction) -> bytes:
    key = redaction.hash_key.get_secret_value() if redaction.hash_key is not None else ""
    if not key and any(rule.action == "hash" for rule in redaction.rules):
        raise ConfigError(
            "redaction: a rule hashes, but there is no key; pass hash_key= or set "
            "SCOUTER_REDACTION_KEY (a plain hash of an e-mail address can be guessed)"
        )
    return key.encode()


def _said(rule: RedactionRule) -> str:
    return rule.model_dump_json(exclude_none=True)
