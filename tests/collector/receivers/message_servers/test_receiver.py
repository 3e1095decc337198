"""The receivers of Redis and RabbitMQ tell the join whether spans were left unread."""

import threading
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from collector.log.brokers import Brokers
from collector.log.port import Kind
from collector.receivers.intake import Delivery, Intake
from collector.receivers.message_servers.rabbitmq import RabbitMQReceiver
from collector.receivers.message_servers.receiver import MessageReceiver
from collector.receivers.message_servers.redis import RedisReceiver
from collector.settings.load import load_settings
from tests.collector.conftest import Start
from tests.support.processes import wait_until

MESSAGE = Delivery(kind=Kind.SPANS, data=b"", source="here")

GUEST = {"rabbitmq_username": "guest", "rabbitmq_password": "guest"}


class Scripted(MessageReceiver):
    """Asks a server that always answers the same, until the server goes away."""

    def __init__(self, ingest: Intake, inputs: Brokers) -> None:
        super().__init__("scripted", "nowhere", ingest, inputs)
        self.gone = threading.Event()
        self.behind_s: float | None = 0.0
        self.calls = 0

    def consume(self) -> None:
        while not self.stopping.is_set():
            if self.gone.is_set():
                raise ConnectionError("gone")
            self.report_lag(self._ask)

    def _ask(self) -> float | None:
        self.calls += 1
        return self.behind_s


@pytest.fixture
def ingest(start: Start) -> Intake:
    return start().collector.ingest


def test_a_receiver_is_behind_until_its_server_has_nothing_left(ingest: Intake) -> None:
    """Behind before the start, then not; behind again once the server is gone."""
    inputs = Brokers(grace_s=0.8)  # more than the half second between two reports
    receiver = Scripted(ingest, inputs)
    assert inputs.behind() == ("scripted",)
    receiver.start()
    try:
        wait_until(lambda: inputs.behind() == (), what="the receiver is caught up")
        assert receiver.calls <= 2  # not at each of its many rounds
        receiver.behind_s = 1.0
        wait_until(lambda: inputs.behind() == ("scripted",), what="a lag")
        receiver.behind_s = 0.0
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
    ("ready", "waiting", "behind_s"),
    [(0, [], 0), (1, [], None), (0, [(1, MESSAGE)], None)],
)
def test_rabbitmq_is_behind_by_what_waits_there_or_here(
    ingest: Intake, ready: int, waiting: list[tuple[int, Delivery]], behind_s: float | None
) -> None:
    receiver = RabbitMQReceiver(load_settings({"rabbitmq": "amqp://h", **GUEST}), ingest)
    receiver.waiting = waiting
    found = receiver.behind_s(Channel(ready))
    assert found is None if behind_s is None else found == pytest.approx(behind_s, abs=0.2)


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
    ("entry", "behind_s"), [(None, 0), (b"99901-3", 0.499), (b"100500-0", 0), (b"5-0", 100.395)]
)
def test_redis_is_behind_by_the_age_of_its_oldest_entry(
    ingest: Intake, entry: bytes | None, behind_s: float
) -> None:
    """It is 100,400 ms by the server's clock, which may have gone back since the entry came."""
    receiver = RedisReceiver(load_settings({"redis": "redis://h"}), ingest)
    assert receiver.behind_s(Stream(entry)) == pytest.approx(behind_s)


def test_the_collector_hands_its_clock_over(start: Start, tmp_path: Path) -> None:
    """No server answers there, so the join's time stands still."""
    service = start(redis=f"unix://{tmp_path}/none", rabbitmq="amqp://127.0.0.1:9", **GUEST)
    assert set(service.collector.brokers.behind()) >= {"redis", "rabbitmq"}
    assert service.sample("scouter_join_input_caught_up") == 0
