"""The receivers of Redis and RabbitMQ tell the join whether spans were left unread."""

import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from collector.pipeline.input_clock import InputClock
from collector.receivers.ingest import Ingest
from collector.receivers.messages import Message, MessageReceiver
from collector.receivers.rabbitmq import RabbitMQReceiver
from collector.receivers.redis import RedisReceiver
from collector.settings import load_settings
from tests.collector.conftest import Start
from tests.support.processes import wait_until

MESSAGE = Message(is_spans=True, data=b"", dropped="", source="here")


class Scripted(MessageReceiver):
    """Asks a server that always answers the same, until the server goes away."""

    def __init__(self, ingest: Ingest, inputs: InputClock) -> None:
        super().__init__("scripted", "nowhere", ingest, inputs)
        self.gone = threading.Event()
        self.is_empty, self.asked = True, 0

    def consume(self) -> None:
        while not self.stopping.is_set():
            if self.gone.is_set():
                raise ConnectionError("gone")
            self.report_lag(self._ask)

    def _ask(self) -> bool:
        self.asked += 1
        return self.is_empty


@pytest.fixture
def ingest(start: Start) -> Ingest:
    return start().collector.ingest


def test_a_receiver_is_behind_until_its_server_has_nothing_left(ingest: Ingest) -> None:
    """Behind before the start, then not; behind again once the server is gone, at once."""
    inputs = InputClock(grace_s=0)
    receiver = Scripted(ingest, inputs)
    assert inputs.behind() == ("scripted",)
    receiver.start()
    try:
        wait_until(lambda: inputs.behind() == (), what="the receiver is caught up")
        assert receiver.asked <= 2  # not at each of its many rounds
        receiver.is_empty = False
        wait_until(lambda: inputs.behind() == ("scripted",), what="a lag")
        receiver.is_empty = True
        wait_until(lambda: inputs.behind() == (), what="the receiver is caught up again")
        receiver.gone.set()
        wait_until(lambda: inputs.behind() == ("scripted",), what="a server that went away")
    finally:
        receiver.stop()


@dataclass
class Channel:
    """Says how many messages wait in the queue of the spans."""

    ready: int

    def queue_declare(self, queue: str, *, passive: bool) -> SimpleNamespace:
        assert (queue, passive) == ("scouter.spans", True)
        return SimpleNamespace(method=SimpleNamespace(message_count=self.ready))


@pytest.mark.parametrize(
    ("ready", "waiting", "is_caught_up"),
    [(0, [], True), (1, [], False), (0, [(1, MESSAGE)], False)],
)
def test_rabbitmq_is_behind_by_what_waits_there_or_here(
    ingest: Ingest, ready: int, waiting: list[tuple[int, Message]], is_caught_up: bool
) -> None:
    receiver = RabbitMQReceiver(load_settings({"rabbitmq": "amqp://h"}), ingest)
    receiver.waiting = waiting
    assert receiver.is_caught_up(Channel(ready)) == is_caught_up


@dataclass
class Stream:
    """A stream with at most one entry, at second 100 of the server's clock."""

    entry: bytes | None

    def xrange(self, name: str, *, count: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
        assert (name, count) == ("scouter.spans", 1)
        return [(self.entry, {})] if self.entry else []

    def time(self) -> tuple[int, int]:
        return 100, 400_000


@pytest.mark.parametrize(
    ("entry", "is_caught_up"),
    [(None, True), (b"99901-3", True), (b"99900-0", False), (b"5-0", False)],
)
def test_redis_is_behind_by_an_entry_that_is_half_a_second_old(
    ingest: Ingest, entry: bytes | None, is_caught_up: bool
) -> None:
    """It is 100,400 ms: an entry of 99,901 is 499 ms old."""
    receiver = RedisReceiver(load_settings({"redis": "redis://h"}), ingest)
    assert receiver.is_caught_up(Stream(entry)) == is_caught_up


def test_the_collector_hands_its_clock_over(start: Start, tmp_path: Path) -> None:
    """No server answers there, so the join's time stands still."""
    service = start(redis=f"unix://{tmp_path}/none", rabbitmq="amqp://127.0.0.1:9")
    assert set(service.collector.pipeline.inputs.behind()) >= {"redis", "rabbitmq"}
    assert service.sample("scouter_join_input_caught_up") == 0
