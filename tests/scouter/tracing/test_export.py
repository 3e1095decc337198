"""Spans reach the collector, from short scripts and forked workers too."""

import gc
import socket
import statistics
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import Event, ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.trace import Link, SpanContext, StatusCode, Tracer

from scouter.errors import TransientError
from scouter.model.attributes import PROCESS_ID
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.export import estimate_bytes
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import flush_tracer, init_tracer, shutdown_tracer
from scouter.transport.config import (
    BatchConfig,
    HttpConfig,
    MockConfig,
    SpoolConfig,
    TransportConfig,
)
from scouter.transport.drops import NONE_DROPPED, Dropped
from scouter.transport.guard import GUARD
from scouter.transport.port import RecordItem, Transport
from scouter.transport.worker import WorkerLimits
from tests.contracts.transport_data import make_spans
from tests.scouter.queue.profiles import profile
from tests.scouter.transport.receiver import run_receiver
from tests.support.memory import held_bytes
from tests.support.processes import free_ports, wait_until


class Gated:
    """A transport that takes nothing until its gate opens."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.spans: list[str] = []

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        raise AssertionError(items)

    def send_spans(self, spans: Sequence[ReadableSpan], dropped: Dropped = NONE_DROPPED) -> int:
        assert self.gate.wait(120)
        self.spans += [span.name for span in spans]
        return 0

    def close(self) -> None:
        pass


class Away:
    """A transport that is not reached, whatever is sent."""

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        raise TransientError("away")

    def send_spans(self, spans: Sequence[ReadableSpan], dropped: Dropped = NONE_DROPPED) -> int:
        raise TransientError("away")

    def close(self) -> None:
        pass


class GatedConfig(TransportConfig):
    transport: Any

    def open(self) -> Transport:
        return self.transport


def test_the_queues_transport_is_used_where_none_is_given() -> None:
    with run_receiver() as receiver:
        queue = ScouterQueue.from_profile(profile("a"), HttpConfig(server_uri=receiver.uri))
        tracer = init_tracer(scouter_queue=queue)
        with tracer.start_as_current_span("s"):
            pass
        assert flush_tracer(20)
        assert [span.name for span in receiver.spans()] == ["s"]


def test_without_any_transport_nothing_is_exported() -> None:
    with init_tracer().start_as_current_span("s"):
        pass
    assert flush_tracer()
    assert RUNTIME.stats.put == 0


def test_the_same_transport_again_changes_nothing_and_another_replaces_it() -> None:
    """Spans on the way of the first transport still arrive there."""
    with run_receiver() as first, run_receiver() as second:
        tracer = init_tracer(transport_config=HttpConfig(server_uri=first.uri))
        export = RUNTIME.export
        init_tracer(transport_config=HttpConfig(server_uri=first.uri))
        init_tracer()
        assert RUNTIME.export is export
        with tracer.start_as_current_span("one"):
            pass
        init_tracer(transport_config=HttpConfig(server_uri=second.uri))
        with tracer.start_as_current_span("two"):
            pass
        assert flush_tracer(20)
        assert [span.name for span in first.spans()] == ["one"]
        assert [span.name for span in second.spans()] == ["two"]


def test_a_full_queue_drops_and_counts_and_does_not_block() -> None:
    gated = Gated()
    tracer = init_tracer(
        transport_config=GatedConfig(transport=gated),
        batch_config=BatchConfig(max_queue_size=10, scheduled_delay_ms=1, max_export_batch_size=5),
    )
    for n in range(30):
        with tracer.start_as_current_span(f"s{n}"):
            pass
    gated.gate.set()
    assert flush_tracer(20)

    assert gated.spans == [f"s{n}" for n in range(10)]
    assert RUNTIME.stats.dropped == {"full": 20}


def test_a_burst_beyond_opentelemetrys_default_loses_nothing() -> None:
    """9,600 spans while the far side takes nothing; a queue of 2,048 would keep a fifth."""
    gated = Gated()
    tracer = init_tracer(transport_config=GatedConfig(transport=gated))
    for n in range(9_600):
        tracer.start_span(f"s{n}").end()
    gated.gate.set()
    assert flush_tracer(60)

    assert gated.spans == [f"s{n}" for n in range(9_600)]
    assert RUNTIME.stats.dropped == {}


def test_a_burst_of_ten_times_the_bound_in_bytes_is_counted_to_the_last_span() -> None:
    """Room for 100 spans, 1,000 come while the far side is away; small batches, then large."""
    (one,) = make_spans(1, "x" * 1000)
    size = estimate_bytes(one)
    for batch in (7, 512):
        gated = Gated()
        tracer = init_tracer(
            transport_config=GatedConfig(transport=gated),
            batch_config=BatchConfig(
                max_queue_bytes=100 * size, scheduled_delay_ms=1, max_export_batch_size=batch
            ),
        )
        for n in range(1_000):
            tracer.start_span(f"s{n}", attributes={"text": "x" * 1000}).end()
        gated.gate.set()
        assert flush_tracer(20)

        stats = RUNTIME.stats
        assert stats.put == 1_000
        assert stats.sent == len(gated.spans)
        assert stats.dropped == {"full": 1_000 - len(gated.spans)}
        assert gated.spans == [f"s{n}" for n in range(len(gated.spans))]
        assert 90 <= len(gated.spans) <= 100  # a local root carries its stamp beside the text
        shutdown_tracer(20)


def test_a_burst_of_ten_times_the_bound_is_spooled_or_counted(tmp_path: Path) -> None:
    """Room for 100 spans, 1,000 come while nobody listens: each is on disk or counted."""
    (one,) = make_spans(1, "x" * 1000)
    spool = SpoolConfig(folder=tmp_path / "spool")
    tracer = init_tracer(
        transport_config=HttpConfig(server_uri="http://127.0.0.1:9", spool=spool),
        batch_config=BatchConfig(max_queue_bytes=100 * estimate_bytes(one), scheduled_delay_ms=1),
    )
    for n in range(1_000):
        tracer.start_span(f"s{n}", attributes={"text": "x" * 1000}).end()
    assert flush_tracer(20)
    stats = RUNTIME.stats

    assert stats.put == 1_000 == stats.sent + stats.dropped.get("full", 0)
    assert spool.stats().waiting == stats.sent >= 90
    shutdown_tracer(1)


@pytest.mark.parametrize("has_spool", [False, True])
def test_memory_is_flat_while_the_far_side_is_away(has_spool: bool, tmp_path: Path) -> None:
    """Once the bounds are full, of the spool too, more spans and records leave nothing behind."""
    bound = 1 << 18
    spool = SpoolConfig(folder=tmp_path / "spool", max_bytes=bound)
    away = HttpConfig(server_uri="http://127.0.0.1:9", spool=spool)
    config = away if has_spool else GatedConfig(transport=Away())
    limits = BatchConfig(max_queue_bytes=bound, scheduled_delay_ms=1)
    tracer = init_tracer(transport_config=config, batch_config=limits)
    queue = ScouterQueue({"a": profile("a")}, config, WorkerLimits(max_bytes=bound, delay_s=0.001))

    def work(number: int) -> None:
        for n in range(number):
            with tracer.start_as_current_span("root", attributes={"text": "x" * 500}):
                tracer.start_span("child").end()
            queue["a"].insert(EvalRecord({"n": n}))

    def held_bytes() -> int:
        for number in (500, 1):  # the threads hold their last batches: these are of one item
            work(number)
            if has_spool:  # else nothing ever leaves the queues
                assert flush_tracer(20)
                assert queue.flush(20)
        _ = RUNTIME.stats, queue.stats
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        held_bytes()  # fills the bounds
        sizes = [held_bytes() for _ in range(6)]
    finally:
        tracemalloc.stop()
    if has_spool:
        assert spool.stats().dropped["spool_full"]
    else:
        assert RUNTIME.stats.dropped["full"]
        assert queue.stats.dropped["full"]
    # A leak grows in most rounds; a thing that is loaded late, such as a module, does so in one.
    # Anything stored for each record or span takes a pointer at least; the threads' own state
    # swings by less.
    growths = [after - before for before, after in pairwise(sizes)]
    if has_spool:
        # Items that are tried again may be in memory or not: as many bytes as each queue may have.
        # A leak of the spans and records themselves would be 3,000 of them in each round.
        assert sizes[-1] - sizes[0] < 4 * bound
    else:
        assert statistics.median(growths) < 8 * 1_000
    queue.shutdown(0.0)
    shutdown_tracer(0.0)


def test_shutdown_delivers_and_a_new_start_works() -> None:
    with run_receiver() as receiver:
        config = HttpConfig(server_uri=receiver.uri)
        tracer = init_tracer(transport_config=config)
        with tracer.start_as_current_span("one"):
            pass
        assert shutdown_tracer(20)
        with tracer.start_as_current_span("nowhere"):
            pass
        tracer = init_tracer(transport_config=config)
        with tracer.start_as_current_span("two"):
            pass
        assert flush_tracer(20)
        assert [span.name for span in receiver.spans()] == ["one", "two"]


def test_spans_that_end_after_shutdown_are_counted() -> None:
    """Until tracing is set up anew; records of that time are `closed`, too."""
    tracer = init_tracer(transport_config=MockConfig())
    with tracer.start_as_current_span("late"), tracer.start_as_current_span("later"):
        assert shutdown_tracer(20)
    tracer.start_span("much later").end()
    stats = RUNTIME.stats
    assert (stats.put, stats.sent, stats.waiting, stats.dropped) == (3, 0, 0, {"closed": 3})

    init_tracer(transport_config=MockConfig()).start_span("new").end()
    assert flush_tracer(20)
    assert (RUNTIME.stats.put, RUNTIME.stats.dropped) == (1, {})


def test_a_span_that_meets_a_fault_of_ours_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before it is put; in whatever comes behind it is counted already."""
    tracer = init_tracer(transport_config=MockConfig())
    GUARD.strict = False

    def broken(self: object, trace_id: int) -> int:
        raise ZeroDivisionError("bug")

    with monkeypatch.context() as patch:
        patch.setattr(type(RUNTIME.census), "root_ended", broken)
        tracer.start_span("lost").end()
    tracer.start_span("sent").end()
    assert flush_tracer(20)
    stats = RUNTIME.stats
    assert (stats.put, stats.sent, stats.dropped) == (2, 1, {"internal": 1})


