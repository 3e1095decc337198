"""One OTLP request as several smaller ones."""

from collections.abc import Callable, Iterator

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span


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
