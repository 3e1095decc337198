"""Spans as OTLP-JSON and back.

Source: OTLP specification 1.x, "JSON Protobuf Encoding": ids in hex (not base64), 64-bit integers
as decimal text, enums as integers, unknown fields ignored; protobuf's JSON mapping for the rest
(bytes in base64, `NaN` and infinities as text).
"""

import base64
import binascii
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, NoReturn, TypeAlias, TypeVar, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.model.attributes import TRUNCATED, truncated_mark
from scouter.model.ids import is_span_id, is_trace_id
from scouter.model.json_value import plain_text
from scouter.model.span import (
    ARRAY_LEVELS,
    CUT,
    LIST_LEVELS,
    MAX_DEPTH,
    NO_RESOURCE,
    NO_SCOPE,
    Attributes,
    AttributeValue,
    Resource,
    Scope,
    Span,
    SpanEvent,
    SpanKind,
    SpanLink,
    StatusCode,
)

Rejected: TypeAlias = tuple[int, str]
"""Index of a span inside its request (counted over all resources), and why it was refused."""

MAX_TIME_NS: Final = 2**63 - 1
"""Times are signed 64-bit nanoseconds everywhere behind the rim (year 2262)."""

REMOTE_KNOWN: Final = 0x100
"""Span flag: the sender says whether the parent is remote."""
REMOTE: Final = 0x200
"""Span flag: the parent is remote."""

MAX_DROPPED: Final = 2**32 - 1
"""Attributes and events that a sender dropped; OTLP has no number for more."""

_VALUE_DEPTH: Final = 300
"""Most levels of a value that is no attribute of a span; see `MAX_DEPTH`."""

_UNREAD_CHARS: Final = 1_000
"""Most characters of a value that cannot be read."""

_KINDS: Final = {f"SPAN_KIND_{kind.name}": kind for kind in SpanKind}
_CODES: Final = {f"STATUS_CODE_{code.name}": code for code in StatusCode}

Object: TypeAlias = Mapping[str, object]
M = TypeVar("M", bound=IntEnum)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodedSpans:
    """Spans of one request: usable ones in order, and the refused ones by index."""

    spans: list[Span]
    rejected: list[Rejected]


# --- writing ------------------------------------------------------------------------------------


def spans_to_flat_json(spans: Iterable[Span]) -> list[JsonValue]:
    """Write spans one by one, with OTLP-JSON's field names.

    Args:
        spans: Any spans.

    Returns:
        Of each the fields of OTLP's `Span`, plus `resource` and `scope`, which OTLP keeps one level
        up; fields with nothing to say are left out, as OTLP allows. A resource that spans share is
        one object.
    """
    resources: dict[int, JsonValue] = {}
    written: list[JsonValue] = []
    listed = list(spans)  # so that no two resources have one id
    for span in listed:
        out = _fields(span)
        key = id(span.resource)
        if key not in resources:
            resources[key] = _written_resource(span.resource)
        out["resource"] = resources[key]
        out["scope"] = _written_scope(span.scope)
        written.append(out)
    return written


def _fields(span: Span) -> dict[str, JsonValue]:
    """Write the fields of OTLP's `Span`."""
    out: dict[str, JsonValue] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": int(span.kind),
        "startTimeUnixNano": str(span.start_ns),
        "endTimeUnixNano": str(span.end_ns),
        "attributes": _pairs(span.attributes),
        "status": _status(span),
    }
    if span.parent_span_id is not None:
        out["parentSpanId"] = span.parent_span_id
    if span.trace_state:
        out["traceState"] = span.trace_state
    if span.parent_is_remote is not None:
        out["flags"] = REMOTE_KNOWN | (REMOTE if span.parent_is_remote else 0)
    if span.dropped_count:
        out["droppedAttributesCount"] = span.dropped_count
    if span.events:
        out["events"] = [
            {
                "timeUnixNano": str(event.time_ns),
                "name": event.name,
                "attributes": _pairs(event.attributes),
            }
            for event in span.events
        ]
    if span.links:
        out["links"] = [
            {
                "traceId": link.trace_id,
                "spanId": link.span_id,
                "attributes": _pairs(link.attributes),
            }
            for link in span.links
        ]
    return out


