"""OTLP/gRPC: what is taken, what is refused and how a client reads it."""

import socket
import struct
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceResponse,
)

from collector.access.caller import Scope
from collector.access.tokens import TokenFile
from collector.log.port import Item
from collector.receivers.grpc import receiver
from collector.receivers.grpc.receiver import ReadSlots, address_of
from scouter.model.otlp import encode_request
from tests.collector.conftest import Service, Start
from tests.contracts.store_data import TRACE, span
from tests.support.otlp import GrpcClient, logs_request
from tests.support.processes import wait_until

COMPRESSED = pytest.mark.parametrize("compression", list(grpc.Compression))


@pytest.fixture
def service(start: Start) -> Service:
    return start(grpc="127.0.0.1:0", max_body="4MiB", max_inflated="4MiB", max_in_flight="8MiB")


@pytest.fixture
def client(service: Service) -> Iterator[GrpcClient]:
    assert service.collector.grpc is not None
    client = GrpcClient(str(service.collector.grpc.listen))
    yield client
    client.close()


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("ipv4:127.0.0.1:40000", "127.0.0.1"),
        ("ipv6:%5B::1%5D:40000", "::1"),
        ("ipv6:[fe80::1%25eth0]:40000", "fe80::1%eth0"),
        ("unix:", ""),
    ],
)
def test_the_address_of_a_peer(peer: str, address: str) -> None:
    """Source: gRPC naming, https://grpc.github.io/grpc/core/md_doc_naming.html."""
    assert address_of(peer) == address


@COMPRESSED
def test_spans_are_there_once_they_are_acknowledged(
    service: Service, client: GrpcClient, compression: grpc.Compression
) -> None:
    data = encode_request([span(1), span(2)]).SerializeToString()
    assert client.send(data, compression=compression) == b""  # no partial success
    spans = service.get(f"/api/v1/traces/{TRACE}")["spans"]
    assert [each["spanId"] for each in spans] == [f"{n:016x}" for n in (1, 2)]
    assert service.sample('scouter_ingest_bytes_total{receiver="grpc",signal="traces"}') == len(
        data
    )


def test_partial_success(service: Service, client: GrpcClient) -> None:
    request = encode_request([span(1), span(2), span(3)])
    request.resource_spans[0].scope_spans[0].spans[1].span_id = b"short"
    answer = ExportTraceServiceResponse.FromString(client.send(request.SerializeToString()))
    assert answer.partial_success.rejected_spans == 1
    assert "span id" in answer.partial_success.error_message
    sheet = service.get("/api/v1/conservation")
    assert (sheet["spans"]["stored"], sheet["spans"]["dead_lettered"]) == (2, 1)


def test_bytes_that_are_something_else_are_refused_for_good(
    service: Service, client: GrpcClient
) -> None:
    refusal = client.refusal(b"\xff\xff")
    assert (refusal.code, refusal.retry_s, refusal.retry_s_of_status) == (
        "INVALID_ARGUMENT", None, None,
    )  # fmt: skip
    assert (refusal.status.code, refusal.status.message) == (3, refusal.message)
    line = 'scouter_ingest_refused_total{reason="invalid",receiver="grpc",signal="traces"}'
    assert service.sample(line) == 1


def test_a_full_memory_asks_to_come_back(service: Service, client: GrpcClient) -> None:
    data = encode_request([span(1)]).SerializeToString()
    with service.collector.ingest.lease() as lease:
        lease.take(8 * 2**20 - 10)  # another request, in hand
        refusal = client.refusal(data)
        assert (refusal.code, refusal.retry_s, refusal.retry_s_of_status) == (
            "RESOURCE_EXHAUSTED", 1.0, 1.0,
        )  # fmt: skip
        assert refusal.status.code == 8
    assert client.send(data) == b""


