"""Records and spans over a real RabbitMQ server."""

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
from scouter.transport import rabbitmq
from scouter.transport.config import RabbitMQConfig
from tests.contracts.transport import TransportContract
from tests.contracts.transport_data import make_items
from tests.support.rabbitmq_server import RabbitServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """A running server of this module."""
    running = RabbitServer(tmp_path_factory.mktemp("rabbitmq"))
    running.start()
    yield running
    running.stop()


@pytest.fixture
def config(server: RabbitServer) -> RabbitMQConfig:
    """Queues that no other test uses."""
    name = uuid.uuid4().hex[:8]
    return RabbitMQConfig(
        address=server.address,
        records_queue=f"records-{name}",
        spans_queue=f"spans-{name}",
        timeout_s=5,
    )


class TestContract(TransportContract):
    """The whole contract over RabbitMQ."""

    @pytest.fixture(autouse=True)
    def running(self, server: RabbitServer, config: RabbitMQConfig) -> None:
        self.server, self._config = server, config
        self.taken: dict[str, list[tuple[Any, bytes]]] = {}

    def config(self) -> RabbitMQConfig:
        return self._config

    @contextmanager
    def away(self) -> Generator[None]:
        self.server.stop()
        try:
            yield
        finally:
            self.server.start()

    def messages(self, queue: str) -> list[tuple[Any, bytes]]:
        """Everything that was ever read from a queue."""
        taken = self.taken.setdefault(queue, [])
        with self.server.connect() as connection:
            channel = connection.channel()
            while True:
                method, properties, body = channel.basic_get(queue, auto_ack=True)
                if method is None:
                    return taken
                taken.append((properties, body))

    def received_drops(self) -> list[str]:
        found = [properties.headers for properties, _ in self.messages(self._config.records_queue)]
        return [headers["scouter-dropped"] for headers in found if headers]

    def received_records(self, count: int) -> list[dict[str, Any]]:
        bodies = [body for _, body in self.messages(self._config.records_queue)]
        found = [record for body in bodies for record in json.loads(body)["records"]]
        assert len(found) >= count
        return found

    def received_spans(self, count: int) -> list[Span]:
        bodies = [body for _, body in self.messages(self._config.spans_queue)]
        requests = map(ExportTraceServiceRequest.FromString, bodies)
        found = [span for request in requests for span in decode_request(request).spans]
        assert len(found) >= count
        return found


def test_a_message_is_confirmed_and_survives_a_restart(
    server: RabbitServer, config: RabbitMQConfig
) -> None:
    transport = config.connect()
    transport.send_records(make_items(1))
    transport.close()
    server.stop()
    server.start()

    with server.connect() as connection:
        declared = connection.channel().queue_declare(config.records_queue, passive=True)
    assert declared.method.message_count == 1


def test_a_full_queue_is_worth_another_try(server: RabbitServer, config: RabbitMQConfig) -> None:
    """The server's own refusal, which comes as a negative confirm."""
    bound = {"x-max-length": 1, "x-overflow": "reject-publish"}
    with server.connect() as connection:
        connection.channel().queue_declare(config.records_queue, durable=True, arguments=bound)
    transport = config.connect()
    assert transport.send_records(make_items(1)) == 0
    with pytest.raises(TransientError, match=f"{config.records_queue}.*NackError"):
        transport.send_records(make_items(1))
    transport.close()


def test_a_queue_that_somebody_deleted_is_made_again(
    server: RabbitServer, config: RabbitMQConfig
) -> None:
    transport = config.connect()
    transport.send_records(make_items(1))
    with server.connect() as connection:
        connection.channel().queue_delete(config.records_queue)
    with pytest.raises(TransientError, match="UnroutableError"):
        transport.send_records(make_items(1))

    assert transport.send_records(make_items(1)) == 0
    transport.close()


def test_an_idle_connection_is_made_anew(
    server: RabbitServer, config: RabbitMQConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server closes a connection whose heartbeats nobody answers: after half of 5 s."""
    times = [0.0]
    opened: list[float] = []
    connect = rabbitmq.open_connection

    def counted(*arguments: Any) -> Any:
        opened.append(times[-1])
        return connect(*arguments)

    monkeypatch.setattr(rabbitmq, "open_connection", counted)
    transport = rabbitmq.RabbitMQTransport(config, lambda: times[-1])
    for now in (0.0, 2.4, 4.8, 7.4):
        times.append(now)
        assert transport.send_records(make_items(1)) == 0
    transport.close()

    assert opened == [0.0, 7.4]


def test_a_wrong_password_is_not_worth_another_try(config: RabbitMQConfig) -> None:
    wrong = config.model_copy(update={"password": SecretStr("s3cret")})
    with pytest.raises(ConfigError, match="AuthenticationError") as caught:
        wrong.connect().send_records(make_items(1))

    assert "s3cret" not in str(caught.value) + repr(wrong) + wrong.model_dump_json()


def test_the_user_guest_is_for_ones_own_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's queue elsewhere is written to by a password that everybody knows."""
    for name in ("RABBITMQ_USERNAME", "RABBITMQ_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ValidationError, match=r"mq\.example: .* set RABBITMQ_USERNAME"):
        RabbitMQConfig(address="amqps://mq.example/prod")
    for address in ("amqp://localhost:5672", "amqp://[::1]:5672/prod"):
        assert RabbitMQConfig(address=address).username == "guest"
    monkeypatch.setenv("RABBITMQ_PASSWORD", "s3cret")
    RabbitMQConfig(address="amqps://mq.example/prod", username="agent")


@pytest.mark.parametrize("address", ["localhost:5672", "amqp://user:secret@host", ""])
def test_an_address_that_cannot_work_is_refused(address: str) -> None:
    with pytest.raises(ValidationError, match="address"):
        RabbitMQConfig(address=address)
