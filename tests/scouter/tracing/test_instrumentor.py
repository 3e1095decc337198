"""Scouter works beside whatever tracing an application already has."""

import subprocess
import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from scouter.errors import ConfigError
from scouter.model.attributes import ENTITY_PREFIX, PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.capture import CAPTURE
from scouter.tracing.instrumentor import ScouterInstrumentor, instrument, uninstrument
from scouter.tracing.propagation import active_profile, scenario_scope
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import (
    ScouterTracer,
    flush_tracer,
    get_tracer,
    init_tracer,
    shutdown_tracer,
)
from scouter.transport.config import HttpConfig, MockConfig
from scouter.transport.otlp import read_back
from tests.scouter.queue.profiles import profile
from tests.scouter.tracing.conftest import AppExporter, Captured
from tests.scouter.transport.receiver import run_receiver
from tests.support.processes import wait_until

App = tuple[TracerProvider, AppExporter]


def test_both_get_the_spans_and_the_applications_are_unchanged(app: App) -> None:
    provider, exporter = app
    mine = profile("a")
    with run_receiver() as receiver:
        instrumentor = ScouterInstrumentor().instrument(
            transport_config=HttpConfig(server_uri=receiver.uri),
            attributes={"team": "x"},
            eval_profiles=[mine],
            tracer_provider=provider,
        )
        with provider.get_tracer("lib").start_as_current_span("root", attributes={"a": 1}):
            pass
        instrumentor.uninstrument()
        (ours,) = receiver.spans()

    (theirs,) = exporter.spans
    (plain,) = read_back([theirs])
    assert plain.attributes == {"a": 1}
    assert PROCESS_ID not in plain.resource.attributes
    assert ours.attributes == {
        "a": 1,
        "team": "x",
        f"scouter.entity.{mine.uid}": mine.uid,
        PROCESS_SPAN_COUNT: 1,
    }
    assert (ours.span_id, ours.start_ns, ours.end_ns) == (
        plain.span_id,
        plain.start_ns,
        plain.end_ns,
    )


def test_uninstrument_detaches_and_instrument_works_again(app: App) -> None:
    provider, exporter = app
    tracer = provider.get_tracer("lib")
    instrumentor = ScouterInstrumentor()
    with run_receiver() as receiver:
        config = HttpConfig(server_uri=receiver.uri)
        for turn in ("first", "second"):
            instrumentor.instrument(transport_config=config, tracer_provider=provider)
            assert instrumentor.is_instrumented
            tracer.start_span(f"{turn} in").end()
            instrumentor.uninstrument()
            assert not instrumentor.is_instrumented
            tracer.start_span(f"{turn} out").end()
        assert flush_tracer(20)
        names = [span.name for span in receiver.spans()]

    assert names == ["first in", "second in"]
    assert len(exporter.spans) == 4


def test_our_tracer_uses_the_instrumented_provider_whichever_came_first(app: App) -> None:
    provider, exporter = app
    before = init_tracer("early", transport_config=MockConfig())
    with before.start_as_current_span("before"):
        pass
    instrumentor = ScouterInstrumentor().instrument(tracer_provider=provider)
    after = init_tracer("late")
    with before.start_as_current_span("one"), after.start_as_current_span("two"):
        pass
    instrumentor.uninstrument()
    with before.start_as_current_span("alone"):
        pass
    assert flush_tracer(20)

    assert [span.name for span in exporter.spans] == ["two", "one"]
    assert RUNTIME.stats.sent == 4


def test_captured_spans_of_an_application(app: App, captured: Captured) -> None:
    provider, exporter = app
    instrument(tracer_provider=provider, attributes={"team": "x"}, transport_config=MockConfig())
    with scenario_scope("s"), provider.get_tracer("lib").start_as_current_span("work"):
        pass
    uninstrument()

    assert captured["work"].attributes == {"team": "x", "scouter.eval.scenario_id": "s"}
    assert "team" not in (exporter.spans[0].attributes or {})
    assert RUNTIME.stats.put == 0


