"""Batches that are too large for the far side arrive all the same, but for what never fits."""

import json
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.resources import Resource

from scouter.errors import DataError, TransientError
from scouter.model.attributes import TRUNCATED
from scouter.model.otlp import decode_request
from scouter.transport.config import GrpcConfig, HttpConfig, OtlpConfig, RemoteConfig, SpoolConfig
from scouter.transport.worker import BatchWorker
from tests.contracts.transport_data import drops, make_items, make_spans
from tests.scouter.transport.receiver import Answer, log_records, run_receiver
from tests.support.processes import wait_until

TEXT = "x" * 1_000
MAX_BYTES = 4_000
"""Bound of the far side: it takes no more than three items with such a text."""


class Far:
    """Keeps what arrives: names of spans, record ids, reports of drops."""

    def __init__(self) -> None:
        self.records: list[str] = []
        self.spans: list[str] = []
        self.drops: list[str] = []


@contextmanager
def over_http(
    kind: type[HttpConfig | OtlpConfig],
) -> Generator[tuple[RemoteConfig, Callable[[], Far]]]:
    with run_receiver() as receiver:
        receiver.max_bytes = MAX_BYTES

        def found() -> Far:
            far = Far()
            far.spans = [span.name for span in receiver.spans()]
            far.records = [record["record_id"] for record in receiver.records()]
            far.records += [
                json.loads(log.body.string_value)["record_id"] for log in receiver.logs()
            ]
            heads = [request.headers.get("scouter-dropped") for request in receiver.requests]
            far.drops = [head for head in heads if head]
            return far

        if kind is HttpConfig:
            yield HttpConfig(server_uri=receiver.uri), found
        else:
            yield OtlpConfig(endpoint=receiver.uri), found


@contextmanager
def over_grpc() -> Generator[tuple[RemoteConfig, Callable[[], Far]]]:
    """A stock server with its own check of sizes."""
    far = Far()

    def take_logs(body: bytes, context: grpc.ServicerContext) -> bytes:
        far.records += [json.loads(log.body.string_value)["record_id"] for log in log_records(body)]
        return note(context)

    def take_spans(body: bytes, context: grpc.ServicerContext) -> bytes:
        request = ExportTraceServiceRequest.FromString(body)
        far.spans += [span.name for span in decode_request(request).spans]
        return note(context)

    def note(context: grpc.ServicerContext) -> bytes:
        metadata = {key: str(value) for key, value in context.invocation_metadata()}
        if "scouter-dropped" in metadata:
            far.drops.append(metadata["scouter-dropped"])
        return b""

    untyped = cast(Any, grpc)
    server = grpc.server(
        ThreadPoolExecutor(1), options=[("grpc.max_receive_message_length", MAX_BYTES)]
    )
    for name, take in (("trace.v1.Trace", take_spans), ("logs.v1.Logs", take_logs)):
        full = f"opentelemetry.proto.collector.{name}Service"
        handlers = {"Export": untyped.unary_unary_rpc_method_handler(take)}
        server.add_generic_rpc_handlers((untyped.method_handlers_generic_handler(full, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield GrpcConfig(server_uri=f"http://127.0.0.1:{port}", timeout_s=5), lambda: far
    server.stop(None).wait()


KINDS = {
    "http": lambda: over_http(HttpConfig),
    "otlp": lambda: over_http(OtlpConfig),
    "grpc": over_grpc,
}


@pytest.mark.parametrize("kind", KINDS)
def test_all_but_what_never_fits_arrives(kind: str) -> None:
    """Eleven items into a bound of three; the span of 5 kB is cut, the record goes."""
    with KINDS[kind]() as (config, found):
        transport = config.open()
        spans = [*make_spans(5, TEXT), *make_spans(1, "y" * 5_000), *make_spans(5, TEXT)]
        items = [*make_items(5, TEXT), *make_items(1, "y" * 5_000), *make_items(5, TEXT)]

        assert transport.send_spans(spans, drops(full=1)) == 0
        assert transport.send_records(items, drops(full=2)) == 1
        transport.close()

        names = [f"span {n}" for n in range(5)]
        assert found().spans == [*names, "span 0", *names]
        assert found().records == [f"r{n}" for n in range(5)] * 2
        assert found().drops == ["sender=s1, full=0/1", "sender=s1, full=0/2"]


@pytest.mark.parametrize("kind", KINDS)
def test_where_nothing_fits_nothing_is_reported(kind: str) -> None:
    """The batch is lost as a whole, and its drops are reported with the next one."""
    with KINDS[kind]() as (config, found):
        transport = config.open()
        endless = make_spans(3)
        for span in endless:
            span._resource = Resource({"text": "y" * 5_000})  # pyright: ignore[reportPrivateUsage]
        with pytest.raises(DataError):
            transport.send_spans(endless, drops(full=1))
        with pytest.raises(DataError):
            transport.send_records(make_items(3, "y" * 5_000), drops(full=2))
        transport.close()

        assert (found().spans, found().records, found().drops) == ([], [], [])


def test_a_span_that_is_too_large_is_cut_and_marked() -> None:
    """Large values go, small ones stay, and the far side can tell them apart."""
    with run_receiver() as receiver:
        receiver.max_bytes = MAX_BYTES
        transport = HttpConfig(server_uri=receiver.uri).open()
        (span,) = make_spans(1, "y" * 100_000)
        assert transport.send_spans([span]) == 0
        transport.close()

        (found,) = receiver.spans()
        text = found.attributes["text"]
        assert isinstance(text, str)
        assert text == "y" * (len(text) - 1) + "…"
        assert 500 < len(text) < MAX_BYTES
        assert found.attributes[TRUNCATED] == ("text",)


def test_what_a_spool_holds_is_cut_too(tmp_path: Path) -> None:
    """It was written while the far side was away, and nobody knew what it takes."""
    spool = SpoolConfig(folder=tmp_path / "spool")
    with run_receiver() as receiver:
        config = HttpConfig(server_uri=receiver.uri, spool=spool)
        receiver.max_bytes = MAX_BYTES
        transport = config.open()
        with receiver.away():
            assert transport.send_spans(make_spans(8, TEXT)) == 0
            assert transport.send_records(make_items(8, TEXT)) == 0
        wait_until(lambda: spool.stats().waiting == 0, what="delivered")
        transport.close()

        assert len(receiver.spans()) == len(receiver.records()) == 8
        assert spool.stats().dropped == {}


def test_a_half_for_later_has_the_whole_sent_again() -> None:
    """Nothing is lost where the far side goes away between two halves."""
    with run_receiver() as receiver:
        receiver.answers = [Answer(413), Answer(200), Answer(503)]
        transport = HttpConfig(server_uri=receiver.uri).open()
        items = make_items(4)
        with pytest.raises(TransientError):
            transport.send_records(items)
        assert transport.send_records(items) == 0
        transport.close()

        assert {record["uid"] for record in receiver.records()} == {item.uid for item in items}


def test_a_worker_counts_what_never_fits() -> None:
    with run_receiver() as receiver:
        receiver.max_bytes = MAX_BYTES
        transport = HttpConfig(server_uri=receiver.uri).open()
        worker = BatchWorker("records", lambda: (transport.send_records, transport.close))
        for item in [*make_items(5, TEXT), *make_items(1, "y" * 5_000)]:
            worker.put(item, 1)
        assert worker.close(20)

        assert (worker.stats.sent, worker.stats.dropped) == (5, {"rejected": 1})
