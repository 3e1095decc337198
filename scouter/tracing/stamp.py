"""Our own copies of a span, stamped and redacted: the application's exporters never see them."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, cast

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, Status, TraceState
from opentelemetry.util.types import AnyValue, AttributeValue

from scouter.model.attributes import PROCESS_ID
from scouter.transport.process import process_id
from scouter.transport.span_copy import SpanCopy, changed_parts

if TYPE_CHECKING:
    from scouter.queue.redaction import Redactor


class StampedSpan(SpanCopy):
    """A finished span with another resource and more attributes; shares everything else.

    Args:
        span: The application's span, which is not changed.
        resource: Resource of the copy.
        extra: Attributes to add.
    """

    def __init__(
        self,
        span: ReadableSpan,
        resource: Resource | None = None,
        extra: Mapping[str, AnyValue] | None = None,
    ) -> None:
        replaced: dict[str, object] = {} if resource is None else {"resource": resource}
        if extra:
            # Copied by the mapping itself, in C: unpacking it would call Python for each key.
            copied = cast(dict[str, AnyValue], (span.attributes or {}).copy())  # type: ignore[union-attr]
            replaced["attributes"] = {**copied, **extra}
        super().__init__(span, **replaced)


class _HashedResource(Resource):
    """A resource that remembers its hash: a JSON dump, for each span that OpenTelemetry writes."""

    def __init__(self, attributes: Mapping[str, AttributeValue], schema_url: str) -> None:
        super().__init__(attributes, schema_url)
        self._hash = super().__hash__()

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or super().__eq__(other)


class ResourceStamper:
    """Adds the process id to resources; keeps the results, as a process has very few."""

    def __init__(self) -> None:
        self.service_name: str | None = None
        """Stands in where a resource has only OpenTelemetry's `unknown_service`."""
        self.redactor: Redactor | None = None
        self._known: dict[int, tuple[Resource, str, str | None, Redactor | None, Resource]] = {}

    def __call__(self, resource: Resource) -> Resource:
        """The stamped form of a resource."""
        process, service, redactor = process_id(), self.service_name, self.redactor
        known = self._known.get(id(resource))
        if (
            known is not None
            and known[0] is resource
            and known[1:4] == (process, service, redactor)
        ):
            return known[4]
        extra = {PROCESS_ID: process}
        current = cast(str, resource.attributes.get(SERVICE_NAME, ""))
        if service and (not current or current.startswith("unknown_service")):
            extra[SERVICE_NAME] = service
        attributes = resource.attributes
        if redactor is not None:
            attributes = redactor.attributes(attributes)
        stamped = _HashedResource({**attributes, **extra}, resource.schema_url)
        if len(self._known) >= 64:
            self._known.clear()
        self._known[id(resource)] = (resource, process, service, redactor, stamped)
        return stamped


_STATE_VALUE: Final = re.compile(r"[ -+\--<>-~]{0,255}[!-+\--<>-~]")
"""Source: W3C Trace Context, section 3.3.1.3.2: printable ASCII without `,` and `=`."""


class RedactedSpan(SpanCopy):
    """A finished span whose texts went through a redactor; the original is not changed.

    Args:
        span: The application's span.
        redactor: The rules.
    """

    def __init__(self, span: ReadableSpan, redactor: "Redactor") -> None:
        replaced: dict[str, object] = {
            "name": redactor.text(span.name),
            **changed_parts(
                span,
                redactor.attributes,
                redactor.text,
                lambda context: _redacted(context, redactor),
            ),
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


def _redacted(context: SpanContext, redactor: "Redactor") -> SpanContext:
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
