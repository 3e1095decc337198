"""A fleet of real processes on a real Kafka and a real PostgreSQL, killed and frozen.

`make test-fleet` is the same with 20,000 records, 30 kills, 10 joins and 4 freezes.
"""

import os
import re
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from tests.support.collector_process import deliver
from tests.support.components import ROOT
from tests.support.fleet_chaos import Chaos, Plan
from tests.support.kafka_broker import own_broker
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import ManagedProcess, wait_until

PLAN: Final = Plan(records=600, kills=3, joins=2, freezes=1)


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    """A server that this test may crash."""
    server = PostgresqlServer()
    yield server
    server.stop()


def test_what_was_accepted_is_evaluated_once_whatever_ends(
    server: PostgresqlServer, tmp_path: Path
) -> None:
    """Kills, a worker that comes and goes, a freeze, a crash of PostgreSQL, a restart of Kafka."""
    with own_broker() as broker:
        report = Chaos(tmp_path, broker, server, "short", PLAN).run()

    assert report.faults(PLAN) == []
    assert report.events == {"kill": 3, "join": 2, "freeze": 1, "postgresql": 1, "broker": 1}


@pytest.fixture
def temporary() -> Iterator[Path]:
    """A folder with a short path that the user of PostgreSQL can look into."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        yield folder


def test_a_small_fleet_runs_here_without_containers(tmp_path: Path, temporary: Path) -> None:
    """As `make fleet` starts it; an interrupt, as of Ctrl-C, ends all of it."""
    script = [sys.executable, ROOT / "deploy" / "fleet" / "local.py", "--free-ports"]
    fleet = ManagedProcess(
        script, log=tmp_path / "output",
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
    )  # fmt: skip
    try:
        fleet.wait_ready(lambda: "Ctrl-C ends" in fleet.log.read_text())
        said = fleet.log.read_text()
        ((gateway,), (api,)) = (
            re.findall(rf"^{what} +(http://[\d.:]+)", said, re.MULTILINE)
            for what in ("spans and records", "page, API, metrics")
        )
        record = {"uid": "u1", "profile": "agent_health", "context": {"answer": "yes"}}
        body = {"records": [record]}
        deliver(f"{gateway}/v1/records", json=body)

        def evaluated() -> list[dict[str, Any]]:
            return httpx.get(f"{api}/api/v1/evaluations", timeout=120).json()["items"]

        assert [each["uid"] for each in wait_until(evaluated, what="an evaluation")] == ["u1"]
        os.kill(fleet.pid, signal.SIGINT)
        wait_until(lambda: not fleet.is_running, what="the fleet has ended")
        assert fleet.exit_code == 0
        assert list(temporary.iterdir()) == []
    finally:
        fleet.stop()