def run(code: str, uri: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, uri],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_short_script_delivers_its_spans_and_records_at_exit() -> None:
    code = """
import sys
from scouter.model.record import EvalRecord
from scouter.queue import ScouterQueue
from scouter.tracing import init_tracer
from scouter.transport import HttpConfig
from tests.scouter.queue.profiles import profile
queue = ScouterQueue.from_profile(profile("a"), HttpConfig(server_uri=sys.argv[1]))
tracer = init_tracer(scouter_queue=queue)
with tracer.start_as_current_span("s") as span:
    span.add_queue_item("a", EvalRecord({"n": 1}))
"""
    with run_receiver() as receiver:
        run(code, receiver.uri)
        (span,), (record,) = receiver.spans(), receiver.records()

    assert span.name == "s"
    assert record["trace_id"] == span.trace_id
    assert record["profile"] == profile("a").uid


def test_what_was_made_before_the_collector_listens_is_delivered(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Kind: the first batch is lost, as the agent started faster than its collector."""
    (port,) = free_ports(1)
    config = HttpConfig(server_uri=f"http://127.0.0.1:{port}")
    queue = ScouterQueue.from_profile(profile("a"), config)
    tracer = init_tracer(scouter_queue=queue)
    with tracer.start_as_current_span("s") as span:
        span.add_queue_item("a", EvalRecord({"n": 1}))
    wait_until(lambda: caplog.text.count("(retrying)") == 2, what="both are refused")

    with run_receiver(port) as receiver:
        assert flush_tracer(20)
        assert queue.flush(20)
        assert [each.name for each in receiver.spans()] == ["s"]
        assert len(receiver.records()) == 1
    queue.shutdown()


def test_a_short_script_delivers_to_another_exporter_at_exit() -> None:
    code = """
import sys
from scouter.tracing import HttpSpanExporter, init_tracer
from scouter.tracing.exporters import OtelExportConfig
config = OtelExportConfig(endpoint=sys.argv[1] + "/v1/traces")
with init_tracer(exporter=HttpSpanExporter(export_config=config)).start_as_current_span("s"):
    pass
"""
    with run_receiver() as receiver:
        run(code, receiver.uri)
        (span,) = receiver.spans()

    assert span.name == "s"


@pytest.mark.pace
@pytest.mark.parametrize("ending", ["", "os._exit(0)"])
@pytest.mark.parametrize("kind", ["http", "grpc", "kafka", "redis", "rabbitmq", "exporter"])
def test_the_end_of_a_script_is_bounded_while_the_far_side_hangs(kind: str, ending: str) -> None:
    """It takes connections and never answers; nothing but the bound, half a second, ends soon.

    The rest of the time is for closing what hangs and for the interpreter, on a busy machine.
    """
    code = """
import os, sys, time, warnings
from scouter.model.record import EvalRecord
from scouter.queue import ScouterQueue
from scouter.tracing import HttpSpanExporter, init_tracer
from scouter.tracing.exporters import OtelExportConfig
from scouter import transport
from scouter.transport import process
from tests.scouter.queue.profiles import profile
warnings.simplefilter("ignore")  # kafka-python's own, as it is loaded
process.EXIT_TIMEOUT_S = 0.5
kind, place = sys.argv[1].split("+")
if kind == "exporter":
    far = OtelExportConfig(endpoint="http://" + place, timeout=60)
    tracer = init_tracer(exporter=HttpSpanExporter(export_config=far))
else:
    config = {
        "http": lambda: transport.HttpConfig(server_uri="http://" + place, timeout_s=60),
        "grpc": lambda: transport.GrpcConfig(server_uri="http://" + place, timeout_s=60),
        "kafka": lambda: transport.KafkaConfig(brokers=place),
        "redis": lambda: transport.RedisConfig(address="redis://" + place, timeout_s=60),
        "rabbitmq": lambda: transport.RabbitMQConfig(address="amqp://" + place, timeout_s=60),
    }[kind]()
    queue = ScouterQueue.from_profile(profile("a"), config)
    tracer = init_tracer(scouter_queue=queue)
    queue["a"].insert(EvalRecord({"n": 1}))
tracer.start_span("s").end()
print(time.monotonic(), flush=True)  # of the machine: the same clock in all processes
"""
    code += ending
    with socket.create_server(("127.0.0.1", 0)) as hanging:  # the kernel takes connections
        ended_s = float(run(code, f"{kind}+127.0.0.1:{hanging.getsockname()[1]}"))

    assert time.monotonic() - ended_s < 5


def test_forked_workers_deliver_their_own_spans_once() -> None:
    """As under a pre-forking server: the parent has spans waiting when it forks."""
    code = """
import os, sys
from scouter.tracing import flush_tracer, init_tracer
from scouter.transport import HttpConfig
tracer = init_tracer(transport_config=HttpConfig(server_uri=sys.argv[1]))
with tracer.start_as_current_span("parent before"):
    pass
children = []
for n in range(2):
    child = os.fork()
    if child == 0:
        with tracer.start_as_current_span(f"child {n}"):
            pass
        assert flush_tracer(20)
        os._exit(0)
    children.append(child)
assert all(os.waitpid(child, 0)[1] == 0 for child in children)
with tracer.start_as_current_span("parent after"):
    pass
"""
    with run_receiver() as receiver:
        run(code, receiver.uri)
        spans = receiver.spans()

    assert sorted(span.name for span in spans) == [
        "child 0",
        "child 1",
        "parent after",
        "parent before",
    ]
    by_name = {span.name: span.resource.attributes[PROCESS_ID] for span in spans}
    assert by_name["parent before"] == by_name["parent after"]
    assert len(set(by_name.values())) == 3


def test_mock_counts_and_sends_nothing() -> None:
    tracer = init_tracer(transport_config=MockConfig())
    with tracer.start_as_current_span("s"):
        pass
    assert flush_tracer(20)
    assert RUNTIME.stats.sent == 1


def test_a_span_is_estimated_by_its_texts() -> None:
    """The bound counts bytes: 100,000 characters more are 100,000 bytes more."""
    small, large = make_spans(1, "x")[0], make_spans(1, "x" * 100_001)[0]

    assert estimate_bytes(large) - estimate_bytes(small) == 100_000


@pytest.mark.parametrize("letter", ["x", "é", "語", "🚀"])
def test_a_text_is_estimated_by_its_bytes_in_memory_and_on_the_wire(letter: str) -> None:
    """In an attribute, a list and an event; no text counts for less, nor for twice as much."""
    text = letter * 10_000
    at_least = max(len(text.encode()), sys.getsizeof(text) - 100)
    in_event = ReadableSpan("s", events=[Event("e", {"a": text})])
    for span in (ReadableSpan("s", attributes={"a": text}), *make_spans(1, text), in_event):
        assert at_least <= estimate_bytes(span) <= 2 * at_least
    in_list = ReadableSpan("s", attributes={"a": (text, text)})
    assert 2 * at_least <= estimate_bytes(in_list) <= 4 * at_least


def make_bare(tracer: Tracer, n: int) -> None:
    tracer.start_span(f"span {n}").end()


def make_named(tracer: Tracer, n: int) -> None:
    tracer.start_span(f"span {n}" * 500).end()


def make_with_attributes(tracer: Tracer, n: int) -> None:
    tracer.start_span("s", attributes={f"key {k}": f"value {n} of {k}" for k in range(10)}).end()


def make_with_lists(tracer: Tracer, n: int) -> None:
    span = tracer.start_span("s")
    span.set_attribute("texts", [f"value {n} of {k}" for k in range(50)])
    span.end()


def make_with_events(tracer: Tracer, n: int) -> None:
    span = tracer.start_span("s")
    for k in range(5):
        span.add_event(f"event {n} of {k}", {"number": n + 1000, "text": f"text {n} of {k}"})
    span.end()


def make_failed(tracer: Tracer, n: int) -> None:
    span = tracer.start_span("s")
    span.set_status(StatusCode.ERROR, f"failure {n}" * 300)
    span.end()


def make_linked(tracer: Tracer, n: int) -> None:
    context = SpanContext(n + 2**100, n + 2**60, is_remote=True)
    links = [Link(context, {"number": n + 1000}) for _ in range(10)]
    tracer.start_span("s", links=links).end()


@pytest.mark.parametrize(
    "make",
    [
        make_bare,
        make_named,
        make_with_attributes,
        make_with_lists,
        make_with_events,
        make_failed,
        make_linked,
    ],
)
def test_a_span_is_estimated_by_what_it_takes(make: Callable[[Tracer, int], None]) -> None:
    """The bound is one of memory: as the allocator counts, within a fifth."""
    spans: list[ReadableSpan] = []

    class Keep(SpanProcessor):
        def on_end(self, span: ReadableSpan) -> None:
            spans.append(span)

    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(Keep())
    tracer = provider.get_tracer("t")
    make(tracer, 0)

    def make_many() -> None:
        for n in range(500):
            make(tracer, n)

    taken = held_bytes(make_many) / 500
    estimated = sum(map(estimate_bytes, spans[1:])) / 500
    assert 0.8 <= estimated / taken <= 1.25, (estimated, taken)
