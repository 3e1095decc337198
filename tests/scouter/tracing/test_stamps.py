"""The number of spans that a process started in a trace: stated on our copy only."""

import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.span import Span
from scouter.tracing.processor import TraceCensus
from scouter.tracing.stamp import ResourceStamper, StampedSpan
from scouter.tracing.tracer import flush_tracer, init_tracer
from scouter.transport.config import HttpConfig
from scouter.transport.otlp import read_back
from scouter.transport.process import process_id
from tests.scouter.tracing.conftest import AppExporter
from tests.scouter.transport.receiver import Receiver, run_receiver


def sent(receiver: Receiver) -> dict[str, Span]:
    """The spans that have arrived, by name."""
    assert flush_tracer(20)
    return {span.name: span for span in receiver.spans()}


def test_a_local_root_says_how_many_spans_there_are() -> None:
    """Root, two children, one grandchild: four; only the root says so."""
    with run_receiver() as receiver:
        tracer = init_tracer("shop", transport_config=HttpConfig(server_uri=receiver.uri))
        with tracer.start_as_current_span("root"):
            with tracer.start_as_current_span("a"), tracer.start_as_current_span("aa"):
                pass
            with tracer.start_as_current_span("b"):
                pass
        spans = sent(receiver)

    assert spans["root"].attributes == {PROCESS_SPAN_COUNT: 4}
    assert [spans[name].attributes for name in ("a", "aa", "b")] == [{}, {}, {}]
    assert all(s.resource.attributes[PROCESS_ID] == process_id() for s in spans.values())
    assert spans["a"].resource.service_name == "shop"


def test_each_root_of_a_trace_counts_what_came_since_the_last() -> None:
    """A server that is called twice within one trace: 2 and 3 spans, 5 in all."""
    headers = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
    with run_receiver() as receiver:
        tracer = init_tracer(transport_config=HttpConfig(server_uri=receiver.uri))
        for call, children in (("first", 1), ("second", 2)):
            with tracer.start_as_current_span(call, headers=headers):
                for n in range(children):
                    with tracer.start_as_current_span(f"{call} {n}"):
                        pass
        spans = sent(receiver)

    assert spans["first"].attributes[PROCESS_SPAN_COUNT] == 2
    assert spans["second"].attributes[PROCESS_SPAN_COUNT] == 3


