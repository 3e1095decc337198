"""Records and spans over Apache Kafka; needs the extra `kafka`."""

import contextlib
import ssl
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from scouter.errors import ConfigError, DataError, ScouterError, TransientError
from scouter.model.otlp_cut import cut_request
from scouter.transport.drops import DROPPED_HEADER, NONE_DROPPED, Dropped, dropped_text
from scouter.transport.guard import GUARD
from scouter.transport.halving import halves, requests_by_trace
from scouter.transport.otlp import OtlpSpans
from scouter.transport.port import NOTHING_WRITTEN, RecordItem, encode_record

try:
    from kafka import KafkaProducer, errors
except ImportError as missing:
    raise ConfigError(
        "KafkaConfig needs a client: pip install 'scouter-agents[kafka]'"
    ) from missing

from scouter.transport.kafka_client import connect, notes_of, partition_of

if TYPE_CHECKING:
    from scouter.transport.config import KafkaConfig


Message = tuple[str, bytes, bytes, int]
"""Topic, key, value, and how many records or spans it carries."""

_FRAME_BYTES: Final = 65_536
"""Room that the client wants for key, headers and framing above the value."""


class KafkaTransport(OtlpSpans):
    """A producer that returns from a send only when the brokers have the batch (acks=all).

    Args:
        config: Brokers, topics, credentials.
        producer: For tests: another producer.

    Raises:
        TransientError: No broker answers.
        ConfigError: The settings are refused.
    """

    def __init__(
        self,
        config: "KafkaConfig",
        producer: Any = None,  # noqa: ANN401 - untyped client
    ) -> None:
        self._config = config
        self._producer: Any = producer or _connect(config)

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records, one message each; see `Transport`."""
        topic = self._config.records_topic
        written = [record_message(topic, item) for item in items]
        messages = [message for message in written if message is not None]
        if not messages:
            raise DataError(NOTHING_WRITTEN)
        return len(items) - len(messages) + self._send(messages, dropped)

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans, each message with spans of one trace only; see `Transport`."""
        messages = span_messages(self._config.spans_topic, data, self._config.max_message_bytes)
        return self._send(list(messages), dropped)

    def close(self) -> None:
        """Close the producer."""
        producer, self._producer = self._producer, None
        if producer is not None:
            _close(producer, min(5.0, self._config.timeout_s))

    def _send(self, messages: Sequence[Message], dropped: Dropped) -> int:
        if self._producer is None:
            self._producer = _connect(self._config)
        try:
            return self._send_by(self._producer, messages, dropped)
        except TransientError:
            # kafka-python 3.0: a partition whose batch has expired takes nothing ever again.
            producer, self._producer = self._producer, None
            _close(producer, 0)
            raise

    def _send_by(
        self,
        producer: Any,  # noqa: ANN401 - untyped client
        messages: Sequence[Message],
        dropped: Dropped,
    ) -> int:
        refused = 0
        # The first message of the batch reports drops; were it lost, so would be the whole batch.
        headers = [(DROPPED_HEADER, dropped_text(dropped).encode())] if dropped else None
        futures: list[tuple[Any, int]] = []
        where = f"brokers {self._config.brokers}"
        try:
            for topic, key, value, count in messages:
                partitions = sorted(producer.partitions_for(topic))
                partition = partitions[partition_of(key, len(partitions))]
                where = f"topic {topic!r} on {self._config.brokers}"
                try:
                    future = producer.send(topic, value, key, headers=headers, partition=partition)
                except errors.MessageSizeTooLargeError:
                    refused += count
                except (ValueError, AssertionError) as error:  # it has just forgotten the partition
                    raise TransientError(f"{where}: {error}") from error
                else:
                    futures.append((future, count))
                    headers = None
            producer.flush(self._config.timeout_s)
            return refused + sum(_lost(future, count) for future, count in futures)
        except ScouterError:
            raise
        except Exception as error:
            raise _sorted_error(where, error) from error


def _connect(config: "KafkaConfig") -> KafkaProducer:
    try:
        return connect(KafkaProducer, producer_settings(config))
    except (ValueError, TypeError, AssertionError, *_BAD_FILES) as error:
        raise ConfigError(f"KafkaConfig: {error}") from error
    except (errors.KafkaError, RuntimeError, OSError) as error:
        raise _sorted_error(f"brokers {config.brokers}", error) from error


def _close(producer: Any, timeout_s: float) -> None:  # noqa: ANN401 - untyped client
    try:
        producer.close(timeout=timeout_s)
    except Exception as error:  # noqa: BLE001 - what sending said is what counts, not this
        # It waits for batches that never end, and leaves thread and connections behind.
        GUARD.refuse("kafka", "closing with messages under way", error)
        with contextlib.suppress(Exception):
            producer._sender.force_close()
            producer.close(timeout=1)


