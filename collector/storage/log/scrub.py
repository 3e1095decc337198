"""Takes spans out of the frames of the span log, while all others keep their places.

A span that goes becomes one of the same size without ids, whose name is nothing but zeros; so does
a resource or scope of which no other span is left. A frame stays an OTLP request that can be read.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

from opentelemetry.proto.trace.v1.trace_pb2 import Span as SpanMessage

from collector.storage.log.span_log import Frame
from collector.store.span_places import span_places

_NAME: Final = b"\x2a"
"""Tag of a span's name."""
_UNKNOWN: Final = b"\x7a"
"""Tag of a field that neither a resource nor a scope has."""

LostSpan = tuple[str, str, str]
"""Space, trace id and span id; without a span id the whole trace is meant."""


class LogScrub:
    """Knows which spans go, and what a frame is without them.

    Args:
        lost: The spans.
    """

    def __init__(self, lost: Iterable[LostSpan]) -> None:
        self._lost: defaultdict[tuple[str, bytes], set[bytes]] = defaultdict(set)
        for space, trace_id, span_id in lost:
            self._lost[space, bytes.fromhex(trace_id)].add(bytes.fromhex(span_id))
        self._trace_ids = {trace_id for _, trace_id in self._lost}

    def concerns(self, content: bytes) -> bool:
        """Say whether any bytes of the log may hold such a span; those that do not, do not."""
        return any(trace_id in content for trace_id in self._trace_ids)

    def clean(self, frame: Frame) -> bytes | None:
        """Say what a frame's body is to be, of the same length; None if it has no such span."""
        if not self.concerns(frame.body):
            return None
        body = bytearray(frame.body)
        kept: set[tuple[int, int]] = set()
        heads: set[tuple[int, int]] = set()
        changed = False
        for at, size, resource_at, resource_size, scope_at, scope_size in (
            span_places(frame.body) or ()
        ):
            both = {(resource_at, resource_size), (scope_at, scope_size)}
            span = SpanMessage.FromString(frame.body[at : at + size])
            if self._is_lost(frame.space, span):
                body[at : at + size] = filler(_NAME, size)
                changed = True
            if span.trace_id and not self._is_lost(frame.space, span):
                kept |= both
            else:
                heads |= both
        if not changed:
            return None
        for at, size in heads - kept:
            body[at : at + size] = filler(_UNKNOWN, size)
        return bytes(body)

    def _is_lost(self, space: str, span: SpanMessage) -> bool:
        lost = self._lost.get((space, span.trace_id))
        return lost is not None and (b"" in lost or span.span_id in lost)


def filler(tag: bytes, size: int) -> bytes:
    """A protobuf field of a size, filled with zeros.

    Its length may be written with a byte more than it needs, which every reader takes.
    """
    if size < 2:
        return bytes(size)
    width = 1
    while size - 1 - width >= 1 << (7 * width):
        width += 1
    length = size - 1 - width
    groups = [length >> (7 * place) & 127 for place in range(width)]
    head = tag + bytes([*(each | 128 for each in groups[:-1]), groups[-1]])
    return head + bytes(length)
