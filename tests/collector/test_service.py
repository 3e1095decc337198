"""The collector as a program of its own: its start and its end. `test_kill` kills it in traffic."""

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

import httpx
import pytest

from collector.service import run_collector
from collector.settings.load import load_settings
from scouter.errors import ConfigError
from tests.contracts.store_data import record
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until
from tests.support.store_appends import AppendingStore

Launch = Callable[..., CollectorProcess]


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
def test_says_where_it_is_answers_at_once_and_finishes_what_it_took(
    launch: Launch, answers: Path, tmp_path: Path
) -> None:
    """Its settings come from a file. A socket that waits for acknowledgements takes 40 ms."""
    file = tmp_path / "scouter.yaml"
    file.write_text(f"space: of-file\nprofile: [{answers}]\n")
    began = time.monotonic()
    collector = launch("--config", file)
    took_s = time.monotonic() - began
    written = json.loads((collector.folder / "ready.json").read_text())
    assert written == {"listen": collector.address, "grpc": None, "pid": collector.process.pid}
    log = collector.process.tail()
    assert f"listening on http://{collector.address} (API /openapi.json, metrics /metrics)" in log
    assert "profiles: answers" in log
    assert httpx.get(f"{collector.url}/openapi.json", timeout=120).status_code == 200
    answered: list[float] = []
    for _ in range(20):
        sent_at = time.monotonic()
        (item,) = collector.get("/api/v1/profiles")["items"]
        answered.append(time.monotonic() - sent_at)
        assert item["space"] == "of-file"
    batch = [{"uid": f"u{n}", "profile": "answers", "context": {"answer": 42}} for n in range(1000)]
    httpx.post(
        f"{collector.url}/v1/records", json={"records": batch}, timeout=120
    ).raise_for_status()
    assert collector.stop() == 0  # what was taken is finished
    # The last word: neither the interpreter nor a library complains of how it ends.
    assert (collector.folder / "collector.log").read_text().endswith(" INFO stopped\n")
    collector.start()
    collector.wait_evaluated(1000)
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
        before = threading.enumerate()
        with pytest.raises(ConfigError, match=message):
            run_collector(settings)
        assert set(threading.enumerate()) <= set(before), "nothing is left open"


def test_nobody_else_may_read_what_is_stored(launch: Launch, answers: Path, tmp_path: Path) -> None:
    """In folders for everybody, of files that an older version made so, and of a backup."""
    data, backups, source = tmp_path / "data", tmp_path / "backups", tmp_path / "source"
    old = os.umask(0o022)
    try:
        store = AppendingStore(source)
        store.append_records([record("older")]).result()
        for folder in (data, backups):
            folder.mkdir(mode=0o755)
        for name in ("store-1.duckdb", "store-1.duckdb.wal"):  # as after a crash
            shutil.copyfile(source / name, data / name)
            assert (data / name).stat().st_mode & 0o777 == 0o644
        store.close()
        collector = launch("--profile", answers, "--backups", backups)
    finally:
        os.umask(old)
    database = data / "store-1.duckdb"

    def readable() -> list[Path]:
        found = [each for folder in (data, backups) for each in folder.rglob("*")]
        assert database in found
        return [each for each in found if each.is_file() and each.stat().st_mode & 0o077]

    assert readable() == []
    with httpx.Client(base_url=collector.url, timeout=120) as http:
        http.post("/v1/records", json={"records": [{"uid": "u", "profile": "answers"}]})
        assert http.post("/api/v1/backup", json={"folder": "one"}).status_code == 201
    assert (backups / "one" / "store-1.duckdb").exists()
    assert readable() == []


@pytest.mark.pace
def test_starts_without_its_broker_says_so_and_ends_soon(launch: Launch) -> None:
    collector = launch("--kafka", "127.0.0.1:1")
    answer = httpx.get(f"{collector.url}/readyz", timeout=120)
    assert answer.status_code == 503
    assert "no connection to Kafka at 127.0.0.1:1" in answer.json()["detail"]
    assert httpx.get(f"{collector.url}/healthz", timeout=120).status_code == 200
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
    with httpx.Client(base_url=collector.url, timeout=120) as http:
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
    assert httpx.get(f"{collector.url}/readyz", timeout=120).status_code == 503
    resource.prlimit(collector.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
    wait_until(
        lambda: httpx.get(f"{collector.url}/readyz", timeout=120).status_code == 200, what="room"
    )
    wait_until(
        lambda: collector.get("/api/v1/conservation")["records"]["waiting"] == 0,
        what="everything is judged",
    )
    sheet = collector.get("/api/v1/conservation")["records"]
    assert sheet["evaluated"] == sheet["accepted"]
    assert sheet["accepted"] in (acknowledged, acknowledged + 1)  # one answer may be lost
