"""The tracing state of the process: one capture buffer, one census, one export, one queue."""

import threading
from typing import Final

from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, Sampler, TraceIdRatioBased

from scouter.errors import ConfigError
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.batch import BatchConfig
from scouter.tracing.capture import CAPTURE, SpanCapture
from scouter.tracing.census import TraceCensus
from scouter.tracing.export import SpanExport
from scouter.tracing.processor import ScouterSpanProcessor
from scouter.tracing.stamp import ResourceStamper
from scouter.transport.config import TransportConfig
from scouter.transport.fork import watch
from scouter.transport.worker import WorkerStats

DEFAULT_SERVICE: Final = "scouter_service"


class Runtime:
    """Everything that the tracers, processors and the instrumentor of a process share.

    Args:
        capture: Where captured spans go.
    """

    def __init__(self, capture: SpanCapture) -> None:
        self.capture = capture
        self.census = TraceCensus()
        self.stamper = ResourceStamper()
        self.export: SpanExport | None = None
        self.extra_processors: tuple[SpanProcessor, ...] = ()
        self.queue: ScouterQueue | None = None
        self.attached: TracerProvider | None = None
        """The provider that the instrumentor works on, while it does."""
        self.sample_ratio: float | None = None
        self._providers: dict[str, TracerProvider] = {}
        self._lock = threading.RLock()
        self.generation = 0
        """Grows when tracers have to look for their provider again."""

    # --- configuration ---

    def configure(
        self,
        *,
        transport_config: TransportConfig | None = None,
        exporter: SpanExporter | None = None,
        batch_config: BatchConfig | None = None,
        sample_ratio: float | None = None,
        queue: ScouterQueue | None = None,
        service_name: str | None = None,
    ) -> None:
        """Take over what is given and leave the rest as it is.

        A transport that differs from the one in force replaces it, after the spans on the old
        one's way are delivered. Without one, the queue's transport is used.

        Raises:
            ConfigError: The sample ratio is outside [0, 1].
        """
        if sample_ratio is not None and not 0.0 <= sample_ratio <= 1.0:
            raise ConfigError(f"sample_ratio {sample_ratio!r}: expected a number from 0 to 1")
        with self._lock:
            watch(self)
            if queue is not None:
                self.queue = queue
            if service_name:
                self.stamper.service_name = service_name
            if sample_ratio is not None and sample_ratio != self.sample_ratio:
                self.sample_ratio = sample_ratio
                self._providers.clear()
                self.generation += 1
            if self.queue is not None and self.sample_ratio is not None:
                self.queue.set_sample_ratio(self.sample_ratio)
            config = transport_config
            if config is None and queue is not None:
                config = queue.transport_config
            if config is not None:
                self._export_to(config, batch_config)
            if exporter is not None:
                self.extra_processors = (*self.extra_processors, BatchSpanProcessor(exporter))

    def _export_to(self, config: TransportConfig, batch_config: BatchConfig | None) -> None:
        old = self.export
        if old is not None and old.config == config and batch_config in (None, old.batch_config):
            return
        self.export = SpanExport(config, batch_config, self.stamper)
        if old is not None:
            old.close(5.0)

    def after_fork_in_child(self) -> None:
        """Make new locks and count anew: the parent's live traces are the parent's."""
        self._lock = threading.RLock()
        self.census.forget()

    # --- providers ---

    def sampler(self) -> Sampler | None:
        """The sampler of providers made here; None for OpenTelemetry's own default."""
        ratio = self.sample_ratio
        return None if ratio is None else ParentBased(TraceIdRatioBased(ratio))

    def make_provider(self, service_name: str | None) -> TracerProvider:
        """A provider that samples as Scouter is told; it has no processor, and no exit hook."""
        resource = Resource.create({SERVICE_NAME: service_name} if service_name else {})
        return TracerProvider(sampler=self.sampler(), resource=resource, shutdown_on_exit=False)

    def provider(self, service_name: str) -> TracerProvider:
        """The provider for a tracer: the instrumentor's while there is one, else one of ours."""
        with self._lock:
            if self.attached is not None:
                return self.attached
            provider = self._providers.get(service_name)
            if provider is None:
                provider = self.make_provider(service_name)
                provider.add_span_processor(ScouterSpanProcessor(self))
                self._providers[service_name] = provider
            return provider

    def attach(self, provider: TracerProvider | None) -> None:
        """Have all tracers use this provider; None: their own again."""
        with self._lock:
            self.attached = provider
            self.generation += 1

    # --- the end, and the sums ---

    def flush(self, timeout_s: float) -> bool:
        """Deliver what was queued so far; False if the time ran out."""
        export = self.export
        done = export is None or export.flush(timeout_s)
        for processor in self.extra_processors:
            done = processor.force_flush(int(timeout_s * 1000)) and done
        return done

    def shutdown(self, timeout_s: float) -> bool:
        """Deliver what was queued, then forget transport, queue and providers."""
        with self._lock:
            done = self.flush(timeout_s)
            export, self.export = self.export, None
            extra, self.extra_processors = self.extra_processors, ()
            self.queue = None
            self.sample_ratio = None
            self.stamper.service_name = None
            self._providers.clear()
            self.generation += 1
        for processor in extra:
            processor.shutdown()
        return (export is None or export.close(timeout_s)) and done

    @property
    def stats(self) -> WorkerStats:
        """Counters of the spans on their way; zeros without a transport."""
        export = self.export
        return WorkerStats() if export is None else export.stats


RUNTIME: Final = Runtime(CAPTURE)
"""The process' runtime; empty until something is configured."""
