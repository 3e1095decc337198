"""The common part of the Redis and RabbitMQ receivers: a thread that stores messages for good.

And the name that a process has among the consumers of a broker.
"""

import logging
import re
import socket
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from collector.items.drop_reports import merge_dropped
from collector.log.brokers import Brokers
from collector.receivers.intake import Delivery, Intake
from collector.settings.model import CollectorSettings
from scouter.errors import TransientError

FILE_NAME: Final = "consumer"
"""Name of the file in the data folder that distinguishes this collector's consumer from others.

No backup copies it, since a collector that runs on a copy is another consumer.
"""
_making: Final = threading.Lock()


def consumer_name(data: Path) -> str:
    """The machine's name and the store's number, `HOST-0123456789ab`.

    By it a broker knows who comes back after a crash, and two collectors on one machine have
    two. The number is made at the first call.

    Args:
        data: The data folder, which no other process has open.

    Raises:
        OSError: The number cannot be stored.
    """
    with _making:  # the receivers of all brokers ask at once
        return f"{_host()}-{_number(data / FILE_NAME)}"


def member_name(settings: CollectorSettings) -> str:
    """The name of a process of a fleet, which has no folder; else `consumer_name`.

    Raises:
        OSError: The number of the folder cannot be stored.
    """
    if settings.role == "all":
        return consumer_name(settings.data)
    return settings.fleet_name or _host()


def _host() -> str:
    # Kafka takes letters, digits, dots, dashes and underscores, and at most 249 of them.
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:200]


def _number(file: Path) -> str:
    try:
        if found := file.read_text(encoding="ascii").strip():
            return found
    except FileNotFoundError:  # the first start
        pass
    number = uuid.uuid4().hex[:12]
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(f"{number}\n", encoding="ascii")
    partial.replace(file)
    return number


_log: Final = logging.getLogger(__name__)
RETRY_S: Final = 1.0
_REPORT_S: Final = 0.5
_FIRST: Final = 8
_MOST: Final = 64
_BYTES: Final = 8 * 2**20


class MessageReceiver(ABC):
    """A consumer thread. It outlives servers that go away and come back.

    Args:
        name: For the thread and the log.
        where: The server, without credentials.
        ingest: The way in.
        inputs: Is notified, under the receiver's name, whether there are spans that were not read
            yet.
    """

    def __init__(
        self, name: str, where: str, ingest: Intake, inputs: Brokers | None = None
    ) -> None:
        self.name, self.where, self.ingest = name, where, ingest
        self._inputs = inputs or Brokers()
        self._inputs.add(name)
        self._reported = float("-inf")
        self.stopping = threading.Event()
        self.is_connected = False
        self._thread = threading.Thread(target=self._run, name=f"scouter-{name}")

    def start(self) -> None:
        """Begin to consume; a server that does not answer yet is waited for."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the messages in hand and acknowledge them."""
        self.stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    @abstractmethod
    def consume(self) -> None:
        """Connect, set `is_connected`, and consume until `stopping`; raises what goes wrong."""

    def store(self, messages: Sequence[Delivery]) -> bool:
        """Store messages, again and again until they are durable.

        Returns:
            False if it was given up because the service ends; nothing may be acknowledged then.
        """
        while True:
            try:
                taken = self.ingest.deliver(messages)
                for each in taken:
                    each.result()
                dropped = merge_dropped(message.dropped for message in messages)
                if dropped:  # last: what is not stored is stored again, and would tell it again
                    self.ingest.take_dropped(dropped).result()
            except TransientError as error:
                _log.warning("%s: the store does not take messages: %s", self.name, error)
                if self.stopping.wait(RETRY_S):
                    return False
            else:
                return True

    def report_lag(self, behind_s: Callable[[], float | None]) -> None:
        """Tell the join how far this receiver is; to be called between any two batches.

        Args:
            behind_s: Asks the server; called twice a second at most. Its result is the `behind_s`
                of `Brokers.report`.
        """
        if time.monotonic() >= self._reported + _REPORT_S:
            self._inputs.report(self.name, behind_s())
            self._reported = time.monotonic()

    def _run(self) -> None:
        while not self.stopping.is_set():
            try:
                self.consume()
            except Exception as error:  # noqa: BLE001 clients raise far more than their errors
                _log.warning("%s %s: %r; trying again", self.name, self.where, error)
                self.stopping.wait(RETRY_S)
            finally:
                self.is_connected = False
                self._inputs.report(self.name, None)


class ReadSize:
    """Few while messages are large, more while they are small; a power of two.

    It goes by the messages seen last, so that a single read may hold more than the bound: at most
    `count` messages of the largest size that the server takes.

    Args:
        max_bytes: Bytes that a read should hold at most.
    """

    def __init__(self, max_bytes: int = _BYTES) -> None:
        self._max_bytes = max_bytes
        self.count = _FIRST
        """Messages to ask for."""

    def saw(self, sizes: Sequence[int]) -> None:
        """Learn from what came in.

        Args:
            sizes: Bytes of each message.
        """
        if not sizes:
            return
        room = self._max_bytes // max(1, *sizes)
        while self.count > 1 and self.count > room:
            self.count //= 2
        if self.count < _MOST and self.count * 2 <= room:
            self.count *= 2
