"""Positions of the spans in the bytes of an OTLP request, so that each can be read alone.

Source: Protocol Buffers encoding; opentelemetry-proto `trace.proto`.
"""

from typing import Final

from scouter.errors import DataError
from scouter.model.protobuf_fields import fields, tag_of

_FIRST: Final = tag_of(1)
"""Tag of resource groups, of a resource and of a scope."""
_SECOND: Final = tag_of(2)
"""Tag of scope groups and of spans."""
_SCHEMA_URL: Final = tag_of(3)

SpanPlace = tuple[int, int, int, int, int, int]
"""Positions and sizes of the parts of one span, in bytes; an absent part has the size 0."""
PLACE_COLUMNS: Final = (
    "span_at", "span_size", "resource_at", "resource_size", "scope_at", "scope_size",
)  # fmt: skip
"""Names of the numbers of a `SpanPlace`."""


class _UnusualError(Exception):
    """The request is written in a way that no usual sender uses."""


def span_places(data: bytes) -> list[SpanPlace] | None:
    """Find every span of a request that protobuf could parse.

    Args:
        data: An `ExportTraceServiceRequest`.

    Returns:
        A place for each span, in the order in which protobuf gives them; None if a resource or
        scope is in several pieces, or a field is there that this version does not know.

    Cost: about 0.4 µs for each span.
    """
    places: list[SpanPlace] = []
    try:
        for start, end in _parts(data, 0, len(data))[1]:
            resources, scope_groups = _parts(data, start, end, _FIRST, _SECOND)
            resource = _only(resources)
            for scope_start, scope_end in scope_groups:
                scopes, spans = _parts(data, scope_start, scope_end, _FIRST, _SECOND)
                head = (*resource, *_only(scopes))
                places += [(at, stop - at, *head) for at, stop in spans]
    except (_UnusualError, DataError):
        return None
    return places


def _only(parts: list[tuple[int, int]]) -> tuple[int, int]:
    """Offset and size of the one part there may be."""
    if len(parts) > 1:
        raise _UnusualError
    return (parts[0][0], parts[0][1] - parts[0][0]) if parts else (0, 0)


def _parts(
    data: bytes, at: int, end: int, single: int = 0, many: int = _FIRST
) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Start and end of each field with one of two tags."""
    singles: list[tuple[int, int]] = []
    found: list[tuple[int, int]] = []
    for tag, _, content, stop in fields(data, at, end):
        if tag == many:
            found.append((content, stop))
        elif tag == single:
            singles.append((content, stop))
        elif tag != _SCHEMA_URL:
            raise _UnusualError
    return singles, found