def spans_to_otlp_json(spans: Iterable[Span]) -> dict[str, JsonValue]:
    """Write spans as one OTLP-JSON export request, grouped by resource and scope."""
    groups: dict[int, tuple[Resource, dict[Scope, list[JsonValue]]]] = {}
    for span in spans:
        _, scopes = groups.setdefault(id(span.resource), (span.resource, {}))
        scopes.setdefault(span.scope, []).append(_fields(span))
    written: list[JsonValue] = [
        {
            "resource": _written_resource(resource),
            "scopeSpans": [
                {"scope": _written_scope(scope), "spans": members}
                for scope, members in scopes.items()
            ],
        }
        for resource, scopes in groups.values()
    ]
    return {"resourceSpans": written}


def _written_resource(resource: Resource) -> dict[str, JsonValue]:
    return {"attributes": _pairs(resource.attributes)}


def _written_scope(scope: Scope) -> dict[str, JsonValue]:
    return {"name": scope.name, "version": scope.version}


def _status(span: Span) -> dict[str, JsonValue]:
    status: dict[str, JsonValue] = {"code": int(span.status)}
    if span.status_message:
        status["message"] = span.status_message
    return status


def _pairs(attributes: Attributes) -> list[JsonValue]:
    return [{"key": key, "value": _any(value)} for key, value in attributes.items()]


def _any(value: AttributeValue) -> JsonValue:
    if value is None:
        return {}
    if isinstance(value, str):
        return {"stringValue": value}
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value if math.isfinite(value) else _special(value)}
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode("ascii")}
    if isinstance(value, tuple):
        return {"arrayValue": {"values": [_any(item) for item in value]}}
    return {"kvlistValue": {"values": _pairs(value)}}


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


# --- reading ------------------------------------------------------------------------------------


def spans_from_otlp_json(obj: object) -> DecodedSpans:
    """Read an OTLP-JSON export request, or spans as `spans_to_flat_json` writes them.

    Args:
        obj: Parsed JSON: `{"resourceSpans": […]}`, `{"spans": […]}` or a list of spans.

    Returns:
        Usable spans in order; index and reason of each span that is refused.

    Raises:
        DataError: The whole has another shape; names the place.
    """
    if isinstance(obj, Mapping) and "resourceSpans" in obj:
        found = _of_request(cast(Object, obj))
    elif isinstance(obj, Mapping) and "spans" in obj:
        found = _flat(_list(cast(Object, obj), "spans", ""))
    elif isinstance(obj, list):
        found = _flat(cast(list[object], obj))
    elif isinstance(obj, Mapping) and not obj:
        found = iter(())  # protobuf's JSON of an empty request
    else:
        _fail("the top level", 'expected {"resourceSpans": […]}, {"spans": […]} or a list')
    spans: list[Span] = []
    rejected: list[Rejected] = []
    for index, (raw, resource, scope) in enumerate(found):
        try:
            spans.append(_span(raw, resource, scope))
        except DataError as error:
            rejected.append((index, str(error)))
    return DecodedSpans(spans=spans, rejected=rejected)


def value_from_otlp_json(value: object, where: str) -> AttributeValue:
    """Read the JSON of one `AnyValue`, such as the body of a log record.

    Raises:
        DataError: It has another shape or is nested too deeply; names `where`.
    """
    return _value(value, where, MAX_DEPTH - _VALUE_DEPTH, None)


_Raw: TypeAlias = tuple[object, Resource | None, Scope | None]


def _of_request(request: Object) -> Iterator[_Raw]:
    for i, item in enumerate(_list(request, "resourceSpans", "")):
        where = f"resourceSpans[{i}]"
        group = _object(item, where)
        resource = _resource(group.get("resource"), where)
        for j, member in enumerate(_list(group, "scopeSpans", where)):
            inner = f"{where}.scopeSpans[{j}]"
            scope_spans = _object(member, inner)
            scope = _scope(scope_spans.get("scope"), inner)
            for raw in _list(scope_spans, "spans", inner):
                yield raw, resource, scope


def _flat(items: list[object]) -> Iterator[_Raw]:
    for item in items:
        yield item, None, None


def _resource(value: object, where: str) -> Resource:
    if value is None:
        return NO_RESOURCE
    raw = _object(value, f"{where}.resource")
    attributes = attributes_from_otlp_json(raw, f"{where}.resource")
    return Resource(attributes=attributes) if attributes else NO_RESOURCE


