"""Our copy of a span without what must not leave the process."""

from opentelemetry.sdk.trace import Event, ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, Status

from scouter.queue.redactor import Redactor
from scouter.tracing.stamp import StampedSpan


class RedactedSpan(StampedSpan):
    """A finished span whose texts went through a redactor; the original is not changed.

    Args:
        span: The application's span.
        redactor: The rules.
    """

    def __init__(self, span: ReadableSpan, redactor: Redactor) -> None:
        super().__init__(span)
        self._name = redactor.text(span.name)
        self._attributes = redactor.attributes(span.attributes or {})
        self._events = [
            Event(
                redactor.text(event.name),
                redactor.attributes(event.attributes or {}),
                event.timestamp,
            )
            for event in span.events
        ]
        self._links = [
            Link(link.context, redactor.attributes(link.attributes or {})) for link in span.links
        ]
        status = span.status
        if status.description:
            self._status = Status(status.status_code, redactor.text(status.description))
        scope = span.instrumentation_scope
        if scope is not None and scope.attributes:
            self._instrumentation_scope = InstrumentationScope(
                scope.name, scope.version, scope.schema_url, redactor.attributes(scope.attributes)
            )