def test_concurrent_roots_of_a_trace_add_up() -> None:
    """Whichever ends first, the sum is the number of spans."""
    headers = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-01"}
    barrier = threading.Barrier(4)
    with run_receiver() as receiver:
        tracer = init_tracer(transport_config=HttpConfig(server_uri=receiver.uri))

        def call(n: int) -> None:
            with tracer.start_as_current_span(f"root {n}", headers=headers):
                barrier.wait(120)
                with tracer.start_as_current_span(f"child {n}"):
                    pass

        threads = [threading.Thread(target=call, args=(n,)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        spans = sent(receiver)

    counts = [span.attributes.get(PROCESS_SPAN_COUNT, 0) for span in spans.values()]
    assert sum(int(str(count)) for count in counts) == len(spans) == 8


def test_the_original_is_not_touched(app: tuple[TracerProvider, AppExporter]) -> None:
    provider, exporter = app
    with provider.get_tracer("x").start_as_current_span("s", attributes={"a": 1}) as span:
        span.add_event("e")
    (original,) = exporter.spans
    before = read_back([original])

    copy = StampedSpan(original, Resource({"r": 1}), {"b": 2})

    assert read_back([original]) == before
    assert dict(copy.attributes or {}) == {"a": 1, "b": 2}
    assert dict(copy.resource.attributes) == {"r": 1}
    assert (copy.name, copy.start_time, len(copy.events)) == ("s", original.start_time, 1)
    assert copy.get_span_context() is original.get_span_context()


def test_dropped_attributes_are_still_reported() -> None:
    from opentelemetry.sdk.trace import SpanLimits

    exporter = AppExporter()
    provider = TracerProvider(span_limits=SpanLimits(max_span_attributes=2), shutdown_on_exit=False)
    provider.add_span_processor(exporter)
    span = provider.get_tracer("x").start_span("s")
    for n in range(5):
        span.set_attribute(f"a{n}", n)
    span.end()

    assert StampedSpan(exporter.spans[0], None, {"x": 1}).dropped_attributes == 3


def test_resources_are_stamped_once_and_named_where_they_have_no_name() -> None:
    stamper = ResourceStamper()
    stamper.service_name = "shop"
    unnamed, named = Resource.create({}), Resource.create({"service.name": "own"})

    assert stamper(unnamed) is stamper(unnamed)
    assert stamper(unnamed).attributes["service.name"] == "shop"
    assert stamper(named).attributes["service.name"] == "own"
    assert stamper(named).attributes[PROCESS_ID] == process_id()
    assert PROCESS_ID not in named.attributes
    assert ResourceStamper()(unnamed).attributes["service.name"] != "shop"
    stamper.service_name = "other"
    assert stamper(unnamed).attributes["service.name"] == "other"


# --- the census ---


def test_the_census_is_bounded_and_forgets_rather_than_lies() -> None:
    """Three traces where two fit: the first one's root gets no number."""
    census = TraceCensus(max_traces=2)
    for trace_id in (1, 2, 3):
        census.started(trace_id, True)

    assert len(census.live) == 2
    census.started(1, False)  # a child of the forgotten trace: nothing to build on
    assert census.local_root_ended(1) is None
    assert census.local_root_ended(3) == 1
    census.started(4, True)
    census.started(4, False)
    assert census.local_root_ended(4) == 2
    assert census.local_root_ended(4) is None


def test_roots_without_a_parent_are_bounded_too() -> None:
    """Their children hold the room; once something was forgotten only announced roots count."""
    census = TraceCensus(max_traces=2)
    census.started(1, False)
    assert census.root_ended(1) == 2
    assert census.root_ended(1) == 1  # another trace of one span
    for trace_id in (2, 3, 4):
        census.started(trace_id, False)

    assert census.has_forgotten
    assert census.root_ended(2) is None
    assert census.root_ended(3) == 2
    census.started(5, False)  # of a root that nobody announced
    assert census.root_ended(5) is None
    assert census.root_ended(4) == 2
    census.root_started(6)
    census.started(6, False)
    assert census.root_ended(6) == 2
    census.root_started(7)
    assert census.root_ended(7) == 1
    assert census.root_ended(8) is None
    assert len(census.live) == 0


def test_late_children_count_for_the_next_root() -> None:
    census = TraceCensus()
    census.started(1, True)
    assert census.local_root_ended(1) == 1
    census.started(1, False)
    census.started(1, True)
    assert census.local_root_ended(1) == 2
    census.started(1, False)
    assert census.root_ended(1) == 2


@given(st.lists(st.tuples(st.integers(1, 3), st.sampled_from(["start", "end", "root"]))))
def test_nothing_is_counted_twice(steps: list[tuple[int, str]]) -> None:
    """Starts and ends of roots in any order: what the roots say is exactly what started."""
    census = TraceCensus()
    started: dict[int, int] = {1: 0, 2: 0, 3: 0}
    counts = dict(started)
    for trace_id, step in steps:
        if step == "start":
            census.started(trace_id, True)
            started[trace_id] += 1
        elif step == "root":
            started[trace_id] += 1
            counts[trace_id] += census.root_ended(trace_id) or 0
        else:
            counts[trace_id] += census.local_root_ended(trace_id) or 0
    for trace_id in (1, 2, 3):
        counts[trace_id] += census.local_root_ended(trace_id) or 0

    assert counts == started
    assert len(census.live) == 0


def test_state_does_not_leak() -> None:
    from scouter.tracing.runtime import RUNTIME
    from scouter.transport.config import MockConfig

    tracer = init_tracer(transport_config=MockConfig())
    before = len(RUNTIME.census.live)
    for _ in range(500):
        with tracer.start_as_current_span("root"), tracer.start_as_current_span("child"):
            pass
    assert len(RUNTIME.census.live) == before


@pytest.mark.parametrize("sampled", [True, False])
def test_only_sampled_spans_count(sampled: bool) -> None:
    flags = "01" if sampled else "00"
    headers = {"traceparent": f"00-{'ab' * 16}-{'cd' * 8}-{flags}"}
    with run_receiver() as receiver:
        tracer = init_tracer(transport_config=HttpConfig(server_uri=receiver.uri), sample_ratio=1.0)
        with tracer.start_as_current_span("root", headers=headers):
            assert trace.get_current_span().get_span_context().trace_flags.sampled is sampled
        spans: dict[str, Any] = sent(receiver)

    assert list(spans) == (["root"] if sampled else [])
