"""Cost of Scouter for the agent over real HTTP: `python -m tests.bench.sdk_http`.

The blocks take turns as in `tests.bench.sdk`, but the real exporters send: OpenTelemetry's own
`OTLPSpanExporter` behind its batch processor, as it is by default and with gzip, and Scouter's
`HttpConfig`. All send to one server in another process, which throws the bytes away and whose
processor time is in no figure. A second kind of span carries the 2.3 kB of text of a chat, other
text in each one: compression costs most there.
"""

import platform
import random
import sys
import tempfile
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import cycle
from pathlib import Path
from typing import Final

from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Tracer

from scouter.tracing.processor import ScouterSpanProcessor
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import flush_tracer
from scouter.transport.config import HttpConfig
from tests.bench.collector import Texts
from tests.bench.figures import ROOT, Figures
from tests.bench.sdk import ATTRIBUTES, Setup, add_bounded, in_turns, show, spans_of, trace_of
from tests.support.processes import ManagedProcess, wait_until

_QUEUE: Final = 100_000
"""Spans that a stock processor may hold; with its default it would lose some of a block."""
OURS: Final = "Scouter over HTTP"
FORMS: Final = {"plain": Compression.NoCompression, "gzip": Compression.Gzip}
"""The stock exporter's default, and with compression."""


class Sink(BaseHTTPRequestHandler):
    """Takes every request, over connections that stay open."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        pass


def serve(ready: Path) -> None:
    """Serve until the process is ended; the file tells the port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Sink)
    ready.with_suffix(".new").write_text(str(server.server_port))
    ready.with_suffix(".new").rename(ready)
    server.serve_forever()


@contextmanager
def sink_apart() -> Generator[str]:
    """A sink in a process of its own; its address."""
    with tempfile.TemporaryDirectory(prefix="scouter-bench-") as name:
        ready = Path(name) / "port"
        command = [sys.executable, "-m", "tests.bench.sdk_http", "--serve", ready]
        process = ManagedProcess(command, log=Path(name) / "log", cwd=ROOT)
        try:
            wait_until(ready.exists, what="the sink")
            yield f"http://127.0.0.1:{ready.read_text()}"
        finally:
            process.stop()


def chats_of(tracer: Tracer) -> Callable[[], None]:
    """One span with the messages of a chat, cut out of a long text as the collector's are."""
    texts = Texts(random.Random(5))
    messages = cycle([(texts(1_600), texts(740)) for _ in range(5_000)])

    def work() -> None:
        asked, answered = next(messages)
        with tracer.start_as_current_span("chat gpt-5-mini", attributes=ATTRIBUTES) as span:
            span.set_attribute("gen_ai.input.messages", asked)
            span.set_attribute("gen_ai.output.messages", answered)

    return work


def stock_processor(address: str, form: Compression) -> BatchSpanProcessor:
    """OpenTelemetry's own, as its documents set it up."""
    exporter = OTLPSpanExporter(f"{address}/v1/traces", compression=form)
    return BatchSpanProcessor(exporter, max_queue_size=_QUEUE)


def tracers(address: str) -> dict[str, tuple[Tracer, Callable[[], object]]]:
    """All that are compared, each with what delivers everything."""
    RUNTIME.configure(transport_config=HttpConfig(server_uri=address))
    found: dict[str, tuple[Tracer, Callable[[], object]]] = {}

    def add(name: str, *stock: BatchSpanProcessor, has_ours: bool = False) -> None:
        provider = TracerProvider(sampler=ALWAYS_ON, shutdown_on_exit=False)
        for processor in stock:
            provider.add_span_processor(processor)
        if has_ours:
            provider.add_span_processor(ScouterSpanProcessor(RUNTIME))

        def flush() -> None:
            for processor in stock:
                assert processor.force_flush()
            assert not has_ours or flush_tracer(60)

        found[name] = provider.get_tracer("x"), flush

    add(OURS, has_ours=True)
    for form, compression in FORMS.items():
        add(f"stock, {form}", stock_processor(address, compression))
        two = [stock_processor(address, compression) for _ in "ab"]
        add(f"two stock, {form}", *two)
        add(f"stock, {form} + Scouter", stock_processor(address, compression), has_ours=True)
    return found


def run(address: str, rounds: int, count: int, figures: Figures) -> None:
    """Measure three kinds of spans."""
    all_tracers = tracers(address)
    for title, work_of, spans in (
        ("one span", spans_of, 1),
        ("trace of five", trace_of, 5),
        ("chat of 2.3 kB", chats_of, 1),
    ):
        setups = {name: Setup(work_of(each), flush) for name, (each, flush) in all_tracers.items()}
        blocks = in_turns(setups, rounds, count // spans)
        show(title, blocks, "stock, plain")
        for form in FORMS:
            names = OURS, f"stock, {form}", f"stock, {form} + Scouter", f"two stock, {form}"
            add_bounded(figures, f"{title}, {form}", blocks, names, spans)
    stats = RUNTIME.stats
    print(f"spans: {stats.put} put, {stats.sent} sent, dropped {stats.dropped or 'none'}")
    figures.add("Scouter's spans that did not arrive", stats.put - stats.sent, at_most=0)


def main() -> int:
    """Run all parts; `--short` for a quick look."""
    if "--serve" in sys.argv:
        serve(Path(sys.argv[-1]))
        return 0
    is_short = "--short" in sys.argv
    figures = Figures("sdk_http", is_short=is_short)
    rounds, count = (2, 500) if is_short else (40, 2_000)
    print(f"Python {platform.python_version()} on {platform.machine()}, {rounds} rounds of {count}")
    with sink_apart() as address:
        run(address, rounds, count, figures)
        RUNTIME.shutdown(5)
    return figures.end()


if __name__ == "__main__":
    sys.exit(main())
