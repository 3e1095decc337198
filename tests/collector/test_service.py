"""The collector as a program of its own: start, stop, and `kill -9` in the middle of work."""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from collector.service import run_collector
from collector.settings.load import load_settings
from collector.storage.duckdb.store import DuckDBStore
from scouter.errors import ConfigError
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.otlp import encode_request
from scouter.model.span import Resource, Span
from tests.contracts.store_data import record
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until

Launch = Callable[..., CollectorProcess]

KILLS = 2
BETWEEN_KILLS = 20


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Starts one collector."""
    running: list[CollectorProcess] = []

    def one(*flags: str | Path) -> CollectorProcess:
        running.append(CollectorProcess(tmp_path, *flags))
        running[-1].start()
        return running[-1]

    yield one
    for each in running:
        each.close()


@pytest.mark.pace
def test_says_where_it_is_answers_at_once_and_ends_with_0(
    launch: Launch, answers: Path, tmp_path: Path
) -> None:
    """Its settings come from a file. A socket that waits for acknowledgements takes 40 ms."""
    file = tmp_path / "scouter.yaml"
    file.write_text(f"space: of-file\nprofile: [{answers}]\n")
    began = time.monotonic()
    collector = launch("--config", file)
    took_s = time.monotonic() - began
    told = json.loads((collector.folder / "ready.json").read_text())
    assert told == {"listen": collector.address, "grpc": None, "pid": collector.process.pid}
    log = collector.process.tail()
    assert f"listening on http://{collector.address} (API /openapi.json, metrics /metrics)" in log
    assert "profiles: answers" in log
    assert httpx.get(f"{collector.url}/openapi.json").status_code == 200
    answered: list[float] = []
    for _ in range(20):
        asked = time.monotonic()
        (item,) = collector.get("/api/v1/profiles")["items"]
        answered.append(time.monotonic() - asked)
        assert item["space"] == "of-file"
    assert collector.stop() == 0
    # The last word: neither the interpreter nor a library complains of how it ends.
    assert (collector.folder / "collector.log").read_text().endswith(" INFO stopped\n")
    assert min(answered) < 0.03
    assert took_s < 10  # 1.5 s on a machine with nothing else to do


def test_a_second_one_on_the_same_folder_or_port_is_refused(launch: Launch) -> None:
    collector = launch()
    data = str(collector.folder / "data")
    command = [
        sys.executable, "-m", "scouter.cli.app", "collector",
        "--data", data, "--listen", "127.0.0.1:0", "--grpc", "off",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "cannot open the store" in done.stderr
    for listen, grpc, message in (
        (collector.address, "off", "cannot listen on"),
        ("127.0.0.1:0", collector.address, "for gRPC: the address is in use"),
    ):
        settings = load_settings({"data": data + "2", "listen": listen, "grpc": grpc})
        with pytest.raises(ConfigError, match=message):
            run_collector(settings)


def test_nobody_else_may_read_what_is_stored(launch: Launch, answers: Path, tmp_path: Path) -> None:
    """In folders for everybody, of files that an older version made so, and of a backup."""
    data, backups, source = tmp_path / "data", tmp_path / "backups", tmp_path / "source"
    old = os.umask(0o022)
    try:
        store = DuckDBStore(source)
        store.append_records([record("older")]).result()
        for folder in (data, backups):
            folder.mkdir(mode=0o755)
        for name in ("scouter.duckdb", "scouter.duckdb.wal"):  # as after a crash
            shutil.copyfile(source / name, data / name)
            assert (data / name).stat().st_mode & 0o777 == 0o644
        store.close()
        collector = launch("--profile", answers, "--backups", backups)
    finally:
        os.umask(old)
    database = data / "scouter.duckdb"

    def readable() -> list[Path]:
        found = [each for folder in (data, backups) for each in folder.rglob("*")]
        assert database in found
        return [each for each in found if each.is_file() and each.stat().st_mode & 0o077]

    assert readable() == []
    with httpx.Client(base_url=collector.url, timeout=30) as http:
        http.post("/v1/records", json={"records": [{"uid": "u", "profile": "answers"}]})
        assert http.post("/api/v1/backup", json={"folder": "one"}).status_code == 201
    assert (backups / "one" / "scouter.duckdb").exists()
    assert readable() == []


@pytest.mark.pace
def test_starts_without_its_broker_says_so_and_ends_soon(launch: Launch) -> None:
    collector = launch("--kafka", "127.0.0.1:1")
    answer = httpx.get(f"{collector.url}/readyz")
    assert answer.status_code == 503
    assert "no connection to Kafka at 127.0.0.1:1" in answer.json()["detail"]
    assert httpx.get(f"{collector.url}/healthz").status_code == 200
    began = time.monotonic()
    assert collector.stop() == 0
    assert time.monotonic() - began < 10


def test_goes_on_after_a_checkpoint_that_found_no_room(launch: Launch, answers: Path) -> None:
    """Acknowledged items are there once; no file may be above 40 MB for a while.

    DuckDB gives the file up when it cannot write behind a commit; the collector opens it again.
    """
    collector = launch("--profile", answers)
    _, hard = resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (40 * 10**6, hard))
    rng = random.Random(5)
    acknowledged = 0
    with httpx.Client(base_url=collector.url, timeout=30) as http:
        for number in range(40):
            context = {"answer": rng.randbytes(1_500_000).hex()}
            record = {"uid": f"u{number}", "profile": "answers", "context": context}
            try:
                answer = http.post("/v1/records", json={"records": [record]})
            except httpx.HTTPError:
                break
            if answer.status_code != 200:
                assert answer.status_code == 503
                break
            acknowledged += 1
    assert 0 < acknowledged < 40
    assert httpx.get(f"{collector.url}/readyz").status_code == 503
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    wait_until(lambda: httpx.get(f"{collector.url}/readyz").status_code == 200, what="room")
    wait_until(
        lambda: collector.get("/api/v1/conservation")["records"]["waiting"] == 0,
        what="everything is judged",
    )
    sheet = collector.get("/api/v1/conservation")["records"]
    assert sheet["evaluated"] == sheet["accepted"]
    assert sheet["accepted"] in (acknowledged, acknowledged + 1)  # one answer may be lost


# --- kill -9 ----------------------------------------------------------------------------------


def conversation(number: int) -> tuple[list[Span], dict[str, Any]]:
    """A stamped trace of three spans, and its record."""
    trace_id = f"{number + 1:032x}"
    resource = Resource(attributes={PROCESS_ID: "p", "service.name": "agent"})

    def span(span_id: int, parent: int | None, **attributes: int) -> Span:
        return Span(
            trace_id=trace_id, span_id=f"{span_id:016x}", name="step" if parent else "root",
            parent_span_id=f"{parent:016x}" if parent else None, parent_is_remote=False,
            start_ns=1, end_ns=2, resource=resource, attributes=dict(attributes),
        )  # fmt: skip

    spans = [span(1, None, **{PROCESS_SPAN_COUNT: 3}), span(2, 1), span(3, 1)]
    record: dict[str, Any] = {
        "uid": f"u{number}",
        "profile": "traced",
        "trace_id": trace_id,
        "context": {},
    }
    return spans, record


class Sender(threading.Thread):
    """Sends conversations one after the other, each part until it is acknowledged."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(name="sender")
        self._url, self._rng = url, random.Random(seed)
        self.ending = threading.Event()
        self.done: list[int] = []
        self.broken: list[int] = []
        """Status codes that are neither 200 nor worth another try."""

    def run(self) -> None:
        number = 0
        with httpx.Client(base_url=self._url, timeout=10) as client:
            while not self.ending.is_set():
                spans, record = conversation(number)
                parts: list[Any] = [spans[:1], spans[1:], record]
                self._rng.shuffle(parts)
                parts.append(self._rng.choice(parts))  # and one of them again
                if all([self._send(client, part) for part in parts]):
                    self.done.append(number)
                number += 1

    def _send(self, client: httpx.Client, part: Any) -> bool:
        while not self.ending.is_set():
            try:
                if isinstance(part, list):
                    spans = cast("list[Span]", part)
                    data = encode_request(spans).SerializeToString()
                    headers = {"Content-Type": "application/x-protobuf"}
                    answer = client.post("/v1/traces", content=data, headers=headers)
                else:
                    answer = client.post("/v1/records", json={"records": [part]})
            except httpx.TransportError:
                self.ending.wait(0.02)
                continue
            if answer.status_code == 200:
                return True
            if answer.status_code not in (429, 503):
                self.broken.append(answer.status_code)
                return False
        return False


