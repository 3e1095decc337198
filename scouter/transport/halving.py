"""Halving of batches that are too large for the far side, down to single items.

A single span that is too large is cut, until it is taken.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from scouter.errors import DataError
from scouter.model.otlp_cut import cut_request
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.guard import GUARD
from scouter.transport.item import RecordItem
from scouter.transport.otlp.spans import OtlpSpans
from scouter.transport.otlp.split import halves
from scouter.transport.port import RemoteTransport, TooLargeError

BatchT = TypeVar("BatchT")

_NOTICEABLE: Final = 0.9
"""Share of a span's size below which a cut has to bring it.

A span that stays larger holds nothing that could be cut.
"""

_Parts = Iterator[tuple[BatchT, int]]


class HalvingTransport(OtlpSpans):
    """A transport whose batches are cut where the far side says that they are too large.

    The bound of the far side is not known before, as a proxy between may refuse. The size of a
    batch on the wire is known only roughly.

    Args:
        inner: The way to the far side.
    """

    def __init__(self, inner: RemoteTransport) -> None:
        self._inner: Final = inner

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records; see `Transport`."""
        return _send(self._send_items, _halves_of_items, lambda _: None, items, len(items), dropped)

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans that are written already; see `Transport`."""
        return _send(self._inner.send_otlp, _halves_of_request, _smaller, data, count, dropped)

    def close(self) -> None:
        """Close the inner transport."""
        self._inner.close()

    def _send_items(self, items: Sequence[RecordItem], _: int, dropped: Dropped) -> int:
        return self._inner.send_records(items, dropped)


def _send(
    send: Callable[[BatchT, int, Dropped], int],
    cut: Callable[[BatchT, int], _Parts[BatchT]],
    shrink: Callable[[BatchT], BatchT | None],
    batch: BatchT,
    count: int,
    dropped: Dropped,
) -> int:
    """Send a batch, in halves if it is too large; returns how many items were refused.

    A half that must be tried again later has the whole batch sent again, which is harmless.
    """
    try:
        return send(batch, count, dropped)
    except TooLargeError:
        if count == 1:
            smaller = shrink(batch)
            if smaller is None:
                raise
            return _send(send, cut, shrink, smaller, 1, dropped)
    refused = 0
    fault: DataError | None = None
    is_told = False
    for part, number in cut(batch, count):
        try:
            refused += _send(send, cut, shrink, part, number, NONE_DROPPED if is_told else dropped)
            is_told = True
        except DataError as error:  # the other half may be better
            refused, fault = refused + number, error
    if fault is not None:
        if not is_told:  # nothing was taken, and nobody has heard of the drops
            raise fault
        GUARD.refuse("transport", "rejected", fault)
    return refused


def _halves_of_items(items: Sequence[RecordItem], count: int) -> _Parts[Sequence[RecordItem]]:
    middle = count // 2
    yield items[:middle], middle
    yield items[middle:], count - middle


def _smaller(data: bytes) -> bytes | None:
    """A request with one span, cut to half its size; None if there is nothing to cut."""
    found = cut_request(data, len(data) // 2)
    return found if len(found) < len(data) * _NOTICEABLE else None


def _halves_of_request(data: bytes, count: int) -> _Parts[bytes]:
    for half, number in halves(ExportTraceServiceRequest.FromString(data), count):
        yield half.SerializeToString(), number