def test_baggage_can_be_left_alone(app: App, captured: Captured) -> None:
    provider, _ = app
    instrument(tracer_provider=provider, propagate_baggage=False)
    with scenario_scope("s"), provider.get_tracer("lib").start_as_current_span("work"):
        pass

    assert captured["work"].attributes == {}


def test_spans_and_records_agree_on_sampling_beside_an_application(app: App) -> None:
    """The application's sampler keeps all; Scouter keeps half of the traces, both parts of each."""
    provider, exporter = app
    with run_receiver() as receiver:
        config = HttpConfig(server_uri=receiver.uri)
        queue = ScouterQueue.from_profile(profile("a"), config)
        instrument(scouter_queue=queue, sample_ratio=0.5, tracer_provider=provider)
        tracer = init_tracer()
        for n in range(200):
            with tracer.start_as_current_span("s") as span:
                span.add_queue_item("a", EvalRecord({"n": n}))
        assert flush_tracer(20)
        assert queue.flush(20)
        span_traces = {span.trace_id for span in receiver.spans()}
        record_traces = {record["trace_id"] for record in receiver.records()}
        queue.shutdown()

    assert span_traces == record_traces
    assert 50 < len(span_traces) < 150
    assert len(exporter.spans) == 200
    assert queue.stats.dropped == {"sampled": 200 - len(record_traces)}
    assert RUNTIME.stats.dropped == {"sampled": 200 - len(span_traces)}
    assert RUNTIME.stats.put == 200


def test_a_record_by_trace_id_is_stored_beside_a_sampler_that_refused_the_trace() -> None:
    """As the page says: what an application's own sampler decides is known by the span only."""
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    with run_receiver() as receiver:
        queue = ScouterQueue.from_profile(profile("a"), HttpConfig(server_uri=receiver.uri))
        instrument(scouter_queue=queue, tracer_provider=provider)
        with provider.get_tracer("lib").start_as_current_span("s") as span:
            queue["a"].insert(EvalRecord({"n": 1}))
        trace_id = f"{span.get_span_context().trace_id:032x}"
        queue["a"].insert(EvalRecord({"n": 2}, trace_id=trace_id))
        assert queue.flush(20)
        assert [record["context"] for record in receiver.records()] == [{"n": 2}]
        assert queue.stats.dropped == {"sampled": 1}
        queue.shutdown()


def test_spans_and_records_agree_on_sampling_by_our_own_provider() -> None:
    with run_receiver() as receiver:
        queue = ScouterQueue.from_profile(profile("a"), HttpConfig(server_uri=receiver.uri))
        tracer = init_tracer(scouter_queue=queue, sample_ratio=0.5)
        for n in range(200):
            with tracer.start_as_current_span("s") as span:
                span.add_queue_item("a", EvalRecord({"n": n}))
        assert flush_tracer(20)
        assert queue.flush(20)
        span_traces = {span.trace_id for span in receiver.spans()}
        record_traces = {record["trace_id"] for record in receiver.records()}
        queue.shutdown()

    assert span_traces == record_traces
    assert 50 < len(span_traces) < 150


def test_another_exporter_gets_all_spans_too(app: App) -> None:
    provider, _ = app
    extra = InMemorySpanExporter()
    instrument(exporter=extra, tracer_provider=provider)
    provider.get_tracer("lib").start_span("s").end()
    uninstrument()
    provider.get_tracer("lib").start_span("after").end()

    assert [span.name for span in extra.get_finished_spans()] == ["s"]


def test_instrumenting_twice_changes_nothing(app: App, caplog: pytest.LogCaptureFixture) -> None:
    provider, _ = app
    first = instrument(tracer_provider=provider, transport_config=MockConfig())
    second = instrument(tracer_provider=provider)
    provider.get_tracer("lib").start_span("s").end()
    flush_tracer(20)

    assert first is second
    assert "already instrumented" in caplog.text
    assert RUNTIME.stats.sent == 1


