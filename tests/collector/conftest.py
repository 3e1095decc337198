"""A collector inside the test's process, for everything that needs no process of its own."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from collector.app import Collector
from collector.items.letters import MAX_PAYLOAD, make_letter, pack_letter
from collector.log.port import Item, Kind
from collector.settings.load import load_settings
from collector.store.letters import LetterKind
from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.span_filter import SpanFilter
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.support.processes import wait_until


class Service:
    """A running collector and a client of its HTTP side.

    What waits for spans waits long, so that a busy machine changes no outcome; a test of the
    deadline gives one.
    """

    def __init__(self, folder: Path, **flags: object) -> None:
        accept_loss = bool(flags.pop("accept_loss", False))  # the one flag that is no setting
        quick = {"settle_s": "50ms", "foreign_settle_s": "100ms", "quiet_s": "300ms"}
        here = {"data": folder / "data", "grpc": "off"}
        settings = load_settings({**here, "deadline_s": "1h", **quick, **flags})
        self.collector = Collector(settings, accept_loss=accept_loss)
        self.collector.start()
        self.http = self.client("127.0.0.1")
        self.http.__enter__()  # all its requests are of one event loop, as a server's are

    def client(self, address: str) -> TestClient:
        """A client at an address."""
        return TestClient(
            self.collector.app,
            "http://localhost",
            raise_server_exceptions=False,
            client=(address, 50_000),
        )

    def stop(self) -> None:
        self.http.__exit__()
        self.collector.stop()

    def get(self, path: str, **params: str | int) -> Any:
        """The answer that has all that was acknowledged before; others say that they may not."""

        def whole() -> Any:
            answer = self.http.get(path, params=params)
            return None if "Scouter-Behind" in answer.headers else answer

        answer = wait_until(whole, what=f"all that was acknowledged is in {path}")
        assert answer.status_code == 200, answer.text
        return answer.json()

    def send(self, *records: object) -> Any:
        answer = self.http.post("/v1/records", json={"records": list(records)})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def put_letter(
        self,
        kind: LetterKind,
        payload: bytes,
        reason: str = "unstorable",
        source: str = "http",
    ) -> None:
        """Put something aside, as a receiver does; it is stored then."""
        collector, now_ns = self.collector, time.time_ns()
        space = collector.settings.space
        most = MAX_PAYLOAD if source == "http" else 2**26  # no sender is left to send it again
        letter = make_letter(space, kind, reason, "why", source, payload, now_ns, most)
        item = Item(Kind.LETTER, space, now_ns, pack_letter(letter), source)
        assert collector.worker.wait_for(collector.log.append(item).result(120), 120)

    def wait_for(self, count: int, state: str = "evaluated") -> None:
        """Wait until so many records of the first space are in a state."""
        store, space = self.collector.store, self.collector.settings.space
        counted: int | None = None

        def is_enough() -> bool:
            nonlocal counted
            last = store.last_seq()
            if last == counted:  # states change with commits alone
                return False
            counted = last
            return bool(getattr(store.record_sheet(space), state) >= count)

        wait_until(is_enough, what=f"{count} records {state}")

    def sample(self, line: str) -> float | None:
        """The value of one line of `/metrics`, once all that was acknowledged is stored."""
        assert self.collector.worker.catch_up(60)
        for each in self.http.get("/metrics").text.splitlines():
            if each.startswith(f"{line} "):
                return float(each.rsplit(" ", 1)[1])
        return None


Start = Callable[..., Service]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts collectors on one data folder, one after the other."""
    running: list[Service] = []

    def start_one(**flags: object) -> Service:
        while running:
            running.pop().stop()
        running.append(Service(tmp_path, **flags))
        return running[-1]

    yield start_one
    for service in running:
        service.stop()


@pytest.fixture(scope="module")
def untouched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A collector with the profile `answers`, for the tests of a module that store nothing."""
    folder = tmp_path_factory.mktemp("untouched")
    service = Service(folder, profile=[str(save_answers(folder))])
    yield service
    service.stop()


@pytest.fixture
def answers(tmp_path: Path) -> Path:
    """A profile without spans and with an alert: `context.answer` is 42."""
    return save_answers(tmp_path)


def save_answers(folder: Path) -> Path:
    """Write the profile `answers`."""
    condition = AlertCondition(0.9, AlertThreshold.Below, 0.1)
    alert = AgentAlertConfig(alert_condition=condition, window=20, min_samples=5)
    profile = AgentEvalProfile(
        [AssertionTask("right", "answer", 42, ComparisonOperator.Equals)],
        AgentEvalConfig(name="deep-thought", version="4.2", alert_config=alert),
        alias="answers",
    )
    return profile.save_to_json(folder / "answers.json")


@pytest.fixture
def traced(tmp_path: Path) -> Path:
    """A profile that counts the spans named `step`."""
    return save_traced(tmp_path)


def save_traced(folder: Path) -> Path:
    """Write the profile `traced`."""
    count = TraceAssertion.span_count(SpanFilter.by_name("step"))
    profile = AgentEvalProfile(
        [TraceAssertionTask("two_steps", count, 2, ComparisonOperator.Equals)], alias="traced"
    )
    return profile.save_to_json(folder / "traced.json")
