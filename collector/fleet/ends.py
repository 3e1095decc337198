"""The ends of the topic's partitions, and how far the store of the fleet is behind them."""

import threading
import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from kafka import KafkaConsumer, errors
from kafka.structs import TopicPartition

from collector.fleet.store import FleetStore
from collector.log.brokers import Brokers
from collector.receivers.kafka.settings import KafkaSettings
from collector.receivers.lag import Backlog
from scouter.errors import TransientError
from scouter.transport.kafka_client import connect, notes_of

_TIMEOUT_MS: Final = 5_000
_POLL_S: Final = 0.05


def name_of(part: int) -> str:
    """The name of a partition, in series and words."""
    return f"partition {part}"


class Ends:
    """Asks the brokers for the ends of all partitions of a topic; any thread.

    Args:
        settings: Brokers, topic, credentials.
        partitions: Number of the topic's partitions.
    """

    def __init__(self, settings: KafkaSettings, partitions: int) -> None:
        self._settings = settings
        self._partitions = [TopicPartition(settings.topic, each) for each in range(partitions)]
        self._lock = threading.Lock()
        self._consumer: Any = None

    def now(self) -> dict[int, int]:
        """By partition the offset of the message that comes next.

        Raises:
            TransientError: No broker answers.
        """
        with self._lock:
            try:
                if self._consumer is None:
                    settings = self._settings.client() | {"group_id": None}
                    self._consumer = connect(KafkaConsumer, settings)
                found = self._consumer.end_offsets(self._partitions, timeout_ms=_TIMEOUT_MS)
            except Exception as error:  # the client raises far more than KafkaError
                self._close()
                if not isinstance(error, errors.KafkaError | OSError):
                    raise
                raise TransientError(f"Kafka says nothing: {error}{notes_of(error)}") from error
            return {each.partition: found[each] for each in self._partitions}

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._close()

    def _close(self) -> None:
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            with suppress(errors.KafkaError):
                consumer.close()


class FleetLag:
    """How far the store is behind each partition; one thread looks, any may ask.

    Args:
        ends: Says where partitions end.
        store: Says how far they are stored.
    """

    def __init__(self, ends: Ends, store: FleetStore) -> None:
        self._ends, self._store = ends, store
        self.brokers: Final = Brokers()
        """Every partition is one whose lag holds up who waits for any."""
        self._backlogs: defaultdict[int, Backlog] = defaultdict(Backlog)
        self.messages: Mapping[int, int] = {}
        """By partition the messages that were not stored at the last look."""

    def look(self) -> None:
        """Look once.

        Raises:
            TransientError: Kafka or the store does not answer; the lag grows until they do.
        """
        stored, ends = self._store.offsets(), self._ends.now()
        for part, end in ends.items():
            name, at = name_of(part), stored.get(part, 0)
            if part not in self._backlogs:
                self.brokers.add(name)
            behind_s = self._backlogs[part].behind_s({part: end}, {part: at})
            self.brokers.report(name, behind_s)
        self.messages = {part: max(0, end - stored.get(part, 0)) for part, end in ends.items()}

    def catch_up(self, timeout_s: float) -> bool:
        """Wait until everything that is in the topic now is stored; False after the time."""
        until = time.monotonic() + timeout_s
        try:
            wanted = {part: end for part, end in self._ends.now().items() if end}
            while any(self._store.offsets().get(part, 0) < end for part, end in wanted.items()):
                if time.monotonic() >= until:
                    return False
                time.sleep(_POLL_S)
        except TransientError:
            return False
        return True
