"""GenAI events that the application logs, captured beside the spans of an offline run."""

from dataclasses import replace
from typing import TYPE_CHECKING

from opentelemetry.sdk._logs import LogRecordProcessor, ReadWriteLogRecord

from scouter.model.attributes import TRUNCATED, truncated_mark
from scouter.model.log_event import BODY, EVENT_NAME, RESULT_EVENT, is_genai_event
from scouter.model.otlp_logs import log_event
from scouter.model.sdk_span import plain_attributes
from scouter.model.span import Span
from scouter.queue.origin import ORIGINS
from scouter.tracing.limits import keys_cut
from scouter.transport.guard import GUARD

if TYPE_CHECKING:
    from opentelemetry._logs import LogRecord

    from scouter.tracing.runtime import Runtime


class ScouterLogProcessor(LogRecordProcessor):
    """Puts GenAI events into the process' capture; never blocks, never raises.

    While nothing is captured it does nothing: the application's own exporters send its logs.

    Args:
        runtime: Of the process.
    """

    def __init__(self, runtime: "Runtime") -> None:
        self._runtime = runtime
        self.is_active = True
        """False after `uninstrument`: OpenTelemetry cannot take a processor out again."""

    def on_emit(self, log_record: ReadWriteLogRecord) -> None:
        """Keep the record if it is a GenAI event of a span."""
        runtime = self._runtime
        if not (self.is_active and runtime.capture.is_enabled):
            return
        try:
            event = _event_of(log_record.log_record, log_record.dropped_attributes)
            if event is not None:
                if runtime.redactor is not None:
                    redacted = runtime.redactor.attributes(event.attributes)
                    event = replace(event, attributes=redacted)
                marked = {**event.attributes, **ORIGINS.now().marks}
                runtime.capture.add(replace(event, attributes=marked))
        except Exception as error:  # noqa: BLE001 - the host must not suffer from our bug
            runtime.capture.failed += 1
            GUARD.internal("log processor", error)

    def shutdown(self) -> None:
        """Do nothing: the runtime outlives its providers."""

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Do nothing: there is nothing that waits."""
        del timeout_millis
        return True


def _event_of(log: "LogRecord", dropped: int) -> Span | None:
    name = log.event_name or (log.attributes or {}).get(EVENT_NAME)
    if not isinstance(name, str) or not is_genai_event(name) or name == RESULT_EVENT:
        return None
    body = plain_attributes({BODY: log.body}).get(BODY)
    attributes = plain_attributes(log.attributes)
    if cut := list(keys_cut(log.attributes)):
        attributes[TRUNCATED] = truncated_mark(attributes.get(TRUNCATED), cut)
    return log_event(
        name,
        (f"{log.trace_id or 0:032x}", f"{log.span_id or 0:016x}"),
        (log.timestamp or 0, log.observed_timestamp or 0),
        attributes,
        body,
        dropped,
    )
