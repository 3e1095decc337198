"""Exporters that can be named beside Scouter's own export: to OTLP, to the console, to a list."""

import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from io import TextIOBase
from typing import IO, Any, Final, cast

from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SpanExporter, SpanExportResult
from pydantic import BaseModel, ConfigDict, Field

from scouter.errors import ConfigError
from scouter.model.attributes import TAG_PREFIX
from scouter.model.span import Span
from scouter.queue.sampling import id_is_sampled
from scouter.transport.otlp import read_back
from scouter.transport.span_copy import plain_span


class OtelProtocol(StrEnum):
    """Encodings of OTLP over HTTP.

    There is no `HttpJson`: the exporter of OpenTelemetry for Python writes protobuf only.
    """

    HttpBinary = "HttpBinary"


class OtelExportConfig(BaseModel):
    """Settings of an OTLP exporter; OpenTelemetry's variables give the missing ones.

    Args:
        endpoint: Full address, such as `http://localhost:4318/v1/traces`.
        protocol: Encoding over HTTP.
        timeout: Seconds that one request may take.
        compression: `gzip`, `deflate` (HTTP only) or `none`.
        headers: Sent with each request.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    endpoint: str | None = None
    protocol: OtelProtocol = OtelProtocol.HttpBinary
    timeout: float | None = Field(default=None, gt=0)
    compression: str | None = None
    headers: dict[str, str] | None = None


class NamedExporter(SpanExporter):
    """An exporter with the two settings that Scouter's runtime looks at.

    Args:
        batch_export: False: each span is exported where it ends, on the thread that ends it.
        sample_ratio: Share of the traces that this exporter gets, in [0, 1]; all if not given.
        target: Target of the spans.

    Raises:
        ConfigError: The ratio is outside [0, 1].
    """

    def __init__(
        self, batch_export: bool, sample_ratio: float | None, target: SpanExporter
    ) -> None:
        if sample_ratio is not None and not 0.0 <= sample_ratio <= 1.0:
            raise ConfigError(f"sample_ratio {sample_ratio!r}: expected a number from 0 to 1")
        self.batch_export = batch_export
        self.sample_ratio = sample_ratio
        self._target = target

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export the spans of the traces that the ratio keeps."""
        ratio = self.sample_ratio
        if ratio is not None:
            spans = [span for span in spans if id_is_sampled(_trace_number(span), ratio)]
        if not spans:
            return SpanExportResult.SUCCESS
        return self._target.export([plain_span(span) for span in spans])

    def shutdown(self) -> None:
        """Stop."""
        self._target.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Deliver what the target holds back."""
        return self._target.force_flush(timeout_millis)


class HttpSpanExporter(NamedExporter):
    """OTLP protobuf over HTTP, by OpenTelemetry's own exporter.

    Args:
        batch_export: See `NamedExporter`.
        export_config: Settings of the exporter.
        sample_ratio: See `NamedExporter`.

    Raises:
        ConfigError: The extra `otlp` is not installed, or the compression is unknown.
    """

    def __init__(
        self,
        batch_export: bool = True,
        export_config: OtelExportConfig | None = None,
        sample_ratio: float | None = None,
    ) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http import Compression
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise ConfigError(_NOT_INSTALLED) from error
        config = export_config or OtelExportConfig()
        given = _given(config, {item.value: item for item in Compression})
        super().__init__(batch_export, sample_ratio, OTLPSpanExporter(**given))


class GrpcSpanExporter(NamedExporter):
    """OTLP over gRPC, by OpenTelemetry's own exporter; arguments as for `HttpSpanExporter`.

    A plain `http://` endpoint is spoken to without TLS.
    """

    def __init__(
        self,
        batch_export: bool = True,
        export_config: OtelExportConfig | None = None,
        sample_ratio: float | None = None,
    ) -> None:
        try:
            from grpc import Compression
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
        except ImportError as error:
            raise ConfigError(_NOT_INSTALLED) from error
        config = export_config or OtelExportConfig()
        known = {"none": Compression.NoCompression, "gzip": Compression.Gzip}
        given = _given(config, known)
        super().__init__(batch_export, sample_ratio, OTLPSpanExporter(**given))


class StdoutSpanExporter(NamedExporter):
    """Writes each span as JSON to the standard output; arguments as for `NamedExporter`."""

    def __init__(self, batch_export: bool = False, sample_ratio: float | None = None) -> None:
        super().__init__(
            batch_export, sample_ratio, ConsoleSpanExporter(out=cast("IO[str]", _Stdout()))
        )


class _Stdout(TextIOBase):
    """The standard output of the moment: a notebook or a test may have put another in its place."""

    def write(self, s: str) -> int:
        return sys.stdout.write(s)

    def flush(self) -> None:
        sys.stdout.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanTag:
    """A tag of a span, as `ScouterSpan.set_tag` sets it."""

    trace_id: str
    span_id: str
    key: str
    value: str


class TestSpanExporter(SpanExporter):
    """Keeps finished spans in a list, for tests.

    Args:
        batch_export: True: spans arrive with the next batch, at the latest at `flush_tracer`;
            False: where they end.
    """

    __test__ = False  # pytest takes every class of this name for a test

    def __init__(self, batch_export: bool = True) -> None:
        self.batch_export = batch_export
        self._lock = threading.Lock()
        self._spans: list[Span] = []

    @property
    def spans(self) -> list[Span]:
        """All spans so far, in the order of their ends."""
        with self._lock:
            return list(self._spans)

    @property
    def tags(self) -> list[SpanTag]:
        """The tags of all spans so far."""
        return [
            SpanTag(
                trace_id=span.trace_id,
                span_id=span.span_id,
                key=key.removeprefix(TAG_PREFIX),
                value=str(value),
            )
            for span in self.spans
            for key, value in span.attributes.items()
            if key.startswith(TAG_PREFIX)
        ]

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._spans.clear()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Keep the spans."""
        found = read_back(spans)
        with self._lock:
            self._spans += found
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        """Nothing is open; what was captured can still be read."""


_NOT_INSTALLED: Final = (
    "opentelemetry-exporter-otlp is not installed: pip install 'scouter-agents[otlp]'"
)


def _given(config: OtelExportConfig, compressions: dict[str, Any]) -> dict[str, Any]:
    """The settings that somebody gave, for an exporter of OpenTelemetry."""
    given: dict[str, Any] = {
        "endpoint": config.endpoint,
        "timeout": config.timeout,
        "headers": config.headers,
    }
    if config.compression is not None:
        if config.compression not in compressions:
            known = ", ".join(compressions)
            raise ConfigError(f"compression {config.compression!r}: expected one of {known}")
        given["compression"] = compressions[config.compression]
    return {key: value for key, value in given.items() if value is not None}


def _trace_number(span: ReadableSpan) -> int:
    context = span.get_span_context()
    return 0 if context is None else context.trace_id