def test_a_batch_that_is_given_up_keeps_its_memory_until_it_is_durable(
    service: Service, client: GrpcClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the disk hangs, senders that come back would else fill the memory."""
    monkeypatch.setattr(receiver, "COMMIT_S", 0.1)
    ingest, log = service.collector.ingest, service.collector.log
    data = logs_request([{"profile": "p", "context": "x" * 2**20}]).SerializeToString()
    append, appended = log.append, list[tuple[Item, Future[int]]]()

    def hang(item: Item) -> Future[int]:
        appended.append((item, Future()))
        return appended[-1][1]

    try:
        monkeypatch.setattr(log, "append", hang)
        assert client.refusal(data, "logs").code == "UNAVAILABLE"
        assert ingest.budget.used == len(data)
        for _ in range(3):
            assert client.refusal(data, "logs").code == "UNAVAILABLE"
        assert ingest.budget.used == 4 * len(data)
        assert client.refusal(data, "logs").code == "RESOURCE_EXHAUSTED"
    finally:
        monkeypatch.setattr(log, "append", append)
        for item, durable in appended:
            durable.set_result(append(item).result(120))
    assert ingest.budget.used == 0
    client.send(data, "logs")


def test_a_log_that_cannot_be_written_is_unavailable(service: Service, client: GrpcClient) -> None:
    service.collector.log.close()
    refusal = client.refusal(encode_request([span(1)]).SerializeToString())
    assert (refusal.code, refusal.retry_s) == ("UNAVAILABLE", 5.0)


@COMPRESSED
def test_a_message_that_is_too_large_is_refused(
    client: GrpcClient, compression: grpc.Compression
) -> None:
    """Compressed it is 4 kB: gRPC stops as it decompresses."""
    refusal = client.refusal(bytes(4 * 2**20 + 1), compression=compression)
    assert refusal.code == "RESOURCE_EXHAUSTED"


def test_zstd_is_refused_by_the_library(service: Service) -> None:
    """Before anything of ours is called. If this fails, gRPC has learned it: mend the page.

    Source: grpc/proposal A122 is not accepted; grpc/grpc issue 26460.
    """
    assert service.collector.grpc is not None
    answer = answer_to_encoding("zstd", service.collector.grpc.listen.port)
    assert b"Error parsing 'grpc-encoding' metadata" in answer


def answer_to_encoding(encoding: str, port: int) -> bytes:
    """The answer of gRPC to a call whose message claims an encoding, as HTTP/2 frames.

    The client that comes with the server knows no other names than the server does.
    """

    def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
        length = struct.pack(">I", len(payload))[1:]
        return length + struct.pack(">BBI", kind, flags, stream) + payload

    def header(name: str, value: str) -> bytes:
        """A field without indexing and without Huffman's code. Source: RFC 7541, 6.2.2."""
        return bytes([0, len(name)]) + name.encode() + bytes([len(value)]) + value.encode()

    path = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
    fields = {
        ":method": "POST", ":scheme": "http", ":path": path, ":authority": "localhost",
        "content-type": "application/grpc", "te": "trailers", "grpc-encoding": encoding,
    }  # fmt: skip
    head = b"".join(header(name, value) for name, value in fields.items())
    message = b"\x01" + struct.pack(">I", 5) + b"bytes"
    with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
        connection.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        connection.sendall(frame(1, 4, 1, head) + frame(0, 1, 1, message))
        answer = b""
        while b"grpc-message" not in answer:
            part = connection.recv(2**16)
            assert part, "the connection ended without an answer"
            answer += part
        return answer


def test_metrics_are_taken_and_dropped(service: Service, client: GrpcClient) -> None:
    assert client.send(b"whatever they are", "metrics") == b""
    line = 'scouter_ingest_ignored_metric_exports_total{receiver="grpc"}'
    assert service.sample(line) == 1


def test_drops_in_the_metadata(service: Service, client: GrpcClient) -> None:
    client.send(b"", metadata=[("scouter-dropped", "full=12")])
    assert service.sample('scouter_queue_dropped_total{reason="full",space="default"}') == 12


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-forwarded-for", "10.0.0.7"),
        ("x-forwarded-for", "127.0.0.1"),
        ("forwarded", "for=10.0.0.7"),
        ("x-real-ip", "10.0.0.7"),
        ("via", "1.1 proxy"),
    ],
)
def test_what_a_proxy_passes_on_needs_a_token(client: GrpcClient, name: str, value: str) -> None:
    """It comes from this machine's own address, as if it was sent here."""
    data = encode_request([span(1)]).SerializeToString()
    assert client.refusal(data, metadata=[(name, value)]).code == "PERMISSION_DENIED"
    assert client.send(data) == b""


def test_a_token_says_the_space_and_how_much_it_may_send(start: Start, tmp_path: Path) -> None:
    """A token has one space; of two tokens in one call, none counts; two requests at once."""
    tokens = TokenFile(tmp_path / "data")
    shop, bank, club = (tokens.create("", Scope, space)[1] for space in ("shop", "bank", "club"))
    service = start(grpc="127.0.0.1:0", max_requests_per_s=1)
    assert service.collector.grpc is not None
    client = GrpcClient(str(service.collector.grpc.listen))

    def bearer(*sent: str) -> list[tuple[str, str]]:
        return [("authorization", f"Bearer {token}") for token in sent]

    data = encode_request([span(1)]).SerializeToString()
    try:
        assert client.refusal(data, metadata=bearer(bank, shop)).code == "INVALID_ARGUMENT"
        assert client.send(data, metadata=bearer(shop)) == b""
        found = [
            service.http.get(f"/api/v1/traces/{TRACE}", headers=dict(bearer(token)))
            for token in (shop, bank)
        ]
        assert [each.status_code for each in found] == [200, 404]
        for _ in range(2):
            assert client.send(data, metadata=bearer(club)) == b""
        refusal = client.refusal(data, metadata=bearer(club))
        assert refusal.code == "RESOURCE_EXHAUSTED"
        assert refusal.retry_s is not None
    finally:
        client.close()


