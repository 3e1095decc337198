"""ScouterTracer, and the process-wide functions around it."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

from opentelemetry import baggage as otel_baggage
from opentelemetry import context as otel_context
from opentelemetry import trace
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.trace import Link, SpanKind
from opentelemetry.util import types

from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.capture import LocalCapture
from scouter.tracing.decorate import CurrentSpan, FunctionSpan, qualified_name, traced
from scouter.tracing.limits import for_others
from scouter.tracing.processor import ScouterSpanProcessor
from scouter.tracing.propagation import parent_context
from scouter.tracing.runtime import DEFAULT_SERVICE, RUNTIME
from scouter.tracing.span import DEFAULT_MAX_LENGTH, ScouterSpan
from scouter.tracing.values import attribute_values
from scouter.transport.guard import text_of

if TYPE_CHECKING:
    from scouter.queue.redaction import Redaction
    from scouter.transport.config import BatchConfig, TransportConfig

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_SCOPE: Final = "scouter.tracer"

Pairs = Mapping[str, object] | Sequence[Mapping[str, object]]
"""Key/value pairs, as one dict or as a list of dicts."""


class ScouterTracer(LocalCapture, trace.Tracer):
    """A tracer whose spans are `ScouterSpan`s.

    It finds its TracerProvider at the first span: the one of `ScouterInstrumentor` while that
    is active, else one of Scouter's own. So the order of both calls does not matter.

    Args:
        service_name: `service.name` of its spans, where the provider is Scouter's own.
        scope: Name of the instrumentation scope.
        queue: Queue of the records that its spans insert; the process' queue if not given.
        default_attributes: On each of its spans.
        default_entity_uid: Profile that each of its spans belongs to.
        schema_url: Of the scope.
        scope_attributes: Of the scope.
        version: Of the scope.
        maker: Makes the wrapped spans; the provider's tracer of this scope if not given.
    """

    def __init__(
        self,
        service_name: str = DEFAULT_SERVICE,
        scope: str = DEFAULT_SCOPE,
        queue: ScouterQueue | None = None,
        default_attributes: Mapping[str, object] | None = None,
        default_entity_uid: str | None = None,
        schema_url: str | None = None,
        scope_attributes: types.Attributes = None,
        version: str | None = None,
        maker: trace.Tracer | None = None,
    ) -> None:
        self._service_name = service_name
        self._maker = maker
        self._scope = scope
        self._queue = queue
        self._schema_url = schema_url
        self._scope_attributes = scope_attributes
        self._version = version
        self._entity = default_entity_uid
        self._defaults = attribute_values(default_attributes)
        self._found: tuple[int, trace.Tracer] | None = None
        if queue is not None:
            RUNTIME.adopt(queue)

    def _tracer(self) -> trace.Tracer:
        if self._maker is not None:
            return self._maker
        found = self._found
        if found is not None and found[0] == RUNTIME.generation:
            return found[1]
        generation = RUNTIME.generation
        provider = RUNTIME.provider(self._service_name)
        tracer = _sdk_tracer(
            provider, self._scope, self._version, self._schema_url, self._scope_attributes
        )
        self._found = (generation, tracer)
        return tracer

    def start_span(
        self,
        name: str,
        context: otel_context.Context | None = None,
        kind: SpanKind | None = SpanKind.INTERNAL,
        attributes: Pairs | None = None,
        links: Sequence[Link] | None = (),
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        *,
        end_on_exit: bool = True,
        baggage: Pairs | None = None,
        tags: Pairs | None = None,
        label: str | None = None,
        trace_id: str | None = None,
        span_id: str | None = None,
        remote_sampled: bool | None = None,
        headers: Mapping[str, str] | None = None,
        parent_context_id: str | None = None,
    ) -> ScouterSpan:
        """Start a span; it becomes the current one inside `with`.

        Args:
            name: Its name.
            context: Parent context; the current one if not given.
            kind: Its kind; `INTERNAL` for None.
            attributes: Any values, as one dict or as a list of dicts; those that OpenTelemetry
                cannot carry become JSON text, and one that has none is left out.
            links: Links to other spans.
            start_time: Nanoseconds since the epoch.
            record_exception: Add an event for an exception that leaves the `with` block.
            set_status_on_exception: Set the status to error then.
            end_on_exit: End the span when the `with` block is left.
            baggage: Entries that travel with the context inside `with`.
            tags: Tags, as by `ScouterSpan.set_tag`.
            label: The span's label.
            trace_id: With `span_id`: the remote parent, in hex.
            span_id: See `trace_id`.
            remote_sampled: Whether that parent is sampled; it is if not given.
            headers: Carrier of a remote parent (`traceparent`, `baggage`).
            parent_context_id: `context_id` of the parent, if that is another span of the current
                trace than the current one.

        Raises:
            DataError: `trace_id`, `span_id` or `parent_context_id` is not hex of the right length.
        """
        context = parent_context(
            context, headers, trace_id, span_id, remote_sampled, parent_context_id
        )
        base = context
        for key, value in _pairs(baggage):
            base = otel_baggage.set_baggage(key, text_of(value), base)
        given = self._defaults
        if attributes:
            given = {**given, **attribute_values(attributes)}
        kind = SpanKind.INTERNAL if kind is None else kind
        span = self._tracer().start_span(
            name, base, kind, given, links, start_time, record_exception, set_status_on_exception
        )
        wrapped = ScouterSpan(
            span,
            self._queue,
            record_exception=record_exception,
            set_status_on_exception=set_status_on_exception,
            end_on_exit=end_on_exit,
        )
        for key, value in _pairs(tags):
            wrapped.set_tag(key, value)
        if label is not None:
            wrapped.set_label(label)
        if self._entity is not None:
            wrapped.set_entity(self._entity)
        return wrapped.with_base(base)

    def start_as_current_span(  # type: ignore[override]  # manages `async with` as well
        self,
        name: str,
        context: otel_context.Context | None = None,
        kind: SpanKind | None = SpanKind.INTERNAL,
        attributes: Pairs | None = None,
        links: Sequence[Link] | None = (),
        start_time: int | None = None,
        record_exception: bool = True,
        set_status_on_exception: bool = True,
        end_on_exit: bool = True,
        **more: Any,  # noqa: ANN401 - the keyword arguments of start_span
    ) -> CurrentSpan:
        """A span for `with` or `async with`, which start it; arguments as for `start_span`.

        Used as a decorator, each call of the function is such a span; unlike `span` it keeps
        neither arguments nor result.
        """
        start = functools.partial(
            self.start_span,
            name,
            context,
            kind,
            attributes,
            links,
            start_time,
            record_exception,
            set_status_on_exception,
            end_on_exit=end_on_exit,
            **more,
        )
        return CurrentSpan(start)

    def span(
        self,
        name: str | Callable[..., Any] | None = None,
        kind: SpanKind | None = SpanKind.INTERNAL,
        attributes: Pairs | None = None,
        baggage: Pairs | None = None,
        tags: Pairs | None = None,
        label: str | None = None,
        max_length: int = DEFAULT_MAX_LENGTH,
        capture_last_stream_item: bool = False,
        join_stream_items: bool = False,
        record_io: bool = True,
        record_args: bool = True,
        parent_context_id: str | None = None,
    ) -> Callable[[F], F]:
        """Decorate a function, generator, coroutine function or async generator with a span.

        Arguments and result are recorded on the span as JSON, of a generator its first 1,000 items.
        A generator's span lasts from its first to its last step and is current only while the
        generator itself runs. The span of a function that gives back a coroutine, a generator, a
        future or another awaitable, such as a plain wrapper around one, lasts until that is done.

        Args:
            name: The span's name; the function's qualified name if not given.
            kind: Its kind.
            attributes: Its attributes.
            baggage: Entries that travel with the context of the function.
            tags: Its tags.
            label: Its label.
            max_length: Characters of one text inside arguments and result.
            capture_last_stream_item: Of a generator keep only the last item.
            join_stream_items: Of a generator keep the items as one text, of which `max_length`
                characters are recorded; `…` behind them says that there were more.
            record_io: False: keep neither arguments nor result.
            record_args: False: do not keep the arguments.
            parent_context_id: As for `start_span`.
        """
        if callable(name):  # used as @tracer.span
            return cast(Callable[[F], F], self.span()(cast(Any, name)))
        settings = FunctionSpan(
            max_length=max_length,
            last_item_only=capture_last_stream_item,
            join_items=join_stream_items,
            record_io=record_io,
            record_args=record_args,
        )

        def decorate(function: F) -> F:
            start = functools.partial(
                self.start_span,
                name or qualified_name(function),
                kind=kind,
                attributes=attributes,
                baggage=baggage,
                tags=tags,
                label=label,
                parent_context_id=parent_context_id,
            )
            return cast(F, traced(function, start, settings))

        return decorate

    @property
    def current_span(self) -> ScouterSpan:
        """The current span; a wrapper around it where another library made it."""
        span = trace.get_current_span()
        return span if isinstance(span, ScouterSpan) else ScouterSpan(span, self._queue)

    def set_scouter_queue(self, queue: ScouterQueue) -> None:
        """Have this tracer's spans insert records into this queue."""
        self._queue = queue
        RUNTIME.configure(queue=queue)


