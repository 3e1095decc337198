"""A process that ends at any moment: nothing is lost, nothing is there twice."""

import contextlib
import json
import random
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from collector.log.port import Kind
from collector.store.file_store import FileStore
from collector.worker.recover import POSTPONED_S
from tests.support.forked import ManagedFork
from tests.support.processes import wait_until
from tests.support.worker_program import (
    SPANS_PER_TRACE,
    STATUS,
    WATCHED_SPACE,
    Request,
    bomb_in_a_trace,
    expected,
    pack,
    requests_of,
    span_counts,
    stored,
)
from tests.support.worker_room import SPACE, record

_MODULE: Final = "tests.support.worker_program"
_STEPS: Final = 110
"""More than there are; what a process does after its last step is no step."""


class Served:
    """The program behind a socket, started and killed.

    Args:
        folder: Its data.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.start()

    def start(self) -> None:
        """Start it; it may end before it is ready."""
        (self.folder / "port").unlink(missing_ok=True)
        self.process = ManagedFork([_MODULE, "serve", self.folder], log=self.folder / "output")

    def port(self) -> int | None:
        """The port on which it listens; None before it does."""
        try:
            pid, port = map(int, (self.folder / "port").read_text().split())
        except FileNotFoundError:
            return None
        return port if pid == self.process.pid else None

    def finish(self) -> int:
        """Wait until nothing is left to do, starting it again and again; returns how often."""
        ends = 0

        def is_done() -> bool:
            nonlocal ends
            if not self.process.is_running:
                ends += 1
                self.start()
            port = self.port()
            if port is None:
                return False
            with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
                connection.sendall(STATUS)
                return connection.recv(1) == b"0"

        wait_until(is_done, what="nothing is left to do")
        return ends

    def end(self) -> FileStore:
        """Kill it, and open what it has left."""
        self.process.kill()
        return FileStore(self.folder)


class Sender(threading.Thread):
    """Delivers requests in order, each again and again until it is acknowledged.

    Args:
        served: Knows the port of the process that runs.
        requests: To deliver.
    """

    def __init__(self, served: Served, requests: Iterator[Request]) -> None:
        super().__init__(daemon=True)
        self._served, self._requests = served, requests
        self._connection: socket.socket | None = None
        self._data = b""
        self.start()

    def run(self) -> None:
        """Deliver all."""
        for request in self._requests:
            self._data = pack(request)
            wait_until(self._deliver, what="it is acknowledged")
        if self._connection is not None:
            self._connection.close()

    def _deliver(self) -> bool:
        is_taken = False
        with contextlib.suppress(OSError):
            if self._connection is None:
                port = self._served.port()
                if port is None:
                    return False
                self._connection = socket.create_connection(("127.0.0.1", port), timeout=120)
            self._connection.sendall(self._data)
            is_taken = self._connection.recv(1) == b"1"
        if not is_taken and self._connection is not None:
            self._connection.close()
            self._connection = None
        return is_taken


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    found = Served(tmp_path)
    yield found
    found.process.kill()


def run_steps(folder: Path, last: int) -> int:
    """Run the program until a step; returns its exit code."""
    process = ManagedFork([_MODULE, "steps", folder, str(last)], log=folder / "output")
    wait_until(lambda: not process.is_running, what="it has ended")
    code = process.exit_code
    assert code in (0, 71), process.tail()
    return code


def end_of(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "end.json").read_text())
    del found["steps"]
    return found


@pytest.mark.parametrize("last", [
    pytest.param(step, marks=() if step % 15 == 1 else pytest.mark.long)
    for step in range(1, _STEPS + 1)
])  # fmt: skip
def test_every_step_between_append_commit_and_trim_may_be_the_last(
    tmp_path: Path, last: int
) -> None:
    """What is stored at the end is what is worked out by hand, whatever step ended a process."""
    code = run_steps(tmp_path, last)
    if code:
        assert run_steps(tmp_path, 0) == 0

    end = end_of(tmp_path)
    wanted = {key: tasks for number in range(4) for key, tasks in expected(number).items()}
    assert {(space, uid): tasks for space, uid, tasks in end["stored"]} == wanted
    assert end["spans"] == [4 * 2 * SPANS_PER_TRACE] * 3
    assert (end["waiting"], end["unread"], end["needed"]) == (0, 0, 0)


def test_no_step_is_left_out(tmp_path: Path) -> None:
    assert run_steps(tmp_path, 0) == 0
    steps = json.loads((tmp_path / "end.json").read_text())["steps"]
    assert 50 < steps < _STEPS, "the steps are counted by a run that none of them ends"


@pytest.mark.parametrize("rounds", [12, pytest.param(200, marks=pytest.mark.long)])
def test_kills_at_random_moments_lose_and_double_nothing(served: Served, rounds: int) -> None:
    rng = random.Random(rounds)
    is_over = threading.Event()
    lock, sent = threading.Lock(), [0]
    pause = threading.Event()

    def numbers() -> Iterator[int]:
        while not is_over.is_set():
            with lock:
                sent[0] += 1
                number = sent[0] - 1
            yield number

    def requests(own: random.Random) -> Iterator[Request]:
        for number in numbers():
            found = requests_of(number)
            own.shuffle(found)
            for request in found:
                yield request
                if not own.randrange(20):
                    yield request
            pause.wait(0.02)

    senders = [Sender(served, requests(random.Random(each))) for each in range(4)]
    for _ in range(rounds):
        wait_until(served.port, what="it listens")
        # Now and then a life is long enough for what is postponed after kills, so that it goes on.
        pause.wait(rng.uniform(0.05, 0.8) if rng.randrange(8) else POSTPONED_S + 1)
        served.process.kill()
        served.start()
    is_over.set()
    for sender in senders:
        sender.join(240)
    served.finish()
    numbers_sent = range(sent[0])
    wanted = {key: tasks for number in numbers_sent for key, tasks in expected(number).items()}

    with contextlib.closing(served.end()) as store:
        assert stored(store) == wanted
        assert span_counts(store) == (sent[0] * 2 * SPANS_PER_TRACE,) * 3
        assert store.read("SELECT reason, uid, message FROM dead_letters") == []


@pytest.mark.parametrize(
    "what", ["record", "trace", pytest.param("request", marks=pytest.mark.long)]
)
def test_what_ends_the_process_is_put_aside_and_all_others_are_judged(
    served: Served, what: str
) -> None:
    """One among 1,000; the others of its commit, and of its request, are not blamed."""
    many = [record(f"r{n}", "right", answer=42) for n in range(999)]
    if what == "record":
        many.insert(700, record("bomb", "right", answer=42, bomb=True))
    parts = [many[at : at + 100] for at in range(0, len(many), 100)]
    requests = [(Kind.RECORDS, SPACE, json.dumps({"records": part}).encode()) for part in parts]
    if what == "trace":
        requests.insert(7, bomb_in_a_trace())
    elif what == "request":
        bomb = record("bomb", "right", text="bomb in a request")
        requests.insert(7, (Kind.RECORDS, SPACE, json.dumps({"records": [bomb]}).encode()))
    sender = Sender(served, iter(requests))
    ends = 0
    while sender.is_alive():
        ends += served.finish()
    ends += served.finish()

    with contextlib.closing(served.end()) as store:
        letters = store.read("SELECT reason, kind FROM dead_letters")
        found = stored(store)
        sheets = [store.conservation(space).records for space in (SPACE, WATCHED_SPACE)]
    kind = "records_message" if what == "request" else "record"
    assert letters == [("poison", kind)]
    assert found == {(SPACE, f"r{n}"): {"right": "passed"} for n in range(999)}
    assert all(each.waiting == 0 for each in sheets)
    assert sum(each.accepted for each in sheets) == 999 + (what != "request")
    assert ends >= 3, "it was tried beside others, alone, and alone once more"