def test_a_provider_of_another_kind_is_refused() -> None:
    class Other(trace.TracerProvider):
        def get_tracer(self, *_: Any, **__: Any) -> trace.Tracer:
            return trace.NoOpTracer()

    with pytest.raises(ConfigError, match="Other: Scouter needs one of the OpenTelemetry SDK"):
        ScouterInstrumentor().instrument(tracer_provider=Other())  # type: ignore[arg-type]
    assert not ScouterInstrumentor().is_instrumented


def run(code: str) -> str:
    """Run a program in a process of its own, where the global provider is still free."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_without_a_provider_one_is_made_and_set_globally() -> None:
    code = """
from opentelemetry import trace
from scouter.tracing import ScouterInstrumentor, captured_spans, enable_local_span_capture
foreign = trace.get_tracer("made before")
instrumentor = ScouterInstrumentor().instrument()
enable_local_span_capture()
with foreign.start_as_current_span("a"), trace.get_tracer("b").start_as_current_span("b"):
    pass
instrumentor.uninstrument()
foreign.start_span("not seen").end()
print([span.name for span in captured_spans()])
instrumentor.instrument()
foreign.start_span("again").end()
print([span.name for span in captured_spans()])
"""
    assert run(code) == "['b', 'a']\n['b', 'a', 'again']\n"


def test_importing_starts_and_registers_nothing() -> None:
    code = """
import threading
from opentelemetry import trace
before = trace._TRACER_PROVIDER
import scouter.tracing, scouter.queue, scouter.transport
from scouter.tracing import ScouterInstrumentor, init_tracer
from scouter.queue import ScouterQueue
from scouter.transport import HttpConfig, KafkaConfig
HttpConfig(); KafkaConfig()
tracer = init_tracer()
assert trace._TRACER_PROVIDER is before is None
assert threading.active_count() == 1
import sys
print(sorted({"httpx", "kafka"} & set(sys.modules)))
"""
    assert run(code) == "[]\n"


def test_an_application_that_exports_on_its_own_keeps_doing_so() -> None:
    """The global provider of the application stays, with its simple exporter first in line."""
    code = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
own = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(own))
trace.set_tracer_provider(provider)
from scouter.tracing import ScouterInstrumentor, captured_spans, enable_local_span_capture
ScouterInstrumentor().instrument()
enable_local_span_capture()
assert trace.get_tracer_provider() is provider
trace.get_tracer("lib").start_span("s").end()
print([s.name for s in own.get_finished_spans()], [s.name for s in captured_spans()])
"""
    assert run(code) == "['s'] ['s']\n"


def test_the_simple_processor_of_opentelemetry_accepts_our_spans(app: App) -> None:
    """A tracer of ours on an application's provider: its exporter sees plain SDK spans."""
    provider, _ = app
    own = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(own))
    instrument(tracer_provider=provider)
    with init_tracer().start_as_current_span("s") as span:
        span.set_input({"q": 1})

    (seen,) = own.get_finished_spans()
    assert dict(seen.attributes or {}) == {"scouter.tracing.input": '{"q":1}'}


@pytest.mark.parametrize("first", ["instrument", "init_tracer"])
def test_the_ratio_of_the_last_call_holds_for_spans_and_records(first: str) -> None:
    """One call says nothing, the other everything; afterwards, in whatever order, all stay."""
    with run_receiver() as receiver:
        queue = ScouterQueue.from_profile(profile("a"), HttpConfig(server_uri=receiver.uri))
        provider = RUNTIME.make_provider(None)
        if first == "instrument":
            instrument(scouter_queue=queue, sample_ratio=0.0, tracer_provider=provider)
            tracer = init_tracer()
        else:
            tracer = init_tracer(scouter_queue=queue, sample_ratio=0.0)
            instrument(tracer_provider=provider)
        _work(tracer, 5)
        init_tracer(sample_ratio=1.0)
        _work(tracer, 7)
        assert flush_tracer(20)
        assert queue.flush(20)
        assert (len(receiver.spans()), len(receiver.records())) == (7, 7)
        queue.shutdown()


