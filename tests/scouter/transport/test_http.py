"""Records and spans over real HTTP."""

import json
import socket
import traceback
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceResponse,
)
from pydantic import SecretStr, ValidationError

from scouter.errors import ConfigError, DataError, TransientError
from scouter.model.span import Span
from scouter.transport.config import HttpConfig, OtlpConfig
from scouter.transport.http import HttpClient, HttpTransport
from scouter.transport.http_client import retry_after_s
from scouter.transport.port import Transport
from tests.contracts.transport import TransportContract
from tests.contracts.transport_data import drops, make_items, make_spans
from tests.scouter.transport.receiver import Answer, Receiver, run_receiver
from tests.support.far_side import ENDLESS, far_side


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """A running server."""
    with run_receiver() as running:
        yield running


@pytest.fixture
def transport(receiver: Receiver) -> Iterator[Transport]:
    """An open transport to it."""
    transport = HttpConfig(server_uri=receiver.uri, timeout_s=5).open()
    yield transport
    transport.close()


class TestContract(TransportContract):
    """The whole contract over HTTP."""

    @pytest.fixture(autouse=True)
    def running(self, receiver: Receiver) -> None:
        self.receiver = receiver

    def config(self) -> HttpConfig:
        return HttpConfig(server_uri=self.receiver.uri + "/", timeout_s=5)

    @contextmanager
    def away(self) -> Generator[None]:
        with self.receiver.away():
            yield

    def received_drops(self) -> list[str]:
        return self.receiver.drops("/v1/records")

    def received_records(self, count: int) -> list[dict[str, Any]]:
        records = self.receiver.records()
        assert len(records) == count
        return records

    def received_spans(self, count: int) -> list[Span]:
        spans = self.receiver.spans()
        assert len(spans) == count
        return spans


def test_the_request_says_what_it_is(receiver: Receiver) -> None:
    config = HttpConfig(server_uri=receiver.uri, auth_token=SecretStr("s3cret"))
    transport = config.open()
    transport.send_records(make_items(1))
    transport.send_spans(make_spans(20, "x" * 200))
    transport.close()

    records, spans = receiver.requests
    assert (records.path, spans.path) == ("/v1/records", "/v1/traces")
    assert records.headers["content-type"] == "application/json"
    assert "content-encoding" not in records.headers
    assert spans.headers["content-type"] == "application/x-protobuf"
    assert spans.headers["content-encoding"] == "gzip"
    assert records.headers["authorization"] == "Bearer s3cret"


def test_drops_travel_in_a_header(receiver: Receiver, transport: Transport) -> None:
    transport.send_records(make_items(1), drops(full=3, closed=1))
    transport.send_spans(make_spans(1), drops(full=2))
    transport.send_spans(make_spans(1))

    assert [request.headers.get("scouter-dropped") for request in receiver.requests] == [
        "sender=s1, closed=0/1, full=0/3",
        "sender=s1, full=0/2",
        None,
    ]


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_overload_is_worth_another_try(
    receiver: Receiver, transport: Transport, status: int
) -> None:
    receiver.answers = [Answer(status, b"busy", {"Retry-After": "7"})]

    with pytest.raises(TransientError, match=f"status {status}.*busy") as caught:
        transport.send_records(make_items(1))

    assert caught.value.retry_after_s == 7.0


@pytest.mark.parametrize("status", [401, 403, 404, 407])
def test_wrong_settings_are_no_fault_of_the_batch(
    receiver: Receiver, transport: Transport, status: int
) -> None:
    receiver.answers = [Answer(status, b"no")]

    with pytest.raises(ConfigError, match=f"/v1/traces: status {status}.*token"):
        transport.send_spans(make_spans(1))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("application/problem+json", b'{"title": "Unauthorized", "detail": "send a token"}'),
        ("application/json", b'{"code": 16, "message": "send a token"}'),
        ("application/x-protobuf", b"\x08\x10\x12\x0csend a token"),  # google.rpc.Status
        ("application/x-protobuf", b"send a token"),  # no protobuf, whatever it calls itself
        ("application/json", b"send a token"),
        ("text/plain", b"send a token"),
    ],
)
def test_what_an_answer_says_is_reported_in_its_words(
    receiver: Receiver, transport: Transport, kind: str, body: bytes
) -> None:
    receiver.answers = [Answer(401, body, {"Content-Type": kind})]

    with pytest.raises(ConfigError, match=r"status 401: 'send a token'; check address and token$"):
        transport.send_spans(make_spans(1))


@pytest.mark.parametrize("status", [400, 413, 500])
def test_a_refusal_is_final(receiver: Receiver, transport: Transport, status: int) -> None:
    receiver.answers = [Answer(status, b"no")]

    with pytest.raises(DataError, match=f"/v1/traces: status {status}"):
        transport.send_spans(make_spans(1))


