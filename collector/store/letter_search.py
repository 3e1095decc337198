"""Finds the dead letters that speak of what is erased: payloads of any form, whole or cut off."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

_JSON_STARTS: Final = ("{", "[")
_DEPTH: Final = 64


class LetterSearch:
    """Looks for texts as whole values: `7` is not found in `17`.

    Args:
        texts: Uids and session ids.
        trace_ids: Lower-case hex.
        tag: Key and text.
    """

    def __init__(
        self, texts: Iterable[str], trace_ids: Iterable[str], tag: tuple[str, str] | None = None
    ) -> None:
        self.texts, self._tag = frozenset(texts), tag
        self._trace_ids = frozenset(trace_ids)
        wanted = self.texts | self._trace_ids
        self._needles = [needle for text in wanted for needle in _forms(text)]
        for trace_id in self._trace_ids:
            self._needles += [*_forms(trace_id.upper()), bytes.fromhex(trace_id)]
        self._tag_needles = [_forms(text) for text in tag or ()]

    def finds(self, payload: bytes) -> bool:
        """Say whether a payload speaks of any of it."""
        try:
            value = json.loads(payload)
        except (ValueError, RecursionError):  # protobuf, or cut off
            return self._finds_bytes(payload)
        return self._finds_value(value, 0)

    def is_id(self, text: str) -> bool:
        """Say whether a text is one of the ids."""
        return text in self.texts or text.lower() in self._trace_ids

    def _finds_bytes(self, payload: bytes) -> bool:
        if any(needle in payload for needle in self._needles):
            return True
        return bool(self._tag_needles) and all(
            any(needle in payload for needle in forms) for forms in self._tag_needles
        )

    def _finds_value(self, value: object, depth: int) -> bool:
        if depth > _DEPTH:
            return self._finds_bytes(json.dumps(value).encode())
        if isinstance(value, str):
            return self._finds_text(value, depth)
        if isinstance(value, dict):
            items = cast(Mapping[str, Any], value)
            return self.has_tag(items) or any(
                self._finds_value(each, depth + 1) for pair in items.items() for each in pair
            )
        if isinstance(value, list):
            return any(self._finds_value(each, depth + 1) for each in cast(list[object], value))
        return False

    def _finds_text(self, text: str, depth: int) -> bool:
        if self.is_id(text):
            return True
        if not text.startswith(_JSON_STARTS):
            return False
        try:  # a log record's body may be the JSON text of a record
            return self._finds_value(json.loads(text), depth + 1)
        except (ValueError, RecursionError):
            return False

    def has_tag(self, items: Mapping[str, Any]) -> bool:
        """Say whether an object bears the tag, as a field of its own or as an attribute."""
        if self._tag is None:
            return False
        key, text = self._tag
        if items.get(key) == text:
            return True
        value = items.get("value")  # an attribute of OTLP JSON
        return (
            items.get("key") == key
            and isinstance(value, dict)
            and text in cast(Mapping[str, Any], value).values()
        )


def _forms(text: str) -> tuple[bytes, ...]:
    """A text as a protobuf field and as JSON strings are written; not as a part of a longer one."""
    plain = text.encode("utf-8", "surrogatepass")
    quoted = [json.dumps(text, ensure_ascii=is_ascii) for is_ascii in (True, False)]
    return (
        _length(len(plain)) + plain,
        *(each.encode("utf-8", "surrogatepass") for each in quoted),
        *(json.dumps(each).encode()[1:-1] for each in quoted),
    )


def _length(size: int) -> bytes:
    """A protobuf varint."""
    found = bytearray()
    while size > 127:
        found.append(size & 127 | 128)
        size >>= 7
    return bytes((*found, size))
