"""Batches cut into parts: those that are too large for the far side, and spans by trace.

A single span that is too large is cut, until it is taken.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from scouter.errors import DataError
from scouter.model.otlp_cut import cut_request
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.guard import GUARD
from scouter.transport.otlp import OtlpSpans
from scouter.transport.port import RecordItem, RemoteTransport, TooLargeError

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
    is_reported = False
    for part, number in cut(batch, count):
        try:
            refused += _send(
                send, cut, shrink, part, number, NONE_DROPPED if is_reported else dropped
            )
            is_reported = True
        except DataError as error:  # the other half may be better
            refused, fault = refused + number, error
    if fault is not None:
        if not is_reported:  # nothing was taken, and nobody has heard of the drops
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


def requests_by_trace(data: bytes) -> Iterator[tuple[bytes, ExportTraceServiceRequest, int]]:
    """Sort the spans of a request by trace.

    Args:
        data: An `ExportTraceServiceRequest`.

    Yields:
        Trace id, the request with its spans, and how many there are.
    """
    groups: dict[bytes, _Group] = {}
    for resource, scope, span in _spans(ExportTraceServiceRequest.FromString(data)):
        group = groups.get(span.trace_id)
        if group is None:
            group = groups[span.trace_id] = _Group()
        group.add(resource, scope, span)
    for trace_id, group in groups.items():
        yield trace_id, group.request, group.count


def halves(
    request: ExportTraceServiceRequest, count: int
) -> Iterator[tuple[ExportTraceServiceRequest, int]]:
    """Cut a request in two.

    Args:
        request: It stays as it is.
        count: Number of its spans, at least 2.
    """
    groups = _Group(), _Group()
    for index, each in enumerate(_spans(request)):
        groups[index >= count // 2].add(*each)
    for group in groups:
        yield group.request, group.count


def _spans(
    request: ExportTraceServiceRequest,
) -> Iterator[tuple[ResourceSpans, ScopeSpans, Span]]:
    for resource in request.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield resource, scope, span


class _Group:
    """A request under construction; spans of one scope come one after the other."""

    def __init__(self) -> None:
        self.request = ExportTraceServiceRequest()
        self.count = 0
        self._from: tuple[ResourceSpans, ScopeSpans] | None = None
        self._append: Callable[[Span], None] | None = None

    def add(self, resource: ResourceSpans, scope: ScopeSpans, span: Span) -> None:
        if self._append is None or self._from is None or self._from[1] is not scope:
            if self._from is None or self._from[0] is not resource:
                new = self.request.resource_spans.add(schema_url=resource.schema_url)
                new.resource.CopyFrom(resource.resource)
            into = self.request.resource_spans[-1].scope_spans.add(schema_url=scope.schema_url)
            into.scope.CopyFrom(scope.scope)
            self._from, self._append = (resource, scope), into.spans.append
        self._append(span)
        self.count += 1
