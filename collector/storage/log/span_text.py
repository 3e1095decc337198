"""Spans of the log that have a text."""

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from collector.storage.log.span_codec import READ_COLUMNS, decode_spans
from collector.storage.log.span_log import SpanLog
from collector.store import span_text
from collector.store.text_match import TextMatch

_GAP: Final = 4096
"""Bytes between two spans that are read together."""
_CHUNK_BYTES: Final = 2**20
_BLOCK: Final = 64
"""Spans that are decoded together."""
_FRAME, _AT, _SIZE = (READ_COLUMNS.index(name) for name in ("frame", "span_at", "span_size"))

Row = tuple[Any, ...]
"""Trace id, span id, and the values of `READ_COLUMNS`."""


class FoundSpan(NamedTuple):
    """A span with the text: its position among the rows, and where the text is."""

    at: int
    match: TextMatch


class SpanText:
    """Finds spans that have a text, in upper or lower case.

    Args:
        log: Has the bytes of the spans.
        text: Not empty.
    """

    def __init__(self, log: SpanLog, text: str) -> None:
        self._log = log
        self._text = span_text.SpanText(text)
        self.searched_bytes = 0
        """Bytes of spans that were searched so far."""

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
                (span.trace_id, span.span_id): self._text.match(span)
                for span in decode_spans((rows[at][2:] for at in block), self._log)
            }
            for at in block:
                match = matches.get(rows[at][:2])
                if match is not None:
                    found.setdefault(rows[at][0], FoundSpan(at, match))
            if len(found) >= most:
                break
        return found

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
            if not self._text.may_be_in(data):
                continue
            for at in chunk:
                place, size = _place(rows[at])
                if self._text.may_be_in(data[place - begin : place - begin + size]):
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