def _scope(value: object, where: str) -> Scope:
    if value is None:
        return NO_SCOPE
    raw = _object(value, f"{where}.scope")
    name, version = _text(raw, "name"), _text(raw, "version")
    return Scope(name=name, version=version) if name or version else NO_SCOPE


def _span(value: object, resource: Resource | None, scope: Scope | None) -> Span:
    raw = _object(value, "span")
    trace_id, span_id = _text(raw, "traceId").lower(), _text(raw, "spanId").lower()
    parent = _text(raw, "parentSpanId").lower()
    if not is_trace_id(trace_id):
        _fail("traceId", f"{trace_id!r}: expected 32 hex digits, not all zero")
    if not is_span_id(span_id):
        _fail("spanId", f"{span_id!r}: expected 16 hex digits, not all zero")
    if parent.strip("0") and not is_span_id(parent):
        _fail("parentSpanId", f"{parent!r}: expected 16 hex digits or none")
    status = _object(raw.get("status") or {}, "status")
    flags = _number(raw, "flags")
    return Span(
        trace_id=trace_id,
        span_id=span_id,
        parent_span_id=parent if parent.strip("0") else None,
        name=_text(raw, "name"),
        kind=_member(raw.get("kind"), SpanKind, _KINDS, SpanKind.UNSPECIFIED),
        start_ns=_time(raw, "startTimeUnixNano"),
        end_ns=_time(raw, "endTimeUnixNano"),
        status=_member(status.get("code"), StatusCode, _CODES, StatusCode.UNSET),
        status_message=_text(status, "message"),
        attributes=attributes_from_otlp_json(raw, "span"),
        events=tuple(_event(item) for item in _list(raw, "events", "span")),
        links=tuple(_link(item) for item in _list(raw, "links", "span")),
        resource=_resource(raw.get("resource"), "span") if resource is None else resource,
        scope=_scope(raw.get("scope"), "span") if scope is None else scope,
        trace_state=_text(raw, "traceState"),
        parent_is_remote=bool(flags & REMOTE) if flags & REMOTE_KNOWN else None,
        dropped_count=_dropped(raw),
    )


def _dropped(raw: Object) -> int:
    """Attributes and events that the sender dropped, those of events included."""
    events = [_object(item, "events") for item in _list(raw, "events", "span")]
    counts = [each.get("droppedAttributesCount") for each in (raw, *events)]
    counts.append(raw.get("droppedEventsCount"))
    if not any(counts):
        return 0
    found = [
        _integer(each, "droppedAttributesCount, droppedEventsCount") for each in counts if each
    ]
    return min(max(0, sum(found)), MAX_DROPPED)


def _event(value: object) -> SpanEvent:
    raw = _object(value, "events")
    return SpanEvent(
        name=_text(raw, "name"),
        time_ns=_time(raw, "timeUnixNano"),
        attributes=attributes_from_otlp_json(raw, "events"),
    )


def _link(value: object) -> SpanLink:
    raw = _object(value, "links")
    trace_id, span_id = _text(raw, "traceId").lower(), _text(raw, "spanId").lower()
    if trace_id.strip("0") and not is_trace_id(trace_id):
        _fail("links.traceId", f"{trace_id!r}: expected 32 hex digits or none")
    if span_id.strip("0") and not is_span_id(span_id):
        _fail("links.spanId", f"{span_id!r}: expected 16 hex digits or none")
    return SpanLink(
        trace_id=trace_id if trace_id.strip("0") else "",
        span_id=span_id if span_id.strip("0") else "",
        attributes=attributes_from_otlp_json(raw, "links"),
    )


def attributes_from_otlp_json(holder: Object, where: str) -> dict[str, AttributeValue]:
    """Read the `attributes` of an object, such as a log record; what is too deep is cut.

    Raises:
        DataError: They have another shape; names `where`.
    """
    cut: list[str] = []
    out = _pairs_of(_list(holder, "attributes", where), f"{where}.attributes", 0, cut)
    return {**out, TRUNCATED: truncated_mark(out.get(TRUNCATED), cut)} if cut else out


def _pairs_of(
    items: list[object], where: str, depth: int, cut: list[str] | None
) -> dict[str, AttributeValue]:
    """Read pairs; `cut` grows by the keys of what is nested too deeply or cannot be read.

    Without `cut` that fails.
    """
    out: dict[str, AttributeValue] = {}
    for item in items:
        pair = _object(item, where)
        key = _text(pair, "key")
        before = 0 if cut is None else len(cut)
        try:
            out[key] = _value(pair.get("value"), where, depth, cut)
        except DataError:
            if cut is None:
                raise
            out[key] = _unread(pair.get("value"))  # no span is lost for one of its values
            cut.append(key)
        if cut is not None and len(cut) > before:
            cut[before:] = [key]
    return out


