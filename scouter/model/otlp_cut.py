"""A span that is too large, made to fit: its largest values are cut, what is too many left out."""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from scouter.model.attributes import MOST_NAMED, PART_CHARS, TRUNCATED, truncated_mark
from scouter.model.span import CUT

if TYPE_CHECKING:
    from google.protobuf.internal.containers import RepeatedCompositeFieldContainer

_OWN: Final = "scouter."
"""Attributes that stay where others have to go."""
_TRIES: Final = 40
"""Each takes a fifth off what a value may have, where the frames around values do not fit."""
_FRAME: Final = 6
"""Bytes around a value, at most: its tag and its length."""
_SMALLEST: Final = 8
"""Bytes of a value, below which there is nothing to cut."""


def cut_span(span: ProtoSpan, max_bytes: int, max_items: int, already: Iterable[str] = ()) -> None:
    """Make a span fit, and have its attribute `scouter.truncated` tell what was cut.

    Args:
        span: It is changed.
        max_bytes: Of the whole span; what has more of them than the others is cut first.
        max_items: Attributes, events and links with theirs, the mark counted.
        already: Parts that were cut before.

    Cost: linear in the size of the span, some times.
    """
    cut = dict.fromkeys(already)
    _leave_out(span, max_items, cut)
    if span.ByteSize() > max_bytes:
        _shorten(span, max_bytes, cut)
    if cut:
        _mark(span, cut)


def cut_request(data: bytes, max_bytes: int) -> bytes:
    """Make a request with one span fit, as `cut_span` does.

    Args:
        data: An `ExportTraceServiceRequest`.
        max_bytes: Of the whole request. Resource and scope stay as they are.
    """
    request = ExportTraceServiceRequest.FromString(data)
    for group in request.resource_spans:
        for scope in group.scope_spans:
            for span in scope.spans:
                around = len(data) - span.ByteSize()
                cut_span(span, max_bytes - around, sys.maxsize)
    return request.SerializeToString()


def _mark(span: ProtoSpan, cut: Iterable[str]) -> None:
    earlier: list[str] = []
    for at, pair in enumerate(span.attributes):
        if pair.key == TRUNCATED:
            earlier = [item.string_value for item in pair.value.array_value.values]
            del span.attributes[at]
            break
    mark = span.attributes.add(key=TRUNCATED)
    shown = truncated_mark(earlier, cut)
    mark.value.array_value.values.extend(AnyValue(string_value=name) for name in shown)


def _leave_out(span: ProtoSpan, max_items: int, cut: dict[str, None]) -> None:
    below = [*span.events, *span.links]
    count = len(span.attributes) + len(below) + sum(len(each.attributes) for each in below)
    if count <= max_items:
        return
    room = max(0, max_items - 1)
    lost = _keep(span.attributes, room)
    span.dropped_attributes_count += lost
    room -= len(span.attributes)
    if lost:
        cut["attributes"] = None
    groups = (("events", span.events), ("links", span.links))
    for name, group in groups:
        fitting = 0
        for each in group:
            if room < 1:
                break
            fitting, room = fitting + 1, room - 1
            lost = _keep(each.attributes, room)
            each.dropped_attributes_count += lost
            room -= len(each.attributes)
            if lost:
                cut[name] = None
        if fitting < len(group):
            cut[name] = None
            if name == "events":
                span.dropped_events_count += len(group) - fitting
            else:
                span.dropped_links_count += len(group) - fitting
            del group[fitting:]


def _keep(pairs: "RepeatedCompositeFieldContainer[KeyValue]", most: int) -> int:
    """Leave out the last attributes, Scouter's own ones at the very last; returns how many."""
    lost = len(pairs) - most
    if lost <= 0:
        return 0
    own = [pair for pair in pairs if pair.key.startswith(_OWN)]
    others = [pair for pair in pairs if not pair.key.startswith(_OWN)]
    fitting = [KeyValue.FromString(p.SerializeToString()) for p in (own + others)[:most]]
    del pairs[:]
    pairs.extend(fitting)
    return lost