def test_a_ratio_of_zero_can_be_taken_back(app: App) -> None:
    for provider in (RUNTIME.make_provider(None), app[0]):
        with run_receiver() as receiver:
            queue = ScouterQueue.from_profile(profile("a"), HttpConfig(server_uri=receiver.uri))
            tracer = init_tracer(scouter_queue=queue)
            instrument(scouter_queue=queue, sample_ratio=0.0, tracer_provider=provider)
            _work(tracer, 3)
            uninstrument()
            instrument(sample_ratio=1.0, tracer_provider=provider)
            _work(tracer, 4)
            assert flush_tracer(20)
            assert queue.flush(20)
            assert (len(receiver.spans()), len(receiver.records())) == (4, 4)
            uninstrument()
            queue.shutdown()
            RUNTIME.shutdown(5.0)


@pytest.mark.parametrize("insert", ["queue", "span"])
def test_a_sampled_remote_parent_keeps_span_and_record(insert: str) -> None:
    """The caller's decision stands against a ratio of 0, in either direction."""
    with run_receiver() as receiver:
        queue = ScouterQueue.from_profile(profile("a"), HttpConfig(server_uri=receiver.uri))
        tracer = init_tracer(scouter_queue=queue, sample_ratio=0.0)
        for sampled in (True, False):
            with tracer.start_as_current_span(
                "s", trace_id="f" * 32, span_id="1" * 16, remote_sampled=sampled
            ) as span:
                if insert == "span":
                    span.add_queue_item("a", EvalRecord({"n": 1}))
                else:
                    queue["a"].insert(EvalRecord({"n": 1}))
        assert flush_tracer(20)
        assert queue.flush(20)
        assert (len(receiver.spans()), len(receiver.records())) == (1, 1)
        queue.shutdown()


@pytest.mark.parametrize("ratio", [None, 0.0, 0.5, 1.0])
def test_a_record_that_comes_after_its_trace_is_stored_as_the_spans_were(
    ratio: float | None,
) -> None:
    """The caller's decision is remembered; also while another span is the current one."""
    low, high = "0" * 31 + "1", "f" * 32
    with run_receiver() as receiver:
        queue = ScouterQueue.from_profile(profile("a"), HttpConfig(server_uri=receiver.uri))
        tracer = init_tracer(scouter_queue=queue, sample_ratio=ratio)
        for trace_id, sampled in ((low, False), (high, True)):
            tracer.start_span("s", trace_id=trace_id, span_id="1" * 16, remote_sampled=sampled)
            queue["a"].insert(EvalRecord({"n": 1}, trace_id=trace_id))
            queue["a"].insert_for_trace(EvalRecord({"n": 1}), trace_id)
            with tracer.start_as_current_span("other"):
                queue["a"].insert(EvalRecord({"n": 1}, trace_id=trace_id))
        assert flush_tracer(20)  # else the spans' last chance is a receiver that is gone
        assert queue.flush(20)
        assert [record["trace_id"] for record in receiver.records()] == [high] * 3
        queue.shutdown()


def test_everything_is_captured_whatever_the_ratio(captured: Captured) -> None:
    tracer = init_tracer(sample_ratio=0.0)
    tracer.start_span("root").end()
    tracer.start_span("t", trace_id="f" * 32, span_id="1" * 16, remote_sampled=False).end()

    assert captured.names() == ["root", "t"]
    CAPTURE.disable()
    assert not tracer.start_span("later").is_recording()


