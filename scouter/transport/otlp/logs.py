"""Records as OTLP log records, so that any OTLP endpoint can carry them."""

from collections.abc import Sequence
from typing import Final

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, SeverityNumber

from scouter.errors import DataError
from scouter.transport.encode import NOTHING_WRITTEN, encode_record
from scouter.transport.item import RecordItem

EVENT_NAME: Final = "scouter.eval_record"
"""Event name of a log record that holds an EvalRecord."""


def encode_logs(items: Sequence[RecordItem]) -> tuple[bytes, int]:
    """Write records as one OTLP export request.

    Each body is the record's JSON object as text: attributes of OTLP have no null and no large
    integer, so that a body of OTLP maps would not come back as it was.

    Args:
        items: The records.

    Returns:
        An `ExportLogsServiceRequest`, and how many records could not be written and are not in it.

    Raises:
        DataError: None can be written.
    """
    request = ExportLogsServiceRequest()
    scope_logs = request.resource_logs.add().scope_logs.add()
    scope_logs.scope.name = "scouter"
    for item in items:
        log = _log(item)
        if log is not None:
            scope_logs.log_records.append(log)
    if not scope_logs.log_records:
        raise DataError(NOTHING_WRITTEN)
    return request.SerializeToString(), len(items) - len(scope_logs.log_records)


def _log(item: RecordItem) -> LogRecord | None:
    text = encode_record(item)
    if text is None:
        return None
    try:
        log = LogRecord(
            time_unix_nano=item.created_ns,
            observed_time_unix_nano=item.created_ns,
            severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
            event_name=EVENT_NAME,
            trace_id=bytes.fromhex(item.trace_id or ""),
        )
    except (ValueError, TypeError, OverflowError):
        return None
    log.body.string_value = text.decode("utf-8")
    return log
