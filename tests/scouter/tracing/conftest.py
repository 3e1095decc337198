"""Each test starts with a process in which nothing is configured."""

from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from scouter.model.span import Span
from scouter.tracing.capture import CAPTURE
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.runtime import RUNTIME
from scouter.transport.guard import GUARD


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Raise internal errors; forget everything afterwards."""
    GUARD.strict = True
    GUARD.forget()
    yield
    if ScouterInstrumentor().is_instrumented:
        ScouterInstrumentor().uninstrument()
    CAPTURE.disable()
    RUNTIME.shutdown(5.0)
    GUARD.strict = False


class Captured:
    """The captured spans, by name."""

    def __getitem__(self, name: str) -> Span:
        (found,) = [span for span in CAPTURE.spans() if span.name == name]
        return found

    def names(self) -> list[str]:
        """Names in the order of their ends."""
        return [span.name for span in CAPTURE.spans()]


@pytest.fixture
def captured() -> Captured:
    """Capture mode, on."""
    CAPTURE.enable()
    return Captured()


class AppExporter(SpanProcessor):
    """The spans that an application's own exporter would see."""

    def __init__(self) -> None:
        self.spans: list[ReadableSpan] = []

    def on_end(self, span: ReadableSpan) -> None:
        self.spans.append(span)


@pytest.fixture
def app() -> tuple[TracerProvider, AppExporter]:
    """An application's own provider with its exporter."""
    provider, exporter = TracerProvider(shutdown_on_exit=False), AppExporter()
    provider.add_span_processor(exporter)
    return provider, exporter
