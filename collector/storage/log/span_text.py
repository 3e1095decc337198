"""A text in what spans say: names, status, and the values of attributes and events.

The bytes of spans are searched first, as they are in the log, for every way in which JSON may write
the text: that is 100 MB a second. Only what may have the text is read.
"""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Protocol, cast

from pydantic import JsonValue

from collector.storage.log.span_codec import READ_COLUMNS, decode_spans
from collector.storage.log.span_log import SpanLog
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
        self._lower = text.lower()
        compiled = re2.compile(f"(?i){''.join(map(_ways, text))}".encode())
        self._search: Callable[[bytes | memoryview], object] = cast(_Pattern, compiled).search

    def traces(self, rows: Sequence[Row], most: int) -> dict[str, int]:
        """Find the traces that have a span with the text.

        Args:
            rows: The spans; those of one frame are read together.
            most: Traces after which the rest of the spans is not looked at.

        Returns:
            For each trace the position of its first such span among the rows, in this order.

        Cost: linear in the bytes of the spans.
        """
        found: dict[str, int] = {}
        maybe = sorted(self._maybe(rows))
        for begin in range(0, len(maybe), _BLOCK):
            block = [at for at in maybe[begin : begin + _BLOCK] if rows[at][0] not in found]
            has_text = {
                (span.trace_id, span.span_id)
                for span in decode_spans((rows[at][2:] for at in block), self._log)
                if self.is_in(span)
            }
            for at in block:
                if rows[at][:2] in has_text:
                    found.setdefault(rows[at][0], at)
            if len(found) >= most:
                break
        return found

    def is_in(self, span: Span) -> bool:
        """Say whether a span has the text."""
        return (
            self._lower in span.name.lower()
            or self._lower in span.status_message.lower()
            or any(map(self._in_value, span.attributes.values()))
            or any(
                self._lower in event.name.lower()
                or any(map(self._in_value, event.attributes.values()))
                for event in span.events
            )
        )

    def _in_value(self, value: AttributeValue) -> bool:
        if isinstance(value, str):
            read = _json_of(value)
            return self._lower in value.lower() if read is None else self._in_json(read)
        if isinstance(value, Mapping):
            return any(self._lower in key.lower() for key in value) or any(
                map(self._in_value, value.values())
            )
        return isinstance(value, tuple) and any(map(self._in_value, value))

    def _in_json(self, value: JsonValue) -> bool:
        """Search names and values, each by itself: quotes and commas of JSON are no text."""
        left = [value]
        while left:
            each = left.pop()
            if isinstance(each, dict):
                left += [*each, *each.values()]
            elif isinstance(each, list):
                left += each
            elif isinstance(each, str):
                if self._in_value(each):
                    return True
            elif self._lower in json.dumps(each):
                return True
        return False

    def _maybe(self, rows: Sequence[Row]) -> Iterator[int]:
        """The positions of the spans whose bytes have something like the text."""
        for chunk in _chunks(rows):
            begin, _ = _place(rows[chunk[0]])
            end = sum(_place(rows[chunk[-1]]))
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