class ScouterTracerProvider(TracerProvider):
    """A provider of the OpenTelemetry SDK whose tracers are `ScouterTracer`s.

    So `opentelemetry.trace.get_tracer` gives tracers whose spans take tags, inputs, outputs and
    records, and the current span of other libraries' instrumentation does, too.
    """

    def get_tracer(
        self,
        instrumenting_module_name: str,
        instrumenting_library_version: str | None = None,
        schema_url: str | None = None,
        attributes: types.Attributes = None,
    ) -> trace.Tracer:
        """Make a tracer of a scope."""
        maker = super().get_tracer(
            instrumenting_module_name, instrumenting_library_version, schema_url, attributes
        )
        return ScouterTracer(scope=instrumenting_module_name, maker=maker)

    def add_span_processor(self, span_processor: SpanProcessor) -> None:
        """Add a processor; another one than ours sees values as long as the environment says."""
        is_ours = isinstance(span_processor, ScouterSpanProcessor)
        super().add_span_processor(span_processor if is_ours else for_others(span_processor))


def _sdk_tracer(
    provider: TracerProvider,
    name: str,
    version: str | None = None,
    schema_url: str | None = None,
    attributes: types.Attributes = None,
) -> trace.Tracer:
    """A provider's tracer whose spans are the SDK's own, to be wrapped."""
    if isinstance(provider, ScouterTracerProvider):
        return TracerProvider.get_tracer(provider, name, version, schema_url, attributes)
    return provider.get_tracer(name, version, schema_url, attributes)