def _unread(value: object) -> str:
    """Show a value that is none of OTLP's, such as an integer of more than 64 bits, as a text."""
    values = list(cast(Object, value).values()) if isinstance(value, Mapping) else [value]
    text = (
        values[0]
        if values and isinstance(values[0], str)
        else json.dumps(values[0] if values else None)
    )
    return plain_text(text)[:_UNREAD_CHARS]


def _value(value: object, where: str, depth: int, cut: list[str] | None) -> AttributeValue:
    if value is None:
        return None
    raw = _object(value, where)
    for name, read in raw.items():
        match name:
            case "stringValue" if isinstance(read, str):
                return plain_text(read)
            case "boolValue" if isinstance(read, bool):
                return read
            case "intValue":
                return _integer(read, where)
            case "doubleValue":
                return _float(read, where)
            case "bytesValue":
                return _bytes(read, where)
            case "arrayValue" | "kvlistValue":
                return _group(name, read, where, depth, cut)
            case "stringValue" | "boolValue":
                _fail(where, f"{name}: {read!r} is of another type")
            case _:
                continue
    return None


def _group(
    name: str, read: object, where: str, depth: int, cut: list[str] | None
) -> AttributeValue:
    values = _list(_object(read, where), "values", where)
    inner = depth + (ARRAY_LEVELS if name == "arrayValue" else LIST_LEVELS)
    if values and inner > MAX_DEPTH:
        if cut is None:
            _fail(where, "arrays or key/value lists are too many levels deep")
        cut.append(CUT)
        return CUT
    if name == "arrayValue":
        return tuple(_value(item, where, inner, cut) for item in values)
    return _pairs_of(values, where, inner, cut)


def _integer(value: object, where: str) -> int:
    try:
        number = int(cast(str, value)) if not isinstance(value, bool | float) else None
    except (TypeError, ValueError):
        number = None
    if number is None or not -(2**63) <= number < 2**63:
        _fail(where, f"{str(value)[:50]!r}: expected a signed 64-bit integer")
    return number


def _float(value: object, where: str) -> float:
    if not isinstance(value, bool):
        try:
            return float(cast(str, value))
        except (TypeError, ValueError, OverflowError):
            pass
    _fail(where, f"{str(value)[:50]!r}: expected a number")


def _bytes(value: object, where: str) -> bytes:
    try:
        return base64.b64decode(cast(str, value), validate=True)
    except (TypeError, ValueError, binascii.Error):
        _fail(where, "bytesValue: expected base64")


def _time(raw: Object, name: str) -> int:
    number = _number(raw, name)
    if not 0 <= number <= MAX_TIME_NS:
        _fail(name, f"{number}: expected nanoseconds since 1970, before the year 2262")
    return number


def _number(raw: Object, name: str) -> int:
    value = raw.get(name)
    if value is None:
        return 0
    return _integer(value, name)


def _text(raw: Object, name: str) -> str:
    value = raw.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        _fail(name, f"expected text, not {type(value).__name__}")
    return plain_text(value)  # JSON can spell halves of characters, which nothing can store


def _member(value: object, kind: type[M], names: Mapping[str, M], default: M) -> M:
    """An enum from its number, or its name as some senders write it; the default if unknown."""
    if isinstance(value, str):
        return names.get(value, default)
    known: Sequence[M] = tuple(kind)
    if isinstance(value, int) and 0 <= value < len(known):
        return known[value]
    return default


def _list(raw: Object, name: str, where: str) -> list[object]:
    value = raw.get(name)
    if value is None:
        return []
    if not isinstance(value, list):
        place = f"{where}.{name}" if where else name
        _fail(place, f"expected a list, not {type(value).__name__}")
    return cast(list[object], value)


def _object(value: object, where: str) -> Object:
    if not isinstance(value, Mapping):
        _fail(where, f"expected an object, not {type(value).__name__}")
    return cast(Object, value)


def _fail(where: str, problem: str) -> NoReturn:
    raise DataError(f"{where}: {problem}")
