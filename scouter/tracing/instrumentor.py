"""ScouterInstrumentor: Scouter beside whatever tracing an application already has."""

import logging
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry import propagate, trace
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter

from scouter.drift.profile import AgentEvalProfile
from scouter.errors import ConfigError
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.capture import LocalCapture
from scouter.tracing.processor import ScouterSpanProcessor
from scouter.tracing.propagation import W3C
from scouter.tracing.runtime import RUNTIME, is_ours
from scouter.tracing.tracer import ScouterTracerProvider
from scouter.tracing.values import attribute_values
from scouter.transport.config import BatchConfig, TransportConfig

if TYPE_CHECKING:
    from opentelemetry.sdk._logs import LoggerProvider

    from scouter.queue.redaction import Redaction
    from scouter.tracing.log_processor import ScouterLogProcessor

logger: Final = logging.getLogger("scouter")
_SDK_LOGS: Final = "opentelemetry.sdk._logs"


class ScouterInstrumentor(LocalCapture, BaseInstrumentor):
    """Sends the spans of every OpenTelemetry instrumentation to Scouter.

    If the application has a TracerProvider of its own, it gets one more processor, and its own
    exporters go on as before; else a provider is made and set globally. A LoggerProvider that is
    set gets one, too: while spans are captured, and at no other time, GenAI events of its logs are
    captured with them. There is one
    instrumentor per process, as with every OpenTelemetry instrumentor.
    """

    def __init__(self) -> None:
        if not hasattr(self, "_processors"):  # the class always gives the same object
            self._processors: WeakKeyDictionary[TracerProvider, ScouterSpanProcessor] = (
                WeakKeyDictionary()
            )
            self._log_processor: ScouterLogProcessor | None = None
            self._logged: WeakSet[LoggerProvider] = WeakSet()
            """Providers that have it; their loggers may outlive them."""
            self._exporter: SpanExporter | None = None

    def instrumentation_dependencies(self) -> Collection[str]:
        """Packages that must be there besides Scouter's own: none."""
        return ()

    @property
    def is_instrumented(self) -> bool:
        """True between `instrument` and `uninstrument`."""
        return self.is_instrumented_by_opentelemetry

    def instrument(  # pyright: ignore[reportIncompatibleMethodOverride] - named, not only kwargs
        self,
        transport_config: TransportConfig | None = None,
        exporter: SpanExporter | None = None,
        batch_config: BatchConfig | None = None,
        sample_ratio: float | None = None,
        scouter_queue: ScouterQueue | None = None,
        attributes: Mapping[str, object] | None = None,
        eval_profiles: Sequence[AgentEvalProfile] | None = None,
        propagate_baggage: bool = True,
        tracer_provider: TracerProvider | None = None,
        service_name: str | None = None,
        redaction: "Redaction | None" = None,
        logger_provider: "LoggerProvider | None" = None,
        **kwargs: Any,  # noqa: ANN401 - skip_dep_check and the like, of the base class
    ) -> "ScouterInstrumentor":
        """Start sending spans.

        Args:
            transport_config: Way of the spans; that of the queue's records if not given.
            exporter: Another OpenTelemetry exporter that gets all spans as well.
            batch_config: Bounds of the span queue.
            sample_ratio: Share of traces that Scouter keeps. The application's own exporters
                get all spans that the application's own sampler lets through. Traces that this
                sampler refuses are not known later: a record that is inserted with the id of such
                a trace is sampled by the share alone.
            scouter_queue: Queue of the records that spans insert.
            attributes: Put on our copy of each span.
            eval_profiles: Profiles of the agents in this process. Our copy of a span is marked
                with the first one, unless `active_profile` or `set_entity` named another.
            propagate_baggage: Copy scenario and active profile from baggage onto spans.
            tracer_provider: The provider to work on; the global one if not given.
            service_name: `service.name` of our copy of the spans of a provider that has none.
            redaction: Rules for data that must not leave the process, for our copies of spans and
                for the queue's records. The application's own exporters see spans as they are.
            logger_provider: Provider of the GenAI events that are captured with spans;
                the global one if not given and set already.
            kwargs: For OpenTelemetry's base class.

        Returns:
            The instrumentor, for `uninstrument`.

        Raises:
            ConfigError: The provider is not one of the OpenTelemetry SDK, or the ratio is
                outside [0, 1], or a rule of redaction is none.
        """
        super().instrument(
            transport_config=transport_config,
            exporter=exporter,
            batch_config=batch_config,
            sample_ratio=sample_ratio,
            scouter_queue=scouter_queue,
            attributes=attributes,
            eval_profiles=eval_profiles,
            propagate_baggage=propagate_baggage,
            tracer_provider=tracer_provider,
            service_name=service_name,
            redaction=redaction,
            logger_provider=logger_provider,
            **kwargs,
        )
        return self

    def _instrument(self, **kwargs: Any) -> None:  # noqa: ANN401 - the base class' signature
        RUNTIME.configure(
            transport_config=kwargs["transport_config"],
            batch_config=kwargs["batch_config"],
            sample_ratio=kwargs["sample_ratio"],
            queue=kwargs["scouter_queue"],
            service_name=kwargs["service_name"],
            redaction=kwargs["redaction"],
        )
        extra = attribute_values(kwargs["attributes"])
        profiles = cast("Sequence[AgentEvalProfile]", kwargs["eval_profiles"] or ())
        provider = _find_provider(kwargs["tracer_provider"])
        exporter = cast(SpanExporter | None, kwargs["exporter"])
        if exporter is not None and RUNTIME.add_exporter(exporter):
            self._exporter = exporter
        processor = self._processor_on(provider)
        processor.extra = extra
        processor.default_entity = profiles[0].uid if profiles else None
        processor.propagate_baggage = kwargs["propagate_baggage"]
        processor.thins = not is_ours(provider)
        processor.is_active = True
        self._watch_logs(kwargs["logger_provider"])
        _ensure_propagation()
        RUNTIME.attach(provider)

    def _processor_on(self, provider: TracerProvider) -> ScouterSpanProcessor:
        """Our processor on this provider: the one from last time, as none can be removed."""
        processor = self._processors.get(provider)
        if processor is None:
            processor = self._processors[provider] = ScouterSpanProcessor(RUNTIME)
            provider.add_span_processor(processor)
        return processor

    def _watch_logs(self, given: object) -> None:
        """Add our processor to the application's LoggerProvider, if it has one of the SDK."""
        if _SDK_LOGS not in sys.modules:
            return  # then there can be none, and loading it takes a while
        from opentelemetry._logs import get_logger_provider
        from opentelemetry.sdk._logs import LoggerProvider

        from scouter.tracing.log_processor import ScouterLogProcessor

        provider = given or get_logger_provider()
        if isinstance(provider, LoggerProvider):
            processor = self._log_processor or ScouterLogProcessor(RUNTIME)
            self._log_processor = processor
            if provider not in self._logged:
                self._logged.add(provider)
                provider.add_log_record_processor(processor)
            processor.is_active = True

    def _uninstrument(self, **kwargs: Any) -> None:  # noqa: ANN401 - the base class' signature
        timeout_s = float(kwargs.get("timeout_s", 5.0))
        RUNTIME.flush(timeout_s)
        RUNTIME.attach(None)
        for processor in self._processors.values():
            processor.is_active = False
        if self._log_processor is not None:
            self._log_processor.is_active = False
        exporter, self._exporter = self._exporter, None
        if exporter is not None:
            RUNTIME.remove_exporter(exporter, timeout_s)


def instrument(**kwargs: Any) -> ScouterInstrumentor:  # noqa: ANN401 - as for the method
    """Start sending spans; arguments as for `ScouterInstrumentor.instrument`."""
    return ScouterInstrumentor().instrument(**kwargs)


def uninstrument() -> None:
    """Stop sending spans."""
    ScouterInstrumentor().uninstrument()


def _find_provider(given: object) -> TracerProvider:
    """The provider to work on; made here if there is none."""
    provider = given if given is not None else trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        return provider
    if given is not None or not isinstance(provider, trace.ProxyTracerProvider):
        kind = type(provider).__name__
        raise ConfigError(
            f"tracer provider {kind}: Scouter needs one of the OpenTelemetry SDK "
            "(opentelemetry.sdk.trace.TracerProvider) to add its processor to"
        )
    made = RUNTIME.make_provider(None, ScouterTracerProvider)
    trace.set_tracer_provider(made)
    return made


def _ensure_propagation() -> None:
    """Set W3C propagation where the application has switched all propagation off."""
    if not propagate.get_global_textmap().fields:
        propagate.set_global_textmap(W3C)
