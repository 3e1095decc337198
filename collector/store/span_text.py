"""A text in what spans say: names, status, and the values of attributes and events.

The bytes of spans are searched first, as they came, for every way in which JSON may write the text:
that is 100 MB a second. Only what may have the text is read.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import Final, Protocol, cast

from pydantic import JsonValue

from collector.store.text_match import TextMatch, text_match
from scouter.model.span import AttributeValue, Span

_SHORT: Final = {"\b": "b", "\t": "t", "\n": "n", "\f": "f", "\r": "r"}


class _Pattern(Protocol):
    """The part of `re2` that is used here; it has no types of its own."""

    def search(self, text: bytes | memoryview) -> object: ...


class SpanText:
    """Finds spans that have a text, in upper or lower case.

    Args:
        text: Not empty.
    """

    def __init__(self, text: str) -> None:
        import re2  # slow to load, and few search

        self._text, self._lower = text, text.lower()
        self.searched_bytes = 0
        """Bytes that were searched so far."""
        compiled = re2.compile(f"(?i){''.join(map(_ways, text))}".encode())
        self._search: Callable[[bytes | memoryview], object] = cast(_Pattern, compiled).search

    def may_be_in(self, data: bytes | memoryview) -> bool:
        """Tell whether the bytes of some spans have something like the text."""
        self.searched_bytes += len(data)
        return self._search(data) is not None

    def match(self, span: Span) -> TextMatch | None:
        """The first place of a span that has the text."""
        for where, value in _values(span):
            text = self._in_value(value)
            if text is not None:
                return text_match(where, text, self._text)
        return None

    def _in_value(self, value: AttributeValue) -> str | None:
        """The text with the one that is looked for: a value, or a name or a value inside it."""
        if isinstance(value, str):
            read = _json_of(value)
            if read is not None:
                return self._in_json(read)
            return value if self._lower in value.lower() else None
        inner: Iterable[AttributeValue] = ()
        if isinstance(value, Mapping):
            inner = chain.from_iterable(value.items())
        elif isinstance(value, tuple):
            inner = value
        return next((each for each in map(self._in_value, inner) if each is not None), None)

    def _in_json(self, value: JsonValue) -> str | None:
        """Search names and values, each by itself: quotes and commas of JSON are no text."""
        left = [value]
        while left:
            each = left.pop()
            if isinstance(each, dict):
                left += reversed(list(chain.from_iterable(each.items())))
            elif isinstance(each, list):
                left += reversed(each)
            else:
                found = self._in_value(each if isinstance(each, str) else json.dumps(each))
                if found is not None:
                    return found
        return None


def _values(span: Span) -> Iterator[tuple[str, AttributeValue]]:
    """Everything in a span that is searched, by its name."""
    yield "name", span.name
    yield "status", span.status_message
    yield from span.attributes.items()
    for event in span.events:
        yield "event", event.name
        yield from event.attributes.items()


def _json_of(text: str) -> JsonValue:
    """An object or a list that is written as JSON; None for any other text."""
    if text.lstrip()[:1] not in ("{", "["):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):  # cut, or no JSON after all
        return None


def _ways(letter: str) -> str:
    """A pattern for a character as it is, or as JSON may write it, inside other JSON or not."""
    plain = letter if letter.isalnum() else f"\\x{{{ord(letter):x}}}"
    if letter.isascii() and (letter.isalnum() or letter == " "):
        return plain
    units = letter.encode("utf-16-be").hex()
    escaped = "".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))
    ways = [rf"\\*{plain}", escaped]
    if letter in _SHORT:
        ways.append(rf"\\+{_SHORT[letter]}")
    for other in {letter.lower(), letter.upper()} - {letter}:  # an escape tells them apart
        if len(other) == 1:
            units = other.encode("utf-16-be").hex()
            ways += ["".join(rf"\\+u{units[at : at + 4]}" for at in range(0, len(units), 4))]
    return f"(?:{'|'.join(ways)})"