def _lost(future: Any, count: int) -> int:  # noqa: ANN401 - untyped client
    """Items of a message that the broker refused for good; other failures are raised."""
    try:
        future.get(timeout=0)
    except _AT_FAULT:
        return count
    return 0


def producer_settings(config: "KafkaConfig") -> dict[str, Any]:
    """The settings of `kafka.KafkaProducer` for a configuration; nothing is connected."""
    timeout_ms = int(config.timeout_s * 1000)
    protocol = config.security_protocol
    if protocol is None:
        secure = config.ssl_cafile is not None
        protocol = "SASL_SSL" if config.username else "SSL" if secure else "PLAINTEXT"
    settings: dict[str, Any] = {
        "bootstrap_servers": [name.strip() for name in config.brokers.split(",") if name.strip()],
        "client_id": "scouter-sdk",
        "security_protocol": protocol,
        "ssl_cafile": config.ssl_cafile,
        "acks": "all",
        "compression_type": config.compression_type,
        # One send is one batch of ours: gather it, then `flush` sends all of it at once.
        "linger_ms": 20,
        "batch_size": 256 * 1024,
        "max_request_size": max(1_048_576, config.max_message_bytes + _FRAME_BYTES),
        "max_block_ms": timeout_ms,
        "bootstrap_timeout_ms": timeout_ms,
        "request_timeout_ms": max(1_000, timeout_ms // 2),
        "delivery_timeout_ms": max(2_000, timeout_ms),
        "metrics_enabled": False,
    }
    if config.username is not None:
        settings["sasl_mechanism"] = config.sasl_mechanism
        settings["sasl_plain_username"] = config.username
        secret = config.password
        settings["sasl_plain_password"] = secret.get_secret_value() if secret else ""
    return settings | config.config


def record_message(topic: str, item: RecordItem) -> Message | None:
    """One record as JSON, keyed by its trace or else by its uid; None if it cannot be written."""
    value = encode_record(item)
    if value is None:
        return None
    key = str(item.trace_id or item.uid).encode("utf-8", errors="replace")
    return topic, key, value, 1


def span_messages(topic: str, data: bytes, max_bytes: int) -> Iterator[Message]:
    """Spans as OTLP requests of one trace each, keyed by the trace id in hex.

    Args:
        topic: Topic of the messages.
        data: An `ExportTraceServiceRequest` with spans of any traces.
        max_bytes: A trace that needs more is split over several messages, a span cut.
    """
    for trace_id, request, count in requests_by_trace(data):
        for value, part in _values(request, count, max_bytes):
            yield topic, trace_id.hex().encode(), value, part


def _values(
    request: ExportTraceServiceRequest, count: int, max_bytes: int
) -> Iterator[tuple[bytes, int]]:
    value = request.SerializeToString()
    if len(value) <= max_bytes or count == 1:
        yield (value if len(value) <= max_bytes else cut_request(value, max_bytes)), count
        return
    for half, part in halves(request, count):
        yield from _values(half, part, max_bytes)


def _sorted_error(where: str, error: Exception) -> ScouterError:
    """Kafka's error as ours: fix the settings, or try again.

    The client's own word, `retriable`, is about one request. A new client mends any other fault of
    a client (it was closed, lost the order of its messages, or does not know); no batch is given up
    for such a fault.
    """
    said = f"{where}: {type(error).__name__}: {error}{notes_of(error)}"
    return ConfigError(said) if isinstance(error, _SETTINGS) else TransientError(said)


_AT_FAULT: Final = (
    errors.InvalidRecordError,
    errors.InvalidTimestampError,
    errors.MessageSizeTooLargeError,
    errors.RecordListTooLargeError,
)
"""Errors about a message itself, which another try would raise again."""

_BAD_FILES: Final = (
    FileNotFoundError,
    IsADirectoryError,
    NotADirectoryError,
    PermissionError,
    ssl.SSLError,
)
"""Errors for bad files of certificates and keys, raised before any connection is made."""

_SETTINGS: Final = (
    errors.AuthorizationError,
    errors.IllegalSaslStateError,
    errors.InvalidRequiredAcksError,
    errors.InvalidTopicError,
    errors.KafkaConfigurationError,
    errors.PolicyViolationError,
    errors.SaslAuthenticationFailedError,
    errors.UnsupportedCodecError,
    errors.UnsupportedCompressionTypeError,
    errors.UnsupportedForMessageFormatError,
    errors.UnsupportedSaslMechanismError,
    errors.UnsupportedVersionError,
)
