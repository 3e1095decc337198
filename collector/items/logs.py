"""OTLP log records: EvalRecords of any stock OpenTelemetry SDK, and GenAI events.

A log record with the event name `scouter.eval_record` (its `event_name`, or an attribute
`event.name`) carries a record of `POST /v1/records` as its body: an object, or the JSON text of
one. Fields that the body lacks are taken from around it: `trace_id` and `created_at` from the log
record, `tags` from its attributes and from the resource's service and environment. A GenAI event
that was made inside a span becomes a log event of that span. Other log records are counted and not
stored.

Source: OTLP specification 1.x; opentelemetry-proto `logs.proto`; the event name field came with
version 1.5.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from collector.items.limits import Limits, check_values, count_values
from collector.items.mend import mended_events
from collector.items.record_items import read_json, read_otlp_json, score_of
from collector.items.traces import fitting
from collector.items.wire import Refused, RequestParts
from scouter.errors import DataError
from scouter.model.attributes import RESOURCE_TAGS
from scouter.model.json_value import to_json_value
from scouter.model.log_event import EVENT_NAME as EVENT_ATTRIBUTE
from scouter.model.log_event import RESULT_EVENT, foreign_result, is_foreign_result, is_genai_event
from scouter.model.otlp import read_attributes, read_value
from scouter.model.otlp_json import value_from_otlp_json
from scouter.model.otlp_logs import (
    event_name,
    event_of_json_log,
    event_of_log,
    json_event_name,
)
from scouter.model.short_text import (
    MOST_CHARACTERS,
    MOST_TAG_CHARACTERS,
    MOST_TAGS,
    short_text,
)
from scouter.model.span import AttributeValue, Span

EVENT_NAME: Final = "scouter.eval_record"
"""Event name of a log record that is an EvalRecord."""

_DEFAULT: Final = Limits()


@dataclass(slots=True, kw_only=True)
class LogsBody:
    """Records and events of an OTLP request of logs, and its refused log records."""

    items: list[object] = field(default_factory=list[object])
    """Records as `POST /v1/records` takes them, not checked yet."""
    events: list[Span] = field(default_factory=list[Span])
    """Log events, cut to the limits."""
    refused: list[Refused] = field(default_factory=list[Refused])
    """Log records that could not be read at all."""
    refused_events: list[Refused] = field(default_factory=list[Refused])
    """GenAI events that could not."""
    ignored: int = 0
    """Log records that are something else."""


def decode_logs_protobuf(data: bytes, limits: Limits = _DEFAULT) -> LogsBody:
    """Read a protobuf `ExportLogsServiceRequest`.

    Raises:
        DataError: The bytes are something else.
        TooLargeError: The request as a whole is beyond a limit.
    """
    body = LogsBody()
    count = 0
    for part in RequestParts(ExportLogsServiceRequest, limits, mended_events).parse(data):
        if isinstance(part, Refused):
            body.refused.append(part)
            continue
        for group in part.message.resource_logs:
            resource: dict[str, AttributeValue] | None = None
            for scope in group.scope_logs:
                count += 1 + len(scope.log_records)
                limits.check_items(count)
                for log in scope.log_records:
                    name = event_name(log)
                    if name == EVENT_NAME:
                        if resource is None:
                            resource = read_attributes(group.resource.attributes)
                        body.items.append(record_of_log(log, resource))
                    elif name == RESULT_EVENT and not log.span_id.strip(b"\0"):
                        if resource is None:
                            resource = read_attributes(group.resource.attributes)
                        moment = log.time_unix_nano or log.observed_time_unix_nano
                        _take_score(
                            read_attributes(log.attributes),
                            log.trace_id.hex(),
                            moment,
                            resource,
                            body,
                        )
                    else:
                        _take_event(log, name, body)
        limits.check_items(len(part.message.resource_logs))
    _fit(body, limits, len(data))
    return body


def _take_event(log: LogRecord, name: str, body: LogsBody) -> None:
    try:
        event = event_of_log(log, name) if is_genai_event(name) else None
    except DataError as error:
        one = ExportLogsServiceRequest()
        one.resource_logs.add().scope_logs.add().log_records.append(log)
        refused = Refused(message=str(error), payload=one.SerializeToString())
        body.refused_events.append(refused)
    else:
        _keep_event(event, body)


def _keep_event(event: Span | None, body: LogsBody) -> None:
    if event is None:
        body.ignored += 1
    else:
        body.events.append(event)


def _take_score(
    attributes: Mapping[str, AttributeValue],
    trace_id: str,
    moment_ns: int,
    resource: Mapping[str, AttributeValue],
    body: LogsBody,
) -> None:
    """Take a score that is of no span: of a trace, a conversation, or of an agent as a whole."""
    trace_id = trace_id if trace_id.strip("0") else ""
    found = foreign_result(attributes, (trace_id, ""), moment_ns)
    if found.name.strip() and is_foreign_result(RESULT_EVENT, attributes):
        body.items.append(score_of(found, resource))
    else:
        body.ignored += 1


def _fit(body: LogsBody, limits: Limits, size: int) -> None:
    """Cut the log events to the limits, and refuse what costs too much memory in all.

    Args:
        body: Has the events.
        limits: Of each, and of all.
        size: Bytes of the request, or of its part: no event of a small one is measured.
    """
    check_values(count_values(body.events), limits)
    body.events = [fitting(each, limits, size) for each in body.events]


def record_of_log(log: LogRecord, resource: Mapping[str, AttributeValue]) -> object:
    """The record that a log record with the name `EVENT_NAME` carries, not checked yet."""
    return _record(
        read_value(log.body),
        log.trace_id.hex(),
        log.time_unix_nano or log.observed_time_unix_nano,
        read_attributes(log.attributes),
        resource,
    )


def decode_logs_json(data: bytes, limits: Limits = _DEFAULT) -> LogsBody:
    """Read the JSON form of an `ExportLogsServiceRequest`.

    Raises:
        DataError: It is not JSON, or has another shape; names the place.
        TooLargeError: The request as a whole is beyond a limit.
    """
    request = read_otlp_json(data, "resourceLogs")
    body = LogsBody()
    try:
        for log, resource in _logs_of(request):
            taken = (body.items, body.events, body.refused, body.refused_events)
            limits.check_items(sum(map(len, taken)) + body.ignored + 1)
            _take_json(log, resource, body)
    except RecursionError as error:
        raise DataError("a log record is nested too deeply") from error
    _fit(body, limits, len(data))
    return body


def _take_json(log: object, resource: Mapping[str, AttributeValue], body: LogsBody) -> None:
    refused = body.refused
    try:
        fields = _object(log, "logRecords")
        name = json_event_name(fields)
        if name == RESULT_EVENT and not str(fields.get("spanId") or "").strip("0"):
            _take_score(
                _json_attributes(fields.get("attributes"), "attributes"),
                str(fields.get("traceId") or ""),
                _moment(fields, "timeUnixNano") or _moment(fields, "observedTimeUnixNano"),
                resource,
                body,
            )
            return
        if isinstance(name, str) and is_genai_event(name):
            refused = body.refused_events
            _keep_event(event_of_json_log(fields, name), body)
            return
        if name != EVENT_NAME:
            body.ignored += 1
            return
        attributes = _json_attributes(fields.get("attributes"), "attributes")
        moment = _moment(fields, "timeUnixNano") or _moment(fields, "observedTimeUnixNano")
        value = value_from_otlp_json(fields.get("body"), "body")
    except DataError as error:
        payload = {"resourceLogs": [{"scopeLogs": [{"logRecords": [log]}]}]}
        refused.append(Refused(message=str(error), payload=json.dumps(payload).encode()))
    else:
        body.items.append(_record(value, fields.get("traceId"), moment, attributes, resource))


def _logs_of(request: Mapping[str, object]) -> Iterator[tuple[object, dict[str, AttributeValue]]]:
    for group in _list(request, "resourceLogs"):
        fields = _object(group, "resourceLogs")
        resource = _object(fields.get("resource") or {}, "resource")
        known = _json_attributes(resource.get("attributes"), "resource.attributes")
        for scope in _list(fields, "scopeLogs"):
            for log in _list(_object(scope, "scopeLogs"), "logRecords"):
                yield log, known


def _moment(fields: Mapping[str, object], name: str) -> int:
    return cast(int, value_from_otlp_json({"intValue": fields.get(name) or 0}, name))


def _json_attributes(value: object, where: str) -> dict[str, AttributeValue]:
    found = value_from_otlp_json({"kvlistValue": {"values": value}}, where)
    return cast(dict[str, AttributeValue], found)


def _object(value: object, where: str) -> Mapping[str, object]:
    if not isinstance(value, dict):
        raise DataError(f"{where}: expected an object, not {type(value).__name__}")
    return cast(Mapping[str, object], value)


def _list(fields: Mapping[str, object], name: str) -> list[object]:
    value = fields.get(name)
    if value is not None and not isinstance(value, list):
        raise DataError(f"{name}: expected a list, not {type(value).__name__}")
    return cast(list[object], value or [])


# --- either form ---------------------------------------------------------------------------------


def _record(
    value: AttributeValue,
    trace_id: object,
    moment_ns: int,
    attributes: Mapping[str, AttributeValue],
    resource: Mapping[str, AttributeValue],
) -> object:
    """The record that a log record carries; anything else is left for the check to refuse."""
    try:
        found: object = to_json_value(value)
        if isinstance(value, str | bytes):
            found = read_json(value if isinstance(value, bytes) else value.encode())
    except DataError:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
    if not isinstance(found, dict):
        return found
    record = cast(dict[str, object], found)
    is_none = not trace_id or (isinstance(trace_id, str) and not trace_id.strip("0"))
    if not is_none and not record.get("trace_id"):
        record["trace_id"] = trace_id
    if moment_ns and record.get("created_at") is None:
        record["created_at"] = moment_ns
    tags = record.get("tags")
    if tags is None or isinstance(tags, dict):
        said = cast(dict[str, object], tags or {})
        around = _tags(attributes, resource)
        room = max(0, MOST_TAGS - len(said))
        new = [name for name in around if name not in said][:room]
        if new:
            record["tags"] = said | {name: around[name] for name in new}
    return record


def _tags(
    attributes: Mapping[str, AttributeValue], resource: Mapping[str, AttributeValue]
) -> dict[str, str]:
    """Attributes that can be tags; what cannot is left out, as it was not meant as one."""
    found: dict[str, str] = {}
    named = {name: resource[name] for name in RESOURCE_TAGS if name in resource}
    for name, value in {**named, **attributes}.items():
        if isinstance(value, bool):
            text = "true" if value else "false"
        elif isinstance(value, str | int | float):
            text = str(value)
        else:
            continue
        is_fit = len(name) <= MOST_CHARACTERS and len(text) <= MOST_TAG_CHARACTERS
        if is_fit and name != EVENT_ATTRIBUTE:
            found[short_text(name)] = text
    return found