@dataclass(frozen=True, slots=True)
class _Part:
    """Something in a span that can be cut."""

    label: str
    size: int
    cut: Callable[[int], None]


def _shorten(span: ProtoSpan, max_bytes: int, cut: dict[str, None]) -> None:
    parts = list(_parts(span))
    fixed = span.ByteSize() - sum(part.size for part in parts)
    # The mark may take as much, but no more than a quarter of a small span.
    reserve = min(MOST_NAMED * (PART_CHARS + 8), max_bytes // 4)
    most = _level([part.size for part in parts], max_bytes - reserve - fixed)
    for _ in range(_TRIES):
        for part in _parts(span):
            if part.size > most:
                part.cut(most)
                cut[part.label] = None
        if span.ByteSize() <= max_bytes - reserve or most <= _SMALLEST:
            return
        most = max(_SMALLEST, most * 4 // 5)


def _level(sizes: list[int], room: int) -> int:
    """The size down to which all larger ones have to go for all to fit into a room."""
    rest = sorted(sizes)
    for at, size in enumerate(rest):
        share = room // (len(rest) - at)
        if size > share:
            return max(_SMALLEST, share)
        room -= size
    return max(_SMALLEST, rest[-1] if rest else 0)


def _parts(span: ProtoSpan) -> Iterator[_Part]:
    yield _text(span, "name", "name")
    yield _text(span.status, "message", "status")
    yield _text(span, "trace_state", "trace_state")
    yield from _pairs(span.attributes, "")
    for event in span.events:
        yield _text(event, "name", "events")
        yield from _pairs(event.attributes, f"events.{event.name[:PART_CHARS]}.")
    for link in span.links:
        yield _text(link, "trace_state", "links")
        yield from _pairs(link.attributes, "links.")


def _pairs(pairs: Iterable[KeyValue], before: str) -> Iterator[_Part]:
    for pair in pairs:
        if pair.key == TRUNCATED:
            continue
        label = before + pair.key[:PART_CHARS]
        yield _text(pair, "key", label)
        yield _Part(label, pair.value.ByteSize(), lambda most, pair=pair: _cut(pair.value, most))


def _text(message: object, field: str, label: str) -> _Part:
    text = cast(str, getattr(message, field))

    def cut(most: int) -> None:
        setattr(message, field, _shortened(text, most))

    return _Part(label, len(text.encode()), cut)


def _shortened(text: str, most: int) -> str:
    end = CUT.encode()
    return (text.encode()[: max(0, most - len(end))] + end).decode("utf-8", "ignore")


def _cut(value: AnyValue, most: int) -> None:
    """Make a value so small: a text's beginning, a list's first items."""
    match value.WhichOneof("value"):
        case "string_value":
            value.string_value = _shortened(value.string_value, most - _FRAME)
        case "bytes_value":
            value.bytes_value = value.bytes_value[: max(0, most - _FRAME)]
        case "array_value":
            items = value.array_value.values
            _cut_items(items, items, most)
        case "kvlist_value":
            pairs = value.kvlist_value.values
            _cut_items(pairs, [pair.value for pair in pairs], most)
        case _:
            pass


def _cut_items(
    items: "RepeatedCompositeFieldContainer[AnyValue] | RepeatedCompositeFieldContainer[KeyValue]",
    values: Iterable[AnyValue],
    most: int,
) -> None:
    """Keep the first items that fit; the first that does not is cut if enough of it is left."""
    left, fitting = most - _SMALLEST, 0
    for item, value in zip(items, values, strict=True):
        size = item.ByteSize() + 4
        if size > left:
            around = size - value.ByteSize()
            if left - around > 2 * _SMALLEST:
                _cut(value, left - around)
                fitting += 1
            break
        left, fitting = left - size, fitting + 1
    del items[fitting:]