def test_nobody_there_is_worth_another_try() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))  # bound but not listening: connections are refused
        transport = HttpConfig(server_uri=f"http://127.0.0.1:{free.getsockname()[1]}").open()
        with pytest.raises(
            TransientError, match=r"ConnectError: .*; does a collector listen there\?"
        ):
            transport.send_records(make_items(1))
        transport.close()


def test_partial_success_is_counted(receiver: Receiver, transport: Transport) -> None:
    """In protobuf for spans, in JSON for both."""
    partial = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message="bad ids")
    )
    as_json = {"Content-Type": "application/json"}
    receiver.answers = [
        Answer(200, partial.SerializeToString()),
        Answer(200, b'{"partialSuccess": {"rejectedSpans": "1"}}', as_json),
        Answer(200, b'{"partialSuccess": {"rejectedRecords": 3}}', as_json),
        Answer(200, b'{"partialSuccess": null}', as_json),
        Answer(200, b"thanks", {"Content-Type": "text/plain"}),
    ]

    assert transport.send_spans(make_spans(5)) == 2
    assert transport.send_spans(make_spans(5)) == 1
    assert transport.send_records(make_items(5)) == 3
    assert transport.send_records(make_items(5)) == 0
    assert transport.send_records(make_items(5)) == 0


def test_the_log_says_why_items_were_refused(
    receiver: Receiver, transport: Transport, caplog: pytest.LogCaptureFixture
) -> None:
    """Or else a record is lost in production without a word; the reason is one line."""
    partial = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=2, error_message="span id: b\nad")
    )
    said = {"rejectedRecords": 3, "errorMessage": "record 0: created_at: -1 is no time"}
    receiver.answers = [
        Answer(200, partial.SerializeToString()),
        Answer(
            200,
            json.dumps({"partialSuccess": said}).encode(),
            {"Content-Type": "application/json"},
        ),
    ]
    transport.send_spans(make_spans(5))
    transport.send_records(make_items(5))

    spans, records = [each.getMessage() for each in caplog.records if each.name == "scouter"]
    assert "spans: the far side refused 2 " in spans
    assert "span id: b ad" in spans
    assert "records: the far side refused 3 " in records
    assert "record 0: created_at: -1 is no time" in records


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        (None, None),
        ("120", 120.0),
        (" 0 ", 0.0),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 60.0),  # the example of RFC 9110, a minute ahead
        ("Wed, 21 Oct 2015 07:26:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
    ],
)
def test_retry_after(header: str | None, seconds: float | None) -> None:
    assert retry_after_s(header, now_s=1445412420.0) == seconds


def test_settings_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SCOUTER_URL", "SCOUTER_SERVER_URI", "SCOUTER_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    assert HttpConfig().server_uri == "http://127.0.0.1:4318"
    assert HttpConfig().auth_token is None

    monkeypatch.setenv("SCOUTER_SERVER_URI", "https://original.example")
    assert HttpConfig().server_uri == "https://original.example"
    monkeypatch.setenv("SCOUTER_URL", "https://scouter.example/base/")
    monkeypatch.setenv("SCOUTER_AUTH_TOKEN", "t0ken")
    config = HttpConfig()

    assert config.server_uri == "https://scouter.example/base/"
    assert config.auth_token is not None
    assert config.auth_token.get_secret_value() == "t0ken"
    assert "t0ken" not in repr(config) + str(config.model_dump()) + config.model_dump_json()
    assert HttpConfig(server_uri="http://here:1").server_uri == "http://here:1"


@pytest.mark.parametrize("uri", ["localhost:4318", "ftp://x", "http://", ""])
def test_an_address_that_cannot_work_is_refused(uri: str) -> None:
    with pytest.raises(ValidationError, match="server_uri"):
        HttpConfig(server_uri=uri)


def test_the_clients_error_about_a_header_is_not_quoted(receiver: Receiver) -> None:
    client = HttpClient(SecretStr("s3cret\n"), 5.0)
    with pytest.raises(TransientError, match="LocalProtocolError") as caught:
        client.post(receiver.uri, b"", "text/plain", {})
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))
    client.close()


def test_closing_a_transport_ends_its_connections(receiver: Receiver) -> None:
    transport = HttpTransport(HttpConfig(server_uri=receiver.uri))
    transport.send_records(make_items(1))
    transport.close()

    with pytest.raises(RuntimeError, match="closed"):
        transport.send_records(make_items(1))


@pytest.mark.parametrize("packing", ENDLESS)
@pytest.mark.parametrize("otlp", [False, True], ids=["scouter", "otlp"])
def test_an_answer_without_an_end_is_read_to_a_bound(packing: str, otlp: bool) -> None:
    """A collector of somebody else's cannot fill the agent's memory; what it took is taken."""
    with far_side(ENDLESS[packing]) as far:
        config = OtlpConfig(endpoint=far.url) if otlp else HttpConfig(server_uri=far.url)
        transport = config.open()
        assert transport.send_records(make_items(2)) == 0
        assert far.wait_until_hung_up()
        assert transport.send_spans(make_spans(2)) == 0
        transport.close()
