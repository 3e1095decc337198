"""The tracing state of the process: one capture buffer, one census, one export, one queue."""

import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final
from weakref import WeakSet

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter
from opentelemetry.sdk.trace.sampling import (
    ALWAYS_ON,
    Decision,
    ParentBased,
    Sampler,
    SamplingResult,
    TraceIdRatioBased,
)
from opentelemetry.trace import Link, SpanKind, TraceState
from opentelemetry.util.types import Attributes

from scouter.errors import ConfigError
from scouter.queue.sampling import Sampling
from scouter.queue.scouter_queue import ScouterQueue, make_redactor
from scouter.tracing.capture import CAPTURE, SpanCapture
from scouter.tracing.export import ExtraExporter, SpanExport
from scouter.tracing.limits import own_limits
from scouter.tracing.processor import ScouterSpanProcessor, TraceCensus
from scouter.tracing.stamp import ResourceStamper
from scouter.transport.process import watch
from scouter.transport.worker import WorkerStats

if TYPE_CHECKING:
    from scouter.queue.redaction import Redaction, Redactor
    from scouter.transport.config import BatchConfig, TransportConfig


class RuntimeSampler(Sampler):
    """Keeps everything while spans are captured, else the process' share of the traces.

    Args:
        sampling: The share; without one OpenTelemetry's own setting holds.
        capture: While it is enabled nothing is left out.
    """

    def __init__(self, sampling: Sampling, capture: SpanCapture) -> None:
        self._sampling: Final = sampling
        self._capture: Final = capture
        self._found: tuple[float | None, Sampler] = (None, _default())

    def should_sample(
        self,
        parent_context: Context | None,
        trace_id: int,
        name: str,
        kind: SpanKind | None = None,
        attributes: Attributes = None,
        links: Sequence[Link] | None = None,
        trace_state: TraceState | None = None,
    ) -> SamplingResult:
        """Decide for one span that is about to start."""
        is_captured = self._capture.is_enabled
        sampler = ALWAYS_ON if is_captured else self._by_ratio()
        result = sampler.should_sample(
            parent_context, trace_id, name, kind, attributes, links, trace_state
        )
        if not is_captured:
            self._sampling.note(trace_id, result.decision is Decision.RECORD_AND_SAMPLE)
        return result

    def get_description(self) -> str:
        """Name and share, for logs."""
        return f"RuntimeSampler{{{self._by_ratio().get_description()}}}"

    def _by_ratio(self) -> Sampler:
        ratio = self._sampling.ratio
        known, sampler = self._found
        if known != ratio:
            sampler = _default() if ratio is None else ParentBased(TraceIdRatioBased(ratio))
            self._found = ratio, sampler
        return sampler


def _default() -> Sampler:
    """Sampler that a provider uses by default; it reads OTEL_TRACES_SAMPLER."""
    return TracerProvider(shutdown_on_exit=False).sampler


DEFAULT_SERVICE: Final = "scouter_service"


