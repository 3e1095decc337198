"""OTLP log records at the rim: GenAI events become log events, others are passed over.

Source: opentelemetry-proto `logs.proto`; the event name field came with version 1.5.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, cast

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from scouter.errors import DataError
from scouter.model.attributes import TRUNCATED
from scouter.model.ids import is_span_id, is_trace_id
from scouter.model.log_event import (
    BODY,
    EVALUATION_ID,
    EVENT_NAME,
    EVENT_SCOPE,
    RESULT_EVENT,
    is_genai_event,
    whole_name,
)
from scouter.model.otlp import encode_request, read_attributes, read_value
from scouter.model.otlp_json import (
    MAX_DROPPED,
    MAX_TIME_NS,
    DecodedSpans,
    Rejected,
    attributes_from_otlp_json,
    value_from_otlp_json,
)
from scouter.model.span import Attributes, AttributeValue, Span

_NO_SPAN: Final = "0" * 16


def event_name(log: LogRecord) -> str:
    """The name of the event that a log record is, the empty text for other log records."""
    if log.event_name:
        return log.event_name
    for pair in log.attributes:
        if pair.key == EVENT_NAME:
            return str(whole_name(pair.value.string_value, log.body.string_value))
    return ""


def event_of_log(log: LogRecord, name: str) -> Span | None:
    """Read a log record as a log event.

    Args:
        log: The record.
        name: Its event name.

    Returns:
        None where it was made outside of every span.

    Raises:
        DataError: An id is none, or its time is beyond 64 bits.
    """
    return log_event(
        name,
        (log.trace_id.hex(), log.span_id.hex()),
        (log.time_unix_nano, log.observed_time_unix_nano),
        read_attributes(log.attributes),
        read_value(log.body),
        log.dropped_attributes_count,
    )


def decode_logs(request: ExportLogsServiceRequest) -> DecodedSpans:
    """Read the GenAI events of one OTLP export request.

    Returns:
        The log events in the order of the request, and index (over all log records) and reason of
        each that is refused.
    """
    found = DecodedSpans(spans=[], rejected=[])
    index = 0
    for group in request.resource_logs:
        for scope in group.scope_logs:
            for log in scope.log_records:
                name = event_name(log)
                if is_genai_event(name):
                    try:
                        event = event_of_log(log, name)
                    except DataError as error:
                        found.rejected.append((index, str(error)))
                    else:
                        found.spans.extend(() if event is None else (event,))
                index += 1
    return found


def json_event_name(log: Mapping[str, object]) -> object:
    """Find the event name of a log record in its JSON form; it may be no text.

    Raises:
        DataError: The record's attributes have another shape.
    """
    name = log.get("eventName")
    if name:
        return name
    body = log.get("body")
    said = cast(Mapping[str, object], body).get("stringValue") if isinstance(body, dict) else None
    return whole_name(attributes_from_otlp_json(log, "logRecords").get(EVENT_NAME), said)


def event_of_json_log(log: Mapping[str, object], name: str) -> Span | None:
    """Read the JSON form of a log record as a log event.

    Raises:
        DataError: As `event_of_log`, or it has another shape; names the field.
    """
    attributes = attributes_from_otlp_json(log, "log")
    pair = {"key": BODY, "value": log.get("body")}
    body = attributes_from_otlp_json({"attributes": [pair]}, "body")
    if TRUNCATED in body:
        attributes.setdefault(TRUNCATED, body[TRUNCATED])
    times = _number(log, "timeUnixNano"), _number(log, "observedTimeUnixNano")
    ids = _hex(log, "traceId"), _hex(log, "spanId")
    dropped = min(max(0, _number(log, "droppedAttributesCount")), MAX_DROPPED)
    return log_event(name, ids, times, attributes, body[BODY], dropped)


def logs_from_otlp_json(request: Mapping[str, object]) -> DecodedSpans:
    """Read the GenAI events of an OTLP-JSON export request, as `decode_logs` does.

    Raises:
        DataError: The whole has another shape; names the place.
    """
    spans: list[Span] = []
    rejected: list[Rejected] = []
    for index, log in enumerate(_json_logs(request)):
        try:
            name = json_event_name(log)
            if is_genai_event(name):
                event = event_of_json_log(log, cast(str, name))
                spans.extend(() if event is None else (event,))
        except DataError as error:
            rejected.append((index, str(error)))
    return DecodedSpans(spans=spans, rejected=rejected)


def _json_logs(request: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    for group in _objects(request, "resourceLogs"):
        for scope in _objects(group, "scopeLogs"):
            yield from _objects(scope, "logRecords")


def _objects(holder: Mapping[str, object], name: str) -> Iterator[Mapping[str, object]]:
    value: object = holder.get(name)
    if value is None:
        return
    if not isinstance(value, list):
        raise DataError(f"{name}: expected a list, not {type(value).__name__}")
    for item in cast(list[object], value):
        if not isinstance(item, Mapping):
            raise DataError(f"{name}: expected objects, not {type(item).__name__}")
        yield cast(Mapping[str, object], item)


def log_event(
    name: str,
    ids: tuple[str, str],
    times: tuple[int, int],
    attributes: Attributes,
    body: AttributeValue = None,
    dropped: int = 0,
) -> Span | None:
    """Make the span that a log event travels as.

    Args:
        name: Name of the event.
        ids: Ids of its trace and span, 32 and 16 hex digits; empty or zeros for none.
        times: Times of the event and of its observation, nanoseconds since the epoch; 0 for
            unknown.
        attributes: Attributes of the log record.
        body: Of the log record.
        dropped: Attributes that the sender had and did not send.

    Returns:
        A span whose id is a digest of all this, so that the same log record is the same span
        however it comes; None where the event was made outside of every span, and for a result of
        our own that comes back: it is known.

    Raises:
        DataError: An id is none, or a time is beyond 64 bits.

    Cost: linear in the size of the content.
    """
    if not all(each.strip("0") for each in ids) or (
        name == RESULT_EVENT and EVALUATION_ID in attributes
    ):
        return None
    trace_id, span_id = ids
    if not is_trace_id(trace_id):
        raise DataError(f"event {name}: trace id {trace_id!r}: expected 32 hex digits")
    if not is_span_id(span_id):
        raise DataError(f"event {name}: span id {span_id!r}: expected 16 hex digits")
    time_ns, observed_ns = times
    if not (0 <= time_ns <= MAX_TIME_NS and 0 <= observed_ns <= MAX_TIME_NS):
        raise DataError(f"event {name}: its time is not between 1970 and 2262")
    start_ns = time_ns or observed_ns
    event = Span(
        trace_id=trace_id,
        span_id=_NO_SPAN,
        parent_span_id=span_id,
        name=name,
        start_ns=start_ns,
        end_ns=max(start_ns, observed_ns),
        attributes=_said(attributes, body),
        scope=EVENT_SCOPE,
        parent_is_remote=False,
        dropped_count=dropped,
    )
    content = encode_request([event]).SerializeToString()
    return replace(event, span_id=hashlib.blake2b(content, digest_size=8).hexdigest())


def _said(attributes: Attributes, body: AttributeValue) -> Attributes:
    """Join the attributes and the body of a log record; its own attribute wins over the body's."""
    said = {key: value for key, value in attributes.items() if key != EVENT_NAME}
    if isinstance(body, Mapping):
        return {**body, **said}
    if body is not None:
        said.setdefault(BODY, body)
    return said


def _number(log: Mapping[str, object], name: str) -> int:
    return cast(int, value_from_otlp_json({"intValue": log.get(name) or 0}, name))


def _hex(log: Mapping[str, object], name: str) -> str:
    value = log.get(name)
    return value.lower() if isinstance(value, str) else ""
