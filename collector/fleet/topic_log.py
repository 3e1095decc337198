"""The append side of the log on Kafka: what a gateway accepts is in the topic before it answers."""

import contextlib
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, cast

from kafka import KafkaAdminClient, KafkaProducer, errors
from kafka.admin import ConfigResource, ConfigResourceType  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType] - stubs of version 2

from collector.fleet.message import headers_of
from collector.fleet.split import Part, split, split_to_fit
from collector.log.port import Item, Kind
from collector.receivers.kafka.settings import KafkaSettings
from scouter.errors import ConfigError, TransientError
from scouter.transport.kafka_client import connect, notes_of

_log: Final = logging.getLogger(__name__)
PARTITIONS: Final = 12
"""Partitions of a topic that is made, if nobody says how many."""
MESSAGE_BYTES: Final = 5 * 2**20
"""Most bytes of a message, as a topic that is made is set up with: the largest span fits."""
IN_FLIGHT_BYTES: Final = 2**27
"""Bytes that wait for the brokers; what comes beyond is to come again."""
_FRAME_BYTES: Final = 4_096
"""Bytes of a message and its batch beside body, source, space and key."""
_BATCH_BYTES: Final = 2**18
_LIMIT_NAME: Final = "max.message.bytes"
DELIVERY_S: Final = 20.0
"""A message that no broker has by then is refused; its sender may try again."""
_BLOCK_S: Final = 1.0
RETRY_S: Final = 1.0
_CLOSE_S: Final = 10.0


