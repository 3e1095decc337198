"""Duties of every endpoint for results. A new protocol adds one small subclass."""

import re
import socket
from collections.abc import Iterator
from typing import ClassVar

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from pydantic import SecretStr

from collector.results.endpoint import Endpoint, connect
from scouter.errors import DataError, TransientError
from tests.support.otlp_logs_server import Fault, LogsServer
from tests.support.processes import wait_until
from tests.support.relay import Relay

HEADERS = {"Authorization": SecretStr("Bearer s3cret"), "X-Team": SecretStr("blue")}


def request_of(*names: str, text: str = "") -> ExportLogsServiceRequest:
    """A request with a log record for each name of an evaluation."""
    request = ExportLogsServiceRequest()
    logs = request.resource_logs.add().scope_logs.add()
    for name in names:
        record = logs.log_records.add(event_name="gen_ai.evaluation.result")
        value = AnyValue(string_value=name)
        record.attributes.append(KeyValue(key="gen_ai.evaluation.name", value=value))
        record.body.string_value = text
    return request


def names_of(server: LogsServer) -> list[str]:
    """The evaluations that a server took, in order."""
    return [each.attributes["gen_ai.evaluation.name"] for each in server.events]


class EndpointContract:
    """The tests; a subclass gives the fixture `server`, and what faults look like there."""

    passing: ClassVar[list[Fault]]
    """Answers after which the same is sent again: all that are not about the content."""
    final: ClassVar[list[Fault]]
    """Answers that say that what was sent will never be taken."""

    @pytest.fixture
    def server(self) -> Iterator[LogsServer]:
        """A running server."""
        raise NotImplementedError

    @pytest.fixture
    def endpoint(self, server: LogsServer) -> Iterator[Endpoint]:
        """The endpoint under test."""
        endpoint = connect(server.url, HEADERS, timeout_s=5)
        yield endpoint
        endpoint.close()

    def test_takes_all_with_the_headers(self, server: LogsServer, endpoint: Endpoint) -> None:
        request = request_of("a", "b")

        assert endpoint.send(request) == 0
        assert endpoint.send(request_of("c")) == 0
        assert names_of(server) == ["a", "b", "c"]
        sent = request.resource_logs[0].scope_logs[0].log_records
        assert [each.log for each in server.events[:2]] == list(sent)
        for headers in server.requests:
            assert (headers["authorization"], headers["x-team"]) == ("Bearer s3cret", "blue")
            assert "scouter-collector" in headers["user-agent"]

    def test_what_is_sent_is_compressed(self, server: LogsServer) -> None:
        with Relay(server.port) as relay:
            endpoint = connect(_through(relay, server), {})
            endpoint.send(request_of("a", text="x" * 500_000))
            endpoint.close()
            assert 0 < relay.bytes_in < 50_000
        assert server.events[0].log.body.string_value == "x" * 500_000

    def test_is_sent_again_unless_it_is_about_the_content(
        self, server: LogsServer, endpoint: Endpoint
    ) -> None:
        for fault in self.passing:
            server.faults.append(fault)
            with pytest.raises(TransientError) as caught:
                endpoint.send(request_of("a"))
            assert caught.value.retry_after_s == fault.retry_after_s, fault
            assert server.url in str(caught.value)
            assert "s3cret" not in str(caught.value)
        assert names_of(server) == []
        assert endpoint.send(request_of("a")) == 0

    def test_is_refused_for_good_if_it_is(self, server: LogsServer, endpoint: Endpoint) -> None:
        for fault in self.final:
            server.faults.append(fault)
            with pytest.raises(DataError, match=re.escape(fault.text)):
                endpoint.send(request_of("a"))
        server.refused = frozenset({"bad"})
        with pytest.raises(DataError):
            endpoint.send(request_of("good", "bad"))
        assert endpoint.send(request_of("good")) == 0
        assert names_of(server) == ["good"]

    @pytest.mark.parametrize(("said", "counted"), [(0, 0), (2, 2), (-3, 0)])
    def test_partial_success_is_counted(
        self, server: LogsServer, endpoint: Endpoint, said: int, counted: int
    ) -> None:
        server.partial = said
        assert endpoint.send(request_of("a", "b", "c")) == counted
        assert names_of(server) == ["a", "b", "c"]

    def test_an_outage_is_waited_for(self, server: LogsServer, endpoint: Endpoint) -> None:
        endpoint.send(request_of("a"))
        server.stop()
        with pytest.raises(TransientError) as caught:
            endpoint.send(request_of("b"))
        assert caught.value.retry_after_s is None
        server.start()
        wait_until(lambda: _is_taken(endpoint, "b"), what="the next connection")
        assert names_of(server) == ["a", "b"]

    def test_an_endpoint_that_never_answers(self, server: LogsServer) -> None:
        server.stop()
        with socket.create_server(("127.0.0.1", server.port)):
            endpoint = connect(server.url, {}, timeout_s=0.3)
            with pytest.raises(TransientError):
                endpoint.send(request_of("a"))
            endpoint.close()

    def test_a_connection_that_died_in_silence_is_replaced(self, server: LogsServer) -> None:
        """As after a firewall forgot it: nothing is answered on it, and nobody closes it."""
        with Relay(server.port) as relay:
            endpoint = connect(_through(relay, server), {}, timeout_s=1)
            endpoint.send(request_of("a"))
            relay.silence()
            with pytest.raises(TransientError):
                endpoint.send(request_of("b"))
            assert endpoint.send(request_of("c")) == 0
            endpoint.close()
            assert relay.connections == 2
        assert names_of(server) == ["a", "c"]


def _through(relay: Relay, server: LogsServer) -> str:
    return server.url.replace(str(server.port), str(relay.port))


def _is_taken(endpoint: Endpoint, name: str) -> bool:
    try:
        return endpoint.send(request_of(name)) == 0
    except TransientError:
        return False