def test_messages_that_are_being_read_are_within_the_memory(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for six of the largest messages: three are read at a time, two of one name.

    Eight senders hold their messages back; then they send, and all of them are taken.
    """
    monkeypatch.setattr(receiver, "ReadSlots", partial(ReadSlots, turn_s=60))
    service = start(grpc="127.0.0.1:0", max_body="1MiB", max_inflated="1MiB", max_in_flight="6MiB")
    assert service.collector.grpc is not None
    budget, go = service.collector.ingest.budget, threading.Event()
    client = GrpcClient(str(service.collector.grpc.listen))

    def late(number: int) -> Iterator[bytes]:
        assert go.wait(120)
        yield encode_request([span(number)]).SerializeToString()

    try:
        calls = [client.stream(late(number)) for number in range(1, 9)]
        wait_until(lambda: budget.used == 2 * 2**20, what="two readers")
        assert service.http.post("/v1/records", json={"records": []}).status_code == 200
        assert budget.used == 2 * 2**20
        go.set()
        assert [call.result(120) for call in calls] == [b""] * 8
    finally:
        go.set()
        client.close()
    assert service.get("/api/v1/conservation")["spans"]["stored"] == 8
    wait_until(lambda: budget.used == 0, what="all are answered")


def test_silent_calls_keep_nobody_out(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Room for two messages; one token holds forty calls without a message, and comes again.

    Calls of another token are taken meanwhile.
    """
    monkeypatch.setattr(receiver, "ReadSlots", partial(ReadSlots, turn_s=0.2))
    tokens = TokenFile(tmp_path / "data")
    secrets = [tokens.create("", [Scope.INGEST], space)[1] for space in ("bad", "good")]
    bad, good = ([("authorization", f"Bearer {each}")] for each in secrets)
    service = start(grpc="127.0.0.1:0", max_body="1MiB", max_inflated="1MiB", max_in_flight="4MiB")
    assert service.collector.grpc is not None
    address, over, ended = str(service.collector.grpc.listen), threading.Event(), list[str]()
    silent, client = [GrpcClient(address) for _ in range(4)], GrpcClient(address)

    def nothing() -> Iterator[bytes]:
        over.wait(120)
        yield from ()

    def hold(channel: GrpcClient) -> None:
        def again(call: Any) -> None:
            if not over.is_set():
                ended.append(str(call.code()))
                hold(channel)

        channel.stream(nothing(), metadata=bad).add_done_callback(again)

    try:
        for number in range(40):
            hold(silent[number % 4])
        budget = service.collector.ingest.budget
        wait_until(lambda: budget.used == 2**20, what="a silent reader")
        for _ in range(3):
            data = encode_request([span(1)]).SerializeToString()
            assert client.send(data, metadata=good, timeout_s=5) == b""
        wait_until(lambda: bool(ended), what="a silent call is ended")
        assert budget.used <= 2 * 2**20 + 1000
    finally:
        over.set()
        for each in (*silent, client):
            each.close()


def test_a_sender_that_goes_away_leaves_no_memory_taken(start: Start) -> None:
    service = start(grpc="127.0.0.1:0", max_body="1MiB", max_inflated="1MiB", max_in_flight="2MiB")
    assert service.collector.grpc is not None
    budget, never = service.collector.ingest.budget, threading.Event()
    client = GrpcClient(str(service.collector.grpc.listen))

    def nothing() -> Iterator[bytes]:
        never.wait(120)
        yield b""

    try:
        call = client.stream(nothing())
        wait_until(lambda: budget.used == 2**20, what="a reader")
        call.cancel()
        wait_until(lambda: budget.used == 0, what="the memory is given back")
        assert client.send(encode_request([span(1)]).SerializeToString()) == b""
    finally:
        never.set()
        client.close()


def test_a_call_without_a_message_is_refused(client: GrpcClient) -> None:
    with pytest.raises(grpc.RpcError, match="without a message"):
        client.stream(iter(())).result(120)