class TopicLog:
    """A log whose items anybody may append; workers read it by partition, see `PartitionLog`.

    A producer of kafka-python takes nothing more for a partition of which a batch has expired. So
    after a failure another one takes its place, and shows by a message without a meaning that the
    brokers take messages; until then what comes is refused at once.

    Args:
        settings: Brokers, topic, credentials.
        partitions: Number of partitions of the topic; None for as many as it has.
        max_in_flight: Bytes that may wait for the brokers.
        delivery_s: See `DELIVERY_S`.

    Raises:
        TransientError: No broker answers.
        ConfigError: The topic has another number of partitions, or the brokers refuse us.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        partitions: int | None = None,
        *,
        max_in_flight: int = IN_FLIGHT_BYTES,
        delivery_s: float = DELIVERY_S,
    ) -> None:
        self._delivery_s: Final = delivery_s
        self._settings, self._max_in_flight = settings, max_in_flight
        self.topic = settings.topic
        self._lock = threading.Lock()
        self._in_flight = 0
        self._fault = ""
        self._limit = 0
        settings.check_files()
        self.partitions, self.topic_id = self._open(partitions)
        self._producer: Any = self._connect()
        self._wakes = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._mend, name="scouter-topic-log", daemon=True)
        self._thread.start()

    # --- opening ----------------------------------------------------------------------------

    def _open(self, partitions: int | None) -> tuple[int, str]:
        """Find the topic, or make it; its number of partitions and its id."""
        with _admin(self._settings) as admin:
            found = _describe(admin, self.topic)
            if found is None:
                self._make(admin, partitions or PARTITIONS)
                found = _describe(admin, self.topic)
            if found is None:
                raise TransientError(f"{self._where}: the topic was made, and is not there yet")
            self._limit = _limit(admin, self.topic)
        number = len(found["partitions"])
        if partitions is not None and number != partitions:
            raise ConfigError(
                f"{self._where}: the topic has {number} partitions, not {partitions}. Traces would "
                f"be torn apart: go on with {number}, or let the workers read all of it first, and "
                "give the log another topic"
            )
        return number, str(found["topic_id"])

    def _make(self, admin: Any, partitions: int) -> None:  # noqa: ANN401 - untyped client
        try:
            wanted = {
                "num_partitions": partitions,
                "replication_factor": -1,
                "configs": {_LIMIT_NAME: str(MESSAGE_BYTES)},
            }
            admin.create_topics({self.topic: wanted})
        except errors.TopicAlreadyExistsError:  # another one was faster
            pass
        admin.wait_for_topics([self.topic])

    def _connect(self) -> Any:  # noqa: ANN401 - untyped client
        limit = self._limit
        settings = self._settings.client() | {
            "acks": "all",
            "enable_idempotence": True,
            "compression_type": "lz4",
            "linger_ms": 2,
            "batch_size": min(_BATCH_BYTES, limit // 2),
            "max_request_size": max(2**20, limit + _FRAME_BYTES),
            "max_block_ms": int(_BLOCK_S * 1000),
            "request_timeout_ms": int(self._delivery_s * 400),
            "delivery_timeout_ms": int(self._delivery_s * 1000),
            "metadata_max_age_ms": 30_000,
            "metrics_enabled": False,
        }
        try:
            producer = connect(KafkaProducer, settings)
            # The client loses this setting on its way: who deletes the topic wants no other one.
            producer._metadata.config["allow_auto_create_topics"] = False
            producer.partitions_for(self.topic)
        except errors.KafkaError as error:
            raise _sorted(self._where, error) from error
        return producer

    @property
    def _where(self) -> str:
        return f"topic {self.topic!r} at {self._settings.shown}"

    # --- appending --------------------------------------------------------------------------

    def append(self, item: Item) -> "Future[int]":
        """Append an item; see `Appends.append`. It has no one offset: the result is 0."""
        future: Future[int] = Future()
        future.set_running_or_notify_cancel()
        size = len(item.body)
        with self._lock:
            why, producer = self._refusal(size), self._producer
            if not why:
                self._in_flight += size
        if why:
            future.set_exception(TransientError(why))
            return future
        parts = self._parts(item)
        waiting = _Waiting(future, len(parts), lambda: self._done(size))
        for part in parts:
            self._send(producer, part, waiting)
        return future

    def _refusal(self, size: int) -> str:
        """Reason that nothing is taken now."""
        if self._is_closed:
            return f"{self._where}: the log is closed"
        if self._fault:
            return f"{self._where}: {self._fault}"
        if self._in_flight and self._in_flight + size > self._max_in_flight:
            return f"{self._where}: {self._in_flight} bytes wait for the brokers; come again later"
        return ""

    def _parts(self, item: Item) -> list[Part]:
        beside = _FRAME_BYTES + 4 * (len(item.source) + len(item.space))
        found: list[Part] = []
        for part in split(item, self.partitions):
            found += split_to_fit(part, self._limit - beside)
        return found

    def _send(self, producer: Any, part: Part, waiting: "_Waiting") -> None:  # noqa: ANN401 - untyped client
        def failed(error: BaseException) -> None:
            waiting.end(self._failed(producer, error))

        try:
            sent = producer.send(
                self.topic, bytes(part.item.body), part.key or None,
                headers=headers_of(part.item, self.partitions), partition=part.partition,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 the client raises far more than KafkaError
            failed(error)
        else:
            sent.add_callback(waiting.end)
            sent.add_errback(failed)

    def _done(self, size: int) -> None:
        with self._lock:
            self._in_flight -= size

    def _failed(self, producer: Any, error: BaseException) -> TransientError:  # noqa: ANN401 - untyped client
        why = _words(error)
        with self._lock:
            is_news = producer is self._producer and not self._is_closed
            if is_news:
                is_first, self._fault = not self._fault, why
                self._wakes.set()
                if is_first:
                    _log.warning("%s: %s", self._where, why)
        return TransientError(f"{self._where}: {why}")

    # --- mending ----------------------------------------------------------------------------

    def _mend(self) -> None:
        """Replace a producer that failed, once the brokers take messages again."""
        while True:
            self._wakes.wait()
            if self._is_closed:
                return
            self._wakes.clear()
            old, self._producer = self._producer, None
            if old is not None:
                _close(old, 0)
            try:
                self._look()
                producer = self._connect()
            except Exception as error:  # noqa: BLE001 it is tried again
                self._again(_words(error))
                continue
            try:
                self._probe(producer)
            except Exception as error:  # noqa: BLE001 it is tried again
                _close(producer, 0)
                self._again(_words(error))
                continue
            with self._lock:
                self._producer, self._fault = producer, ""
            _log.info("%s takes messages again", self._where)

    def _look(self) -> None:
        """Look at the topic again: at its limit, and whether it is still the same one."""
        with _admin(self._settings) as admin:
            found = _describe(admin, self.topic)
            if found is None:
                raise TransientError("the topic is gone; make it again, and start anew")
            number, topic_id = len(found["partitions"]), str(found["topic_id"])
            if (number, topic_id) != (self.partitions, self.topic_id):
                raise TransientError(
                    f"the topic was made anew, or has {number} partitions now instead of "
                    f"{self.partitions}; start anew"
                )
            self._limit = _limit(admin, self.topic)

    def _probe(self, producer: Any) -> None:  # noqa: ANN401 - untyped client
        item = Item(Kind.DROPS, self._settings.space, time.time_ns(), b"[]")
        headers = headers_of(item, self.partitions)
        sent = [
            producer.send(self.topic, b"[]", None, headers=headers, partition=number)
            for number in range(self.partitions)
        ]
        for each in sent:
            each.get(timeout=self._delivery_s)

    def _again(self, why: str) -> None:
        self._fault = why
        time.sleep(RETRY_S)
        self._wakes.set()

    @property
    def end(self) -> int:
        """0: partitions have offsets."""
        return 0

    @property
    def fault(self) -> str:
        """Reason that nothing can be appended now; empty if something can, as far as known."""
        return self._fault

    def close(self) -> None:
        """Send what waits, and end."""
        with self._lock:
            self._is_closed = True
            producer, self._producer = self._producer, None
        self._wakes.set()
        if producer is not None:
            _close(producer, _CLOSE_S)
        self._thread.join()


class _Waiting:
    """An item whose messages are on their way.

    Args:
        future: Of the item.
        count: Number of its messages.
        on_end: Called once nothing of it is on its way any more.
    """

    def __init__(self, future: "Future[int]", count: int, on_end: Callable[[], None]) -> None:
        self._future, self._left, self._on_end = future, count, on_end
        self._lock = threading.Lock()
        self._error: TransientError | None = None

    def end(self, outcome: object) -> None:
        """Note that a message is in the topic; with an error that it is not, as far as is known."""
        with self._lock:
            if isinstance(outcome, TransientError):
                self._error = self._error or outcome
            self._left -= 1
            is_left = self._left > 0
        if is_left:
            return
        self._on_end()
        if self._error is None:
            self._future.set_result(0)
        else:
            self._future.set_exception(self._error)


@contextlib.contextmanager
def _admin(settings: KafkaSettings) -> Any:  # noqa: ANN401 - untyped client
    where = f"brokers {settings.shown}"
    try:
        client = connect(KafkaAdminClient, settings.client() | {"request_timeout_ms": 10_000})
    except (errors.KafkaError, OSError) as error:
        raise _sorted(where, error) from error
    try:
        yield client
    except errors.KafkaError as error:
        raise _sorted(where, error) from error
    finally:
        client.close()


def _describe(admin: Any, topic: str) -> "dict[str, Any] | None":  # noqa: ANN401 - untyped client
    if topic not in admin.list_topics():
        return None
    found: dict[str, Any] = admin.describe_topics([topic])[0]
    return found


def _limit(admin: Any, topic: str) -> int:  # noqa: ANN401 - untyped client
    """Most bytes of a batch of messages that the topic takes."""
    resource = ConfigResource(ConfigResourceType.TOPIC, topic, cast(Any, {_LIMIT_NAME: None}))
    found = admin.describe_configs([resource], config_filter="all")
    return int(found["topic"][topic][_LIMIT_NAME]["value"])


def _close(producer: Any, timeout_s: float) -> None:  # noqa: ANN401 - untyped client
    try:
        producer.close(timeout=timeout_s)
    except Exception as error:  # noqa: BLE001 it waits for batches that never end
        _log.debug("kafka: closing a producer: %r", error)
        with contextlib.suppress(Exception):
            producer._sender.force_close()
            producer.close(timeout=1)


def _words(error: BaseException) -> str:
    if isinstance(error, TransientError | ConfigError):
        return str(error)
    return f"{type(error).__name__}: {error}{notes_of(error)}"


def _sorted(where: str, error: Exception) -> ConfigError | TransientError:
    said = f"{where}: {_words(error)}"
    settings = (errors.AuthorizationError, errors.SaslAuthenticationFailedError)
    return ConfigError(said) if isinstance(error, settings) else TransientError(said)
