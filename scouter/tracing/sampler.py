"""The sampler of the providers that Scouter makes: asks the process' settings at each trace."""

from collections.abc import Sequence
from typing import Final

from opentelemetry.context import Context
from opentelemetry.sdk.trace import TracerProvider
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

from scouter.queue.sampling import Sampling
from scouter.tracing.capture import SpanCapture


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
