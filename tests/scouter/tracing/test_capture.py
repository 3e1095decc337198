"""Captured spans stay in the process, scenario by scenario."""

import asyncio
import threading
from collections.abc import Sequence

import pytest
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext

from scouter.errors import ConfigError
from scouter.evaluate.scenario import EvalScenario
from scouter.model.attributes import SCENARIO_ID_MAX_CHARS
from scouter.model.record import EvalRecord
from scouter.model.span import Span
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.capture import (
    CAPTURE,
    SpanCapture,
    captured_spans,
    captured_spans_of_scenario,
    disable_local_span_capture,
    drain_local_span_capture,
    enable_local_span_capture,
)
from scouter.tracing.propagation import active_scenario, scenario_scope
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import flush_tracer, init_tracer
from scouter.transport.config import MockConfig
from scouter.transport.otlp import read_back
from tests.scouter.queue.profiles import profile
from tests.scouter.tracing.conftest import Captured


def test_captured_spans_are_not_sent() -> None:
    tracer = init_tracer(transport_config=MockConfig())
    enable_local_span_capture()
    with tracer.start_as_current_span("stored"):
        pass
    assert [span.name for span in captured_spans()] == ["stored"]
    assert flush_tracer()
    assert RUNTIME.stats.put == 0

    disable_local_span_capture()
    assert captured_spans() == []
    with tracer.start_as_current_span("sent"):
        pass
    assert flush_tracer()
    assert RUNTIME.stats.sent == 1
    assert captured_spans() == []


def test_reading_leaves_and_draining_takes(captured: Captured) -> None:
    tracer = init_tracer()
    with tracer.start_as_current_span("a") as first:
        pass
    with tracer.start_as_current_span("b"):
        pass

    assert [span.name for span in captured_spans([first.trace_id.upper()])] == ["a"]
    assert tracer.get_local_spans_by_trace_ids([first.trace_id])[0].name == "a"
    assert captured_spans() == captured_spans()
    assert [span.name for span in drain_local_span_capture()] == ["a", "b"]
    assert captured.names() == []


def test_the_tracers_own_methods() -> None:
    tracer = init_tracer()
    tracer.enable_local_capture()
    with tracer.start_as_current_span("a"):
        pass
    assert [span.name for span in tracer.drain_local_spans()] == ["a"]
    tracer.disable_local_capture()
    assert not CAPTURE.is_enabled


def test_the_buffer_is_bounded() -> None:
    small = SpanCapture(max_spans=3)
    enable_local_span_capture()
    tracer = init_tracer()
    with tracer.start_as_current_span("s"):
        pass
    (span,) = CAPTURE._spans  # pyright: ignore[reportPrivateUsage]
    assert not isinstance(span, tuple)
    small.enable()
    for _ in range(5):
        small.add(span)  # type: ignore[arg-type]

    assert len(small.spans()) == 3
    assert small.overflow == 2
    small.enable()
    assert (small.spans(), small.overflow) == ([], 0)


def test_each_scenario_has_its_own_spans_and_traces(captured: Captured) -> None:
    """Also where the caller has a span of its own around all of them."""
    tracer = init_tracer()
    with tracer.start_as_current_span("around"):
        for name in ("one", "two"):
            with scenario_scope(name):
                assert active_scenario() == name
                with (
                    tracer.start_as_current_span(f"{name} root"),
                    tracer.start_as_current_span(f"{name} child"),
                ):
                    pass
        assert active_scenario() is None
        with tracer.start_as_current_span("after"):
            pass

    one, two = captured_spans_of_scenario("one"), captured_spans_of_scenario("two")
    assert [span.name for span in one] == ["one child", "one root"]
    assert [span.name for span in two] == ["two child", "two root"]
    assert len({span.trace_id for span in captured_spans()}) == 3
    assert captured["one root"].parent_span_id is None
    assert captured["one child"].attributes == {"scouter.eval.scenario_id": "one"}
    assert captured["around"].attributes == {}
    assert captured["after"].parent_span_id == captured["around"].span_id


def test_no_span_is_made_for_the_scope(captured: Captured) -> None:
    with scenario_scope("quiet"):
        pass
    assert captured.names() == []


