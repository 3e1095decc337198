"""Spans and records from RabbitMQ. Messages are acknowledged after the store has them."""

from typing import Any, Final

from collector.log.brokers import Brokers
from collector.log.port import Kind
from collector.receivers.intake import Delivery, Intake
from collector.receivers.lag import Backlog
from collector.receivers.message_servers.receiver import MessageReceiver, ReadSize
from collector.settings.model import CollectorSettings
from scouter.transport.drops import DROPPED_HEADER
from scouter.transport.rabbitmq import open_channel, open_connection

_TIMEOUT_S: Final = 60.0
"""Also bounds how long a slow commit may keep the server waiting for a sign of life."""
_POLL_S: Final = 0.2


class RabbitMQReceiver(MessageReceiver):
    """Consumes both queues; what a dead collector had in hand the server delivers again.

    Args:
        settings: Address, queues, credentials.
        ingest: The way in.
        inputs: Is notified whether there are spans that were not read yet.
    """

    def __init__(
        self, settings: CollectorSettings, ingest: Intake, inputs: Brokers | None = None
    ) -> None:
        super().__init__("rabbitmq", settings.rabbitmq or "", ingest, inputs)
        self._settings = settings
        self._queues = (settings.rabbitmq_spans_queue, settings.rabbitmq_records_queue)
        self.waiting: list[tuple[int, Delivery]] = []
        """Messages in hand that are not stored yet, with the tags to acknowledge them by."""
        self._backlog = Backlog()
        self._size = ReadSize()
        self._consumers: list[str] = []
        """Tags of the consumers of this connection."""
        self._stored = 0
        """Messages with spans that were stored over this connection."""

    def consume(self) -> None:
        """Take messages as they come, a few at once."""
        settings = self._settings
        ca_file, password = settings.rabbitmq_ssl_cafile, settings.rabbitmq_password
        self.waiting, self._consumers, self._stored = [], [], 0
        self._backlog.clear()
        with open_connection(
            self.where,
            settings.rabbitmq_username or "",
            password.get_secret_value() if password else "",
            str(ca_file) if ca_file else None,
            _TIMEOUT_S,
        ) as connection:
            channel = open_channel(connection, self._queues)
            self._size = ReadSize()
            self._ask(channel)
            self.is_connected = True
            while not self.stopping.is_set():
                connection.process_data_events(time_limit=_POLL_S)
                if self.waiting and not self.ingest.is_full:
                    self._settle(channel)
                self.report_lag(lambda: self.behind_s(channel))

    def behind_s(self, channel: Any) -> float | None:  # noqa: ANN401 - untyped client
        """Seconds that this consumer is behind the end of the span queue; see `Backlog.behind_s`.

        The server does not tell which messages another collector has in hand.
        """
        queue = self._queues[0]
        found = channel.queue_declare(queue, passive=True)
        in_hand = sum(message.kind is Kind.SPANS for _, message in self.waiting)
        end = self._stored + in_hand + found.method.message_count
        return self._backlog.behind_s({queue: end}, {queue: self._stored})

    def _settle(self, channel: Any) -> None:  # noqa: ANN401 - untyped client
        batch, self.waiting = self.waiting, []
        before = self._size.count
        self._size.saw([len(message.data) for _, message in batch])
        if self._size.count != before:
            self._ask(channel)
        if self.store([message for _, message in batch]):
            for tag, message in batch:
                channel.basic_ack(tag)
                self._stored += message.kind is Kind.SPANS

    def _ask(self, channel: Any) -> None:  # noqa: ANN401 - untyped client
        """Consume both queues, with as many messages in hand as the last ones let expect."""
        for tag in self._consumers:
            channel.basic_cancel(tag)  # what it holds and has not handed out goes back
        channel.basic_qos(prefetch_count=self._size.count)
        self._consumers = [channel.basic_consume(queue, self._keep) for queue in self._queues]

    def _keep(self, channel: Any, method: Any, properties: Any, body: bytes) -> None:  # noqa: ANN401 - untyped client
        del channel
        headers: dict[str, object] = properties.headers or {}
        message = Delivery(
            kind=Kind.SPANS if method.routing_key == self._queues[0] else Kind.RECORDS,
            data=body,
            dropped=str(headers.get(DROPPED_HEADER, "")),
            source=f"rabbitmq:{method.routing_key}:{method.delivery_tag}",
        )
        self.waiting.append((method.delivery_tag, message))
