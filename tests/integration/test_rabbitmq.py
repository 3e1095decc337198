"""The whole way over a real RabbitMQ server."""

import uuid
from collections.abc import Iterator
from typing import Any

import pika
import pytest

from scouter.transport.config import RabbitMQConfig
from tests.contracts.message_server import MessageServerContract
from tests.support.processes import wait_until
from tests.support.rabbitmq_server import RabbitServer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitServer]:
    """A running server of this module."""
    running = RabbitServer(tmp_path_factory.mktemp("rabbitmq"))
    running.start()
    yield running
    running.stop()


class TestRabbitMQ(MessageServerContract):
    """Durable queues with publisher confirms."""

    @pytest.fixture
    def running(self, server: RabbitServer) -> None:
        self.server = server
        name = uuid.uuid4().hex[:8]
        self.spans, self.records = f"spans-{name}", f"records-{name}"

    def config(self) -> RabbitMQConfig:
        return RabbitMQConfig(
            address=self.server.address, spans_queue=self.spans, records_queue=self.records
        )

    def flags(self) -> list[str]:
        return [
            "--rabbitmq", self.server.address, "--rabbitmq-spans-queue", self.spans,
            "--rabbitmq-records-queue", self.records,
            "--config", str(self.server.collector_config),
        ]  # fmt: skip

    def put(self, data: bytes, *, is_spans: bool) -> None:
        with self.server.connect() as connection:
            channel = connection.channel()
            queue = self.spans if is_spans else self.records
            channel.queue_declare(queue, durable=True)
            headers = {"scouter-dropped": "full=2"}
            channel.confirm_delivery()
            channel.basic_publish("", queue, data, pika.BasicProperties(headers=headers))

    def left(self) -> int:
        """Without the messages that a consumer has in hand: those count once it is gone."""
        return sum(each.message_count for each in self._queues())

    def left_behind(self) -> int:
        """A queue takes back what a consumer had in hand as it forgets the consumer."""
        wait_until(
            lambda: not any(each.consumer_count for each in self._queues()),
            what="no consumer is left",
        )
        return self.left()

    def _queues(self) -> list[Any]:
        with self.server.connect() as connection:
            channel = connection.channel()
            return [
                channel.queue_declare(name, passive=True).method
                for name in (self.spans, self.records)
            ]

    def restart(self) -> None:
        self.server.stop()
        self.server.start()
