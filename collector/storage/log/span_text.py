"""A text in what spans say: names, status, and the values of attributes and events.

The bytes of spans are searched first, as they are in the log, for every way in which JSON may write
the text: that is 100 MB a second. Only what may have the text is read.
"""

import json
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol, cast

from pydantic import JsonValue

from collector.storage.log.span_codec import READ_COLUMNS, decode_spans
from collector.storage.log.span_log import SpanLog
from collector.store.text_match import TextMatch, text_match
from scouter.model.span import AttributeValue, Span

_log: Final = logging.getLogger(__name__)
_GAP: Final = 4096
"""Bytes between two spans that are read together."""
_CHUNK_BYTES: Final = 2**20
_BLOCK: Final = 64
"""Spans that are decoded together."""
_SHORT: Final = {"\b": "b", "\t": "t", "\n": "n", "\f": "f", "\r": "r"}
_FRAME, _AT, _SIZE = (READ_COLUMNS.index(name) for name in ("frame", "span_at", "span_size"))

Row = tuple[Any, ...]
"""Trace id, span id, and the values of `READ_COLUMNS`."""


class FoundSpan(NamedTuple):
    """A span with the text: its position among the rows, and where the text is."""

    at: int
    match: TextMatch


class _Pattern(Protocol):
    """The part of `re2` that is used here; it has no types of its own."""

    def search(self, text: bytes | memoryview) -> object: ...


class SpanText:
    """Finds spans that have a text, in upper or lower case.

    Args:
        log: Has the bytes of the spans.
        text: Not empty.
    """

    def __init__(self, log: SpanLog, text: str) -> None:
        import re2  # slow to load, and few search

        self._log = log
        self._text, self._lower = text, text.lower()
        self.searched_bytes = 0
        """Bytes of spans that were searched so far."""
        compiled = re2.compile(f"(?i){''.join(map(_ways, text))}".encode())
        self._search: Callable[[bytes | memoryview], object] = cast(_Pattern, compiled).search

    def traces(self, rows: Sequence[Row], most: int) -> dict[str, FoundSpan]:
        """Find the traces that have a span with the text.

        Args:
            rows: The spans; those of one frame are read together.
            most: Traces after which the rest of the spans is not looked at.

        Returns:
            For each trace its first such span among the rows, in this order.

        Cost: linear in the bytes of the spans.
        """
        found: dict[str, FoundSpan] = {}
        maybe = sorted(self._maybe(rows))
        for begin in range(0, len(maybe), _BLOCK):
            block = [at for at in maybe[begin : begin + _BLOCK] if rows[at][0] not in found]
            matches = {
                (span.trace_id, span.span_id): self._match(span)
                for span in decode_spans((rows[at][2:] for at in block), self._log)
            }
            for at in block:
                match = matches.get(rows[at][:2])
                if match is not None:
                    found.setdefault(rows[at][0], FoundSpan(at, match))
            if len(found) >= most:
                break
        return found

    def _match(self, span: Span) -> TextMatch | None:
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

    def _maybe(self, rows: Sequence[Row]) -> Iterator[int]:
        """The positions of the spans whose bytes have something like the text."""
        for chunk in _chunks(rows):
            begin, _ = _place(rows[chunk[0]])
            end = sum(_place(rows[chunk[-1]]))
            self.searched_bytes += end - begin
            try:
                data = memoryview(self._log.read(begin, end - begin))
            except (OSError, EOFError):
                yield from chunk  # to read them tells which are lost
                continue
            if self._search(data) is None:
                continue
            for at in chunk:
                place, size = _place(rows[at])
                if self._search(data[place - begin : place - begin + size]) is not None:
                    yield at


def _values(span: Span) -> Iterator[tuple[str, AttributeValue]]:
    """Everything in a span that is searched, by its name."""
    yield "name", span.name
    yield "status", span.status_message
    yield from span.attributes.items()
    for event in span.events:
        yield "event", event.name
        yield from event.attributes.items()


def _chunks(rows: Sequence[Row]) -> Iterator[list[int]]:
    """Positions of spans that lie close together in one frame, by their places."""
    chunk: list[int] = []
    begin = end = 0
    for at in sorted(range(len(rows)), key=lambda each: _place(rows[each])):
        place, size = _place(rows[at])
        is_near = chunk and place <= end + _GAP and place + size - begin <= _CHUNK_BYTES
        if not is_near or rows[chunk[-1]][2 + _FRAME] != rows[at][2 + _FRAME]:
            if chunk:
                yield chunk
            chunk, begin = [], place
        chunk.append(at)
        end = max(end, place + size)
    if chunk:
        yield chunk


def _place(row: Row) -> tuple[int, int]:
    """Where a span begins in the log, and its bytes."""
    return row[2 + _FRAME] + row[2 + _AT], row[2 + _SIZE]


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
