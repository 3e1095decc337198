"""Records and spans over RabbitMQ with publisher confirms; needs the extra `rabbitmq`.

A message is one batch: the body of `POST /v1/records`, or an OTLP `ExportTraceServiceRequest`;
a header reports what was dropped.
"""

import contextlib
import ssl
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from scouter.errors import ConfigError, ScouterError, TransientError
from scouter.transport.drops import DROPPED_HEADER, NONE_DROPPED, Dropped, dropped_text
from scouter.transport.otlp import OtlpSpans
from scouter.transport.port import RecordItem, TooLargeError, encode_records

if TYPE_CHECKING:
    from scouter.transport.config import RabbitMQConfig


try:
    import pika
    from pika import exceptions
except ImportError as missing:
    raise ConfigError(
        "RabbitMQConfig needs a client: pip install 'scouter-agents[rabbitmq]'"
    ) from missing


_PERSISTENT: Final = 2
_NOT_FOUND: Final = 404


class RabbitMQTransport(OtlpSpans):
    """A connection to one RabbitMQ server, made anew after trouble and after idle times.

    Args:
        config: Address, credentials, queues.
        clock: Monotonic seconds.
    """

    def __init__(
        self, config: "RabbitMQConfig", clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._config, self._clock = config, clock
        self._connection: Any = None
        self._channel: Any = None
        self._used_s = 0.0

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records in one message; see `Transport`."""
        data, unencodable = encode_records(items)
        self._publish(self._config.records_queue, data, dropped)
        return unencodable

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans in one message; see `Transport`."""
        self._publish(self._config.spans_queue, data, dropped)
        return 0

    def close(self) -> None:
        """Close the connection."""
        connection, self._connection, self._channel = self._connection, None, None
        if connection is not None:
            with contextlib.suppress(exceptions.AMQPError):  # it is closed already
                connection.close()

    def _publish(self, queue: str, data: bytes, dropped: Dropped) -> None:
        headers = {DROPPED_HEADER: dropped_text(dropped)} if dropped else None
        properties = pika.BasicProperties(delivery_mode=_PERSISTENT, headers=headers)
        try:
            self._opened().basic_publish("", queue, data, properties, mandatory=True)
        except (exceptions.AMQPError, OSError) as error:
            self.close()
            raise sorted_error(f"queue {queue!r} on {self._config.address}", error) from error
        self._used_s = self._clock()

    def _opened(self) -> Any:  # noqa: ANN401 - untyped client
        # Nobody answers the server's heartbeats between two batches.
        if self._channel is not None and self._clock() - self._used_s > self._config.timeout_s / 2:
            self.close()
        if self._channel is None:
            config = self._config
            self._connection = open_connection(
                config.address, config.username, config.password.get_secret_value(),
                config.ssl_cafile, config.timeout_s,
            )  # fmt: skip
            self._channel = open_channel(
                self._connection, (config.records_queue, config.spans_queue)
            )
            self._channel.confirm_delivery()
        return self._channel


def open_connection(
    address: str, username: str, password: str, ssl_cafile: str | None, timeout_s: float
) -> Any:  # noqa: ANN401 - untyped client
    """Connect.

    Args:
        address: `amqp://HOST:PORT/VHOST` or `amqps://…`.
        username: User.
        password: Its password.
        ssl_cafile: PEM file of the authority that signed the server's certificate.
        timeout_s: For connecting; half of it is the interval of heartbeats.

    Raises:
        pika.exceptions.AMQPError, OSError: As `sorted_error` takes them.
        ConfigError: The address or the file cannot be read.
    """
    try:
        parameters = pika.URLParameters(address)
        if address.startswith("amqps:") and ssl_cafile:
            context = ssl.create_default_context(cafile=ssl_cafile)
            parameters.ssl_options = pika.SSLOptions(context, parameters.host)
    except (ValueError, OSError) as error:
        raise ConfigError(f"RabbitMQ {address}: {error}") from error
    parameters.credentials = pika.PlainCredentials(username, password, erase_on_connect=True)
    parameters.socket_timeout = parameters.stack_timeout = timeout_s
    parameters.blocked_connection_timeout = timeout_s
    parameters.heartbeat = max(1, int(timeout_s / 2))
    return pika.BlockingConnection(parameters)


def open_channel(connection: Any, queues: Sequence[str]) -> Any:  # noqa: ANN401 - untyped client
    """Open a channel; a queue that is not there is made, one that is stays as it is."""
    channel = connection.channel()
    for queue in queues:
        try:
            channel.queue_declare(queue, passive=True)
        except exceptions.ChannelClosedByBroker as error:
            if error.reply_code != _NOT_FOUND:
                raise
            channel = connection.channel()
            channel.queue_declare(queue, durable=True)
    return channel


def sorted_error(where: str, error: Exception) -> ScouterError:
    """RabbitMQ's error as ours: try again, fix the settings, or give this batch up."""
    said = f"{where}: {type(error).__name__}: {error}"
    if isinstance(error, _SETTINGS):
        return ConfigError(said)
    if isinstance(error, exceptions.ChannelClosedByBroker):
        is_size = "message size" in str(error.reply_text)
        return TooLargeError(said) if is_size else ConfigError(said)
    return TransientError(said)


_SETTINGS: Final = (
    exceptions.AuthenticationError,
    exceptions.ProbableAuthenticationError,
    exceptions.ProbableAccessDeniedError,
)