def test_concurrent_scenarios_do_not_mix(captured: Captured) -> None:
    """Spans and records of tasks that run at once, each in its own scope."""
    del captured
    queue = ScouterQueue.from_profile(profile("a"), MockConfig())
    queue.enable_capture()
    tracer = init_tracer(scouter_queue=queue)

    async def scenario(name: str) -> None:
        with scenario_scope(name):
            for step in range(3):
                await asyncio.sleep(0)
                with tracer.start_as_current_span(f"{name} {step}") as span:
                    await asyncio.sleep(0)
                    span.add_queue_item("a", EvalRecord({"of": name}))

    async def main() -> None:
        await asyncio.gather(*(scenario(f"s{n}") for n in range(10)))

    asyncio.run(main())
    for n in range(10):
        spans = captured_spans_of_scenario(f"s{n}")
        assert [span.name for span in spans] == [f"s{n} {step}" for step in range(3)]
        records = queue.drain_all_records(f"s{n}")["a"]
        assert [record.context for record in records] == [{"of": f"s{n}"}] * 3
        assert [record.trace_id for record in records] == [span.trace_id for span in spans]


def test_a_thread_takes_part_when_it_is_given_the_context(captured: Captured) -> None:
    """As everywhere in OpenTelemetry, a new thread starts with an empty context."""
    tracer = init_tracer()

    def work(name: str, inside: context.Context | None) -> None:
        token = context.attach(inside) if inside is not None else None
        with tracer.start_as_current_span(name):
            pass
        if token is not None:
            context.detach(token)

    with scenario_scope("s"), tracer.start_as_current_span("root"):
        for name, inside in (("with", context.get_current()), ("without", None)):
            thread = threading.Thread(target=work, args=(name, inside))
            thread.start()
            thread.join()

    assert captured["with"].attributes == {"scouter.eval.scenario_id": "s"}
    assert captured["with"].parent_span_id == captured["root"].span_id
    assert captured["without"].attributes == {}


def test_an_exception_leaves_the_scope_clean() -> None:
    with pytest.raises(ValueError, match="no"), scenario_scope("s"):
        raise ValueError("no")
    assert active_scenario() is None
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_a_scenario_needs_an_id() -> None:
    with pytest.raises(ConfigError, match="not empty"), scenario_scope(""):
        pass


def test_baggage_of_other_processes_is_not_trusted_with_any_length(captured: Captured) -> None:
    tracer = init_tracer()
    token = context.attach(baggage.set_baggage("scouter.eval.scenario_id", "x" * 10_000))
    with tracer.start_as_current_span("s"):
        pass
    context.detach(token)

    assert captured["s"].attributes == {}


def test_a_span_that_ends_while_the_spans_are_read_is_stored(
    captured: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a signal handler, or a generator that the garbage collector closes, may end one."""
    tracer = init_tracer()
    tracer.start_span("first").end()

    def reenter(spans: Sequence[ReadableSpan]) -> list[Span]:
        if spans[0].name == "first":
            tracer.start_span("second").end()
        return read_back(spans)

    monkeypatch.setattr("scouter.transport.otlp.read_back", reenter)
    names: list[str] = []
    reader = threading.Thread(target=lambda: names.extend(captured.names()), daemon=True)
    reader.start()
    reader.join(120)

    assert not reader.is_alive(), "deadlock"
    assert names == ["first"], "the other one comes with the next reading"
    assert [span.name for span in drain_local_span_capture()] == ["first", "second"]


def test_spans_of_several_libraries_stay_in_their_order() -> None:
    """The third ends at no time that OTLP can say, and is counted."""
    capture = SpanCapture()
    capture.enable()
    for n, end_ns in enumerate((2, 2, 2**70, 2, 2), start=1):
        scope = InstrumentationScope("odd" if n % 2 else "even")
        context = SpanContext(1, n, is_remote=False)
        capture.add(
            ReadableSpan(
                str(n), context, instrumentation_scope=scope, start_time=1, end_time=end_ns
            )
        )

    assert [span.name for span in capture.spans()] == ["1", "2", "4", "5"]
    assert [span.scope.name for span in capture.drain()] == ["odd", "even", "even", "odd"]
    assert (capture.failed, capture.spans()) == (1, [])


def test_the_longest_id_of_a_scenario_reaches_its_spans(captured: Captured) -> None:
    longest = "x" * SCENARIO_ID_MAX_CHARS
    EvalScenario(id=longest, initial_query="q")
    tracer = init_tracer()
    with scenario_scope(longest):
        tracer.start_span("inside").end()

    assert [span.name for span in captured_spans_of_scenario(longest)] == ["inside"]
    with pytest.raises(ConfigError, match="513 characters"), scenario_scope(longest + "x"):
        pass
