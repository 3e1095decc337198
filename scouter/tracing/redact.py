"""Our copy of a span without what must not leave the process."""

import re
from typing import Final

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, TraceState

from scouter.queue.redactor import Redactor
from scouter.tracing.sdk_span import SpanCopy
from scouter.transport.otlp.plain_span import EventCopy, LinkCopy

_STATE_VALUE: Final = re.compile(r"[ -+\--<>-~]{0,255}[!-+\--<>-~]")
"""Source: W3C Trace Context, section 3.3.1.3.2: printable ASCII without `,` and `=`."""


class RedactedSpan(SpanCopy):
    """A finished span whose texts went through a redactor; the original is not changed.

    Args:
        span: The application's span.
        redactor: The rules.
    """

    def __init__(self, span: ReadableSpan, redactor: Redactor) -> None:
        replaced: dict[str, object] = {
            "name": redactor.text(span.name),
            "attributes": redactor.attributes(span.attributes or {}),
            "events": [
                EventCopy(
                    redactor.text(event.name),
                    redactor.attributes(event.attributes or {}),
                    event.timestamp,
                    event.dropped_attributes,
                )
                for event in span.events
            ],
            "links": [
                LinkCopy(
                    _redacted(link.context, redactor),
                    redactor.attributes(link.attributes or {}),
                    link.dropped_attributes,
                )
                for link in span.links
            ],
        }
        context = span.get_span_context()
        if context is not None and context.trace_state:
            replaced["context"] = _redacted(context, redactor)
        status = span.status
        if status.description:
            replaced["status"] = Status(status.status_code, redactor.text(status.description))
        scope = span.instrumentation_scope
        if scope is not None and scope.attributes:
            replaced["instrumentation_scope"] = InstrumentationScope(
                scope.name, scope.version, scope.schema_url, redactor.attributes(scope.attributes)
            )
        super().__init__(span, **replaced)


def _redacted(context: SpanContext, redactor: Redactor) -> SpanContext:
    """A context whose `tracestate` went through a redactor.

    An entry that is no longer one is left out: its key was changed, or its value may not be written
    so.
    """
    if not context.trace_state:
        return context
    entries: list[tuple[str, str]] = []
    for key, text in context.trace_state.items():
        value = redactor.text(text)
        if redactor.text(key) == key and (value == text or _STATE_VALUE.fullmatch(value)):
            entries.append((key, value))
    return SpanContext(
        context.trace_id,
        context.span_id,
        context.is_remote,
        context.trace_flags,
        TraceState(entries),
    )