def test_exporters_do_not_pile_up(app: App) -> None:
    """Each round gives its span to its own exporter only, which is shut down at its end."""
    provider, _ = app
    exporters = [_ShutExporter() for _ in range(3)]
    for n, exporter in enumerate(exporters):
        instrument(exporter=exporter, tracer_provider=provider)
        provider.get_tracer("lib").start_span(f"s{n}").end()
        uninstrument()
        assert RUNTIME.extra_processors == ()

    assert [exporter.names for exporter in exporters] == [["s0"], ["s1"], ["s2"]]
    assert [exporter.shut for exporter in exporters] == [1, 1, 1]


def test_the_same_exporter_twice_gets_each_span_once() -> None:
    exporter = _ShutExporter()
    tracer = init_tracer(exporter=exporter)
    init_tracer(exporter=exporter)
    tracer.start_span("s").end()

    assert flush_tracer(20)
    assert exporter.names == ["s"]


def test_another_exporter_gets_nothing_while_spans_are_captured(captured: Captured) -> None:
    exporter = _ShutExporter()
    tracer = init_tracer(exporter=exporter)
    tracer.start_span("stored").end()
    CAPTURE.disable()
    tracer.start_span("sent").end()

    assert flush_tracer(20)
    assert exporter.names == ["sent"]


def test_no_flush_waits_longer_for_another_exporter_than_requested() -> None:
    """OpenTelemetry's own processor waits as long as the exporter takes."""
    go_on = threading.Event()

    class Hanging(_ShutExporter):
        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            assert go_on.wait(120)
            return super().export(spans)

    exporter = Hanging()
    init_tracer(exporter=exporter).start_span("s").end()

    assert not flush_tracer(0.05)
    assert not shutdown_tracer(0.05)
    go_on.set()
    wait_until(lambda: exporter.names == ["s"], what="what waited is exported")


class _ShutExporter(SpanExporter):
    def __init__(self) -> None:
        self.names: list[str] = []
        self.shut = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.names.extend(span.name for span in spans)
        return SpanExportResult.SUCCESS

    def shutdown(self) -> None:
        self.shut += 1


def _work(tracer: ScouterTracer, count: int) -> None:
    for n in range(count):
        with tracer.start_as_current_span("s") as span:
            span.add_queue_item("a", EvalRecord({"n": n}))


def test_the_first_profile_stands_where_none_is_active(app: App, captured: Captured) -> None:
    """Our copy carries it; `active_profile` and `set_entity` name another one instead."""
    first, second = profile("a"), profile("b")
    provider, exporter = app
    ScouterInstrumentor().instrument(tracer_provider=provider, eval_profiles=[first, second])
    tracer = get_tracer("t")

    provider.get_tracer("lib").start_span("none").end()
    with active_profile(second), tracer.start_as_current_span("active"):
        pass
    with tracer.start_as_current_span("set") as span:
        span.set_entity("other")

    def marks(name: str) -> set[str]:
        return {key for key in captured[name].attributes if key.startswith(ENTITY_PREFIX)}

    assert marks("none") == {ENTITY_PREFIX + first.uid}
    assert marks("active") == {ENTITY_PREFIX + second.uid}
    assert marks("set") == {ENTITY_PREFIX + "other"}
    assert not exporter.spans[0].attributes


def test_capture_under_the_tracers_names(app: App) -> None:
    instrumentor = ScouterInstrumentor().instrument(tracer_provider=app[0])
    instrumentor.enable_local_capture()
    span = get_tracer("t").start_span("a")
    span.end()

    trace_id = f"{span.get_span_context().trace_id:032x}"
    assert [each.name for each in instrumentor.get_local_spans_by_trace_ids([trace_id])] == ["a"]
    assert instrumentor.get_local_spans_by_trace_ids(["no id"]) == []
    assert [each.name for each in instrumentor.drain_local_spans()] == ["a"]
    instrumentor.disable_local_capture()
    assert instrumentor.drain_local_spans() == []