def test_kill_in_the_middle_loses_nothing_and_counts_nothing_twice(
    launch: Launch, traced: Path
) -> None:
    """Every acknowledged conversation has one evaluation, complete, and each span once."""
    collector = launch("--profile", traced, "--quiet-s", "20s")
    sender = Sender(collector.url, seed=1)
    sender.start()
    for _ in range(KILLS):
        enough = len(sender.done) + BETWEEN_KILLS
        wait_until(lambda enough=enough: len(sender.done) >= enough, what="traffic", timeout_s=60)
        collector.kill()
        collector.start()
    enough = len(sender.done) + BETWEEN_KILLS
    wait_until(lambda: len(sender.done) >= enough, what="traffic", timeout_s=60)
    sender.ending.set()
    sender.join(30)
    assert not sender.broken

    acknowledged = {f"u{n}" for n in sender.done}
    wait_until(
        lambda: acknowledged <= {item["uid"] for item in collector.evaluations()},
        what="an evaluation for each acknowledged record",
        timeout_s=60,
        every_s=0.2,
    )
    items = [item for item in collector.evaluations() if item["uid"] in acknowledged]
    assert len(items) == len(acknowledged)
    assert {(item["outcome"], item["completeness"]) for item in items} == {("passed", "complete")}
    sheet = collector.get("/api/v1/conservation")
    records, spans = sheet["records"], sheet["spans"]
    states = ("waiting", "evaluated", "skipped", "expired", "dead_lettered", "erased")
    assert records["accepted"] == sum(records[state] for state in states)
    assert spans["accepted"] == spans["stored"] >= 3 * len(acknowledged)
    assert records["duplicates"] + spans["duplicates"] > 0
    for number in random.Random(5).sample(sender.done, 10):
        found = collector.get(f"/api/v1/traces/{number + 1:032x}")["spans"]
        assert [span["spanId"] for span in found] == [f"{n:016x}" for n in (1, 2, 3)]
    passed = [
        value
        for name, value in collector.metrics().items()
        if name.startswith("scouter_evaluations_total{") and 'outcome="passed"' in name
    ]
    assert passed == [records["evaluated"]]


def test_sigterm_finishes_what_was_taken(launch: Launch, answers: Path) -> None:
    """A thousand records are acknowledged; the program is told to end at once."""
    collector = launch("--profile", answers)
    batch = [{"uid": f"u{n}", "profile": "answers", "context": {"answer": 42}} for n in range(1000)]
    httpx.post(f"{collector.url}/v1/records", json={"records": batch}).raise_for_status()
    assert collector.stop() == 0
    collector.start()
    collector.wait_evaluated(1000)