def init_tracer(
    service_name: str = DEFAULT_SERVICE,
    scope: str = DEFAULT_SCOPE,
    transport_config: "TransportConfig | None" = None,
    exporter: SpanExporter | None = None,
    batch_config: "BatchConfig | None" = None,
    sample_ratio: float | None = None,
    scouter_queue: ScouterQueue | None = None,
    schema_url: str | None = None,
    scope_attributes: types.Attributes = None,
    default_attributes: Mapping[str, object] | None = None,
    default_entity_uid: str | None = None,
    redaction: "Redaction | None" = None,
) -> ScouterTracer:
    """Make a tracer, and set up the process' export of spans where that is wanted.

    Spans go by `transport_config`, else by the transport of the queue. With neither they go
    nowhere, unless an earlier call named a transport. OpenTelemetry's global provider is left
    alone: `ScouterInstrumentor` works on that one.

    Args:
        service_name: `service.name` of the spans.
        scope: Name of the instrumentation scope.
        transport_config: Way of the spans.
        exporter: Another OpenTelemetry exporter that gets all spans as well.
        batch_config: Bounds of the span queue.
        sample_ratio: Share of traces to keep, with their records; OpenTelemetry's own setting
            if not given.
        scouter_queue: Queue of the records that the tracer's spans insert.
        schema_url: Schema URL of the scope.
        scope_attributes: Attributes of the scope.
        default_attributes: Attributes of each span of this tracer.
        default_entity_uid: Profile that each span of this tracer belongs to.
        redaction: Rules for data that must not leave the process, for our copies of all spans and
            for the records of all tracers' queues. A queue of `get_tracer` with rules of its own
            keeps them. Spans for `exporter` are not redacted.

    Raises:
        ConfigError: The sample ratio is outside [0, 1], or a rule of redaction is none.
    """
    RUNTIME.configure(
        transport_config=transport_config,
        exporter=exporter,
        batch_config=batch_config,
        sample_ratio=sample_ratio,
        queue=scouter_queue,
        service_name=service_name if service_name != DEFAULT_SERVICE else None,
        redaction=redaction,
    )
    return ScouterTracer(
        service_name=service_name,
        scope=scope,
        queue=scouter_queue,
        default_attributes=default_attributes,
        default_entity_uid=default_entity_uid,
        schema_url=schema_url,
        scope_attributes=scope_attributes,
    )


def get_tracer(
    name: str = DEFAULT_SCOPE,
    version: str | None = None,
    schema_url: str | None = None,
    attributes: types.Attributes = None,
    scouter_queue: ScouterQueue | None = None,
    *,
    scope_name: str | None = None,
    scope_version: str | None = None,
    scope_attributes: types.Attributes = None,
    default_attributes: Mapping[str, object] | None = None,
) -> ScouterTracer:
    """Make a tracer of another scope; export is the process'.

    Args:
        name: Name of the instrumentation scope.
        version: Of the scope.
        schema_url: Of the scope.
        attributes: Of the scope.
        scouter_queue: Queue of the records that its spans insert; the process' queue if not given.
        scope_name: Another word for `name`.
        scope_version: Another word for `version`.
        scope_attributes: Another word for `attributes`.
        default_attributes: On each span of this tracer.
    """
    service = RUNTIME.stamper.service_name or DEFAULT_SERVICE
    return ScouterTracer(
        service_name=service,
        scope=name if scope_name is None else scope_name,
        queue=scouter_queue,
        default_attributes=default_attributes,
        version=version if scope_version is None else scope_version,
        schema_url=schema_url,
        scope_attributes=attributes if scope_attributes is None else scope_attributes,
    )


def flush_tracer(timeout_s: float = 10.0) -> bool:
    """Deliver the spans that ended so far; False if the time ran out."""
    return RUNTIME.flush(timeout_s)


def shutdown_tracer(timeout_s: float = 5.0) -> bool:
    """Deliver what waits and forget the process' export and queue; `init_tracer` starts anew."""
    return RUNTIME.shutdown(timeout_s)


def get_current_active_span() -> ScouterSpan:
    """The current span; a wrapper around it where another library made it."""
    span = trace.get_current_span()
    return span if isinstance(span, ScouterSpan) else ScouterSpan(span)


def _pairs(pairs: Pairs | None) -> Iterable[tuple[str, object]]:
    if not pairs:
        return ()
    if isinstance(pairs, Mapping):
        return pairs.items()
    return [pair for mapping in pairs for pair in mapping.items()]