class Runtime:
    """Everything that the tracers, processors and the instrumentor of a process share.

    Args:
        capture: Takes captured spans.
    """

    def __init__(self, capture: SpanCapture) -> None:
        self.capture = capture
        self.census = TraceCensus()
        self.stamper = ResourceStamper()
        self.export: SpanExport | None = None
        self.ended: SpanExport | None = None
        """The export that `shutdown` has closed: it counts the spans that come later."""
        self.sampling = Sampling()
        self._export_is_explicit = False  # the queue's transport does not replace it
        self._batch_config: BatchConfig | None = None
        self._exporters: dict[int, ExtraExporter] = {}
        self.extra_processors: tuple[SpanProcessor, ...] = ()
        self.queue: ScouterQueue | None = None
        self._queues: WeakSet[ScouterQueue] = WeakSet()
        """Queues of all tracers that have no redaction rules of their own."""
        self.redactor: Redactor | None = None
        """Rules of redaction for our copies of spans before they wait."""
        self.attached: TracerProvider | None = None
        """The provider that the instrumentor works on, while it does."""
        self._providers: dict[str, TracerProvider] = {}
        self._lock = threading.RLock()
        self.generation = 0
        """Grows when tracers have to look for their provider again."""

    # --- configuration ---

    def configure(
        self,
        *,
        transport_config: "TransportConfig | None" = None,
        exporter: SpanExporter | None = None,
        batch_config: "BatchConfig | None" = None,
        sample_ratio: float | None = None,
        queue: ScouterQueue | None = None,
        service_name: str | None = None,
        redaction: "Redaction | None" = None,
    ) -> None:
        """Take over what is given and leave the rest as it is.

        A transport that differs from the one in force replaces it, after the spans on the old
        one's way are delivered. Without one, the queue's transport is used, unless an earlier
        call named one. Redaction holds for spans and for the records of all tracers' queues alike,
        but a queue of `get_tracer` that has rules of its own keeps them; redaction that was given
        to the queue alone does, too.

        Raises:
            ConfigError: The sample ratio is outside [0, 1], or a rule of redaction is none.
        """
        if sample_ratio is not None and not 0.0 <= sample_ratio <= 1.0:
            raise ConfigError(f"sample_ratio {sample_ratio!r}: expected a number from 0 to 1")
        redactor = None if redaction is None else make_redactor(redaction)
        with self._lock:
            watch(self)
            self.ended = None
            if queue is not None:
                self.queue = queue
                self._take_over(queue)
            self._redact(redactor, queue)
            if service_name:
                self.stamper.service_name = service_name
            if sample_ratio is not None:
                self.sampling.ratio = sample_ratio
            if batch_config is not None:
                self._batch_config = batch_config
            self._export_to(transport_config, queue)
            if exporter is not None:
                self.add_exporter(exporter)

    def adopt(self, queue: ScouterQueue) -> None:
        """Have the queue of one tracer do as the process is set, now and later."""
        with self._lock:
            watch(self)
            self._take_over(queue)
            self._redact(None, queue if self.redactor is None else None)

    def _take_over(self, queue: ScouterQueue) -> None:
        queue.follow(self.sampling)
        if queue.redactor is None:
            self._queues.add(queue)

    def _redact(self, redactor: "Redactor | None", queue: ScouterQueue | None) -> None:
        if redactor is not None:
            self.redactor = redactor
        elif queue is not None and queue.redactor is not None:
            self.redactor = queue.redactor
        self.stamper.redactor = self.redactor
        if redactor is not None and self.queue is not None:
            self._queues.add(self.queue)  # its own rules hold no more
        for each in self._queues:
            if redactor is not None or each.redactor is None:
                each.redactor = self.redactor

    def _export_to(self, config: "TransportConfig | None", queue: ScouterQueue | None) -> None:
        old = self.export
        if config is not None:
            self._export_is_explicit = True
        elif queue is not None and not self._export_is_explicit:
            config = queue.transport_config
        elif old is not None:
            config = old.config  # the bounds may have changed
        if config is None:
            return
        from scouter.transport.config import BatchConfig  # a model, with which pydantic loads

        batch_config = self._batch_config or BatchConfig()
        if old is not None and old.config == config and old.batch_config == batch_config:
            return
        self.export = SpanExport(config, batch_config, self.stamper)
        if old is not None:
            old.close(5.0)

    def add_exporter(self, exporter: SpanExporter) -> bool:
        """Have another exporter get all spans; False if it does already."""
        with self._lock:
            if id(exporter) in self._exporters:
                return False
            self._exporters[id(exporter)] = ExtraExporter(exporter)
            self._note_exporters()
            return True

    def remove_exporter(self, exporter: SpanExporter, timeout_s: float) -> None:
        """Deliver what another exporter has still to get, and shut it down, in bounded time."""
        with self._lock:
            found = self._exporters.pop(id(exporter), None)
            self._note_exporters()
        if found is not None:
            found.close(timeout_s)

    def _note_exporters(self) -> None:
        self.extra_processors = tuple(each.processor for each in self._exporters.values())

    def after_fork_in_child(self) -> None:
        """Make new locks and count anew: the parent's live traces are the parent's."""
        self._lock = threading.RLock()
        self.census.forget()

    # --- providers ---

    def make_provider(
        self, service_name: str | None, kind: type[TracerProvider] = TracerProvider
    ) -> TracerProvider:
        """A provider that samples as Scouter is set, and keeps what the collector takes of a span.

        It has no processor, and no exit hook.
        """
        resource = Resource.create({SERVICE_NAME: service_name} if service_name else {})
        sampler = RuntimeSampler(self.sampling, self.capture)
        return kind(
            sampler=sampler, resource=resource, shutdown_on_exit=False, span_limits=own_limits()
        )

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
            is_foreign = provider is not None and not is_ours(provider)
            self.sampling.thins_spans = is_foreign
            self.attached = provider
            self.generation += 1

    # --- the end, and the sums ---

    def flush(self, timeout_s: float) -> bool:
        """Deliver what was queued so far; False if the time ran out.

        While spans are captured nothing is queued, and nobody waits for what was queued before.
        """
        export = self.export
        if self.capture.is_enabled:
            return export is None or export.stats.waiting == 0
        end_s = time.monotonic() + timeout_s
        done = export is None or export.flush(timeout_s)
        for each in tuple(self._exporters.values()):
            done = each.flush(max(0.0, end_s - time.monotonic())) and done
        return done

    def shutdown(self, timeout_s: float) -> bool:
        """Deliver what was queued, then forget transport, queue and providers."""
        with self._lock:
            done = self.flush(timeout_s)
            export = self.ended = self.export  # before it is taken away: none slips through
            self.export = None
            extra = tuple(self._exporters.values())
            self._exporters.clear()
            self._note_exporters()
            self.queue = None
            self.sampling.ratio = None
            self._export_is_explicit = False
            self._batch_config = None
            self._providers.clear()
            self.generation += 1
            if export is not None:
                done = export.close(timeout_s) and done
            # Not before: a span that is about to be put must find the rules. The export keeps its
            # stamper, as what it still tries to send is stamped anew.
            self.redactor = None
            self.stamper = ResourceStamper()
        for each in extra:
            each.close(timeout_s)
        return done

    @property
    def stats(self) -> WorkerStats:
        """Counters of the spans on their way, after `shutdown` too; zeros without a transport."""
        export = self.export or self.ended
        return WorkerStats() if export is None else export.stats


def is_ours(provider: TracerProvider) -> bool:
    """Tell whether a provider was made here, so that its sampler does what Scouter is set to."""
    return isinstance(provider.sampler, RuntimeSampler)


RUNTIME: Final = Runtime(CAPTURE)
"""The process' runtime; empty until something is configured."""
