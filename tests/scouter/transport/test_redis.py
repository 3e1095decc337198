"""Records and spans over a real Redis server."""

import json
import uuid
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pydantic import SecretStr, ValidationError

from scouter.errors import ConfigError, TransientError
from scouter.model.otlp import decode_request
from scouter.model.span import Span
from scouter.transport.config import RedisConfig
from scouter.transport.redis import open_client
from tests.contracts.transport import TransportContract
from tests.contracts.transport_data import make_items
from tests.support.redis_server import RedisServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A running server of this module."""
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def config(server: RedisServer) -> RedisConfig:
    """Streams that no other test uses."""
    name = uuid.uuid4().hex[:8]
    return RedisConfig(
        address=server.address,
        records_stream=f"records-{name}",
        spans_stream=f"spans-{name}",
        timeout_s=5,
    )


@pytest.fixture
def client(server: RedisServer) -> Iterator[Any]:
    """A client of the test's own."""
    opened = open_client(server.address, None, None, None, 5)
    yield opened
    opened.close()


class TestContract(TransportContract):
    """The whole contract over Redis."""

    @pytest.fixture(autouse=True)
    def running(self, server: RedisServer, config: RedisConfig, client: Any) -> None:
        self.server, self._config, self.client = server, config, client

    def config(self) -> RedisConfig:
        return self._config

    @contextmanager
    def away(self) -> Generator[None]:
        self.server.stop()
        try:
            yield
        finally:
            self.server.start()

    def entries(self, stream: str) -> list[dict[bytes, bytes]]:
        return [fields for _, fields in self.client.xrange(stream)]

    def received_drops(self) -> list[str]:
        found = [each.get(b"scouter-dropped") for each in self.entries(self._config.records_stream)]
        return [each.decode() for each in found if each]

    def received_records(self, count: int) -> list[dict[str, Any]]:
        entries = self.entries(self._config.records_stream)
        found = [record for each in entries for record in json.loads(each[b"data"])["records"]]
        assert len(found) >= count
        return found

    def received_spans(self, count: int) -> list[Span]:
        entries = self.entries(self._config.spans_stream)
        requests = [ExportTraceServiceRequest.FromString(each[b"data"]) for each in entries]
        found = [span for request in requests for span in decode_request(request).spans]
        assert len(found) >= count
        return found


def test_full_memory_is_worth_another_try(config: RedisConfig, client: Any) -> None:
    transport = config.connect()
    client.set("filler", "x" * 2_000_000)
    client.config_set("maxmemory", "1mb")
    try:
        with pytest.raises(TransientError, match="maxmemory"):
            transport.send_records(make_items(1))
    finally:
        client.config_set("maxmemory", "0")
    assert transport.send_records(make_items(1)) == 0
    transport.close()


def test_a_wrong_password_is_not_worth_another_try(config: RedisConfig) -> None:
    wrong = config.model_copy(update={"username": "agent", "password": SecretStr("s3cret")})
    transport = wrong.connect()
    with pytest.raises(ConfigError, match="AuthenticationError") as caught:
        transport.send_records(make_items(1))
    transport.close()

    assert "s3cret" not in str(caught.value) + repr(wrong) + wrong.model_dump_json()


def test_a_name_that_is_something_else_is_not_worth_another_try(
    config: RedisConfig, client: Any
) -> None:
    client.set(config.records_stream, "a text")
    transport = config.connect()
    with pytest.raises(ConfigError, match=f"{config.records_stream}.*WRONGTYPE"):
        transport.send_records(make_items(1))
    transport.close()


@pytest.mark.parametrize("address", ["localhost:6379", "redis://user:secret@host", ""])
def test_an_address_that_cannot_work_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="address"):
        RedisConfig(address=address)
