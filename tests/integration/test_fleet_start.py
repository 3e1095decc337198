"""The start of a fleet's processes while Kafka or PostgreSQL is away, or is not as it should be."""

import json
import re
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.kafka_broker import ExternalBroker, KafkaBroker, own_broker
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import ManagedProcess, free_ports, wait_until

ROLES = ("gateway", "worker", "api")


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    yield server
    server.stop()


class Starting:
    """A process of a fleet that is not waited for.

    Args:
        folder: For its output and settings.
        role: Its role.
        settings: Of Kafka and PostgreSQL.
    """

    def __init__(self, folder: Path, role: str, **settings: Any) -> None:
        (port,) = free_ports(1)
        self.url = f"http://127.0.0.1:{port}"
        folder = folder / f"{role}-{port}"
        folder.mkdir()
        config = folder / "settings.yaml"
        known = {"role": role, "listen": f"127.0.0.1:{port}", "grpc": "off", "fleet_partitions": 2}
        config.write_text(json.dumps(known | {"fleet_name": folder.name} | settings))
        self.process = ManagedProcess(
            [sys.executable, "-m", "scouter.cli.app", "collector", "--config", config],
            log=folder / "output",
        )

    def probe(self, path: str) -> httpx.Response:
        return httpx.get(f"{self.url}{path}", timeout=120)

    def detail(self) -> str:
        """What it says why it is not ready; empty while it does not answer, or once it is."""
        try:
            answer = self.probe("/readyz")
        except httpx.TransportError:
            return ""
        return "" if answer.status_code == 200 else answer.json()["detail"]

    def is_ready(self) -> bool:
        try:
            return self.probe("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def exit_code(self) -> int | None:
        wait_until(lambda: not self.process.is_running, what="it ended")
        return self.process.exit_code


def test_processes_wait_for_what_is_away_in_any_order(
    tmp_path: Path, server: PostgresqlServer
) -> None:
    """As after a power cut; meanwhile they live, are not ready, and say what they wait for."""
    with own_broker() as broker:
        topic = f"start-{uuid.uuid4().hex[:8]}"
        settings = {
            "kafka": broker.bootstrap,
            "postgresql": f"postgresql://postgres@/postgres?host={server.folder}",
            "fleet_topic": topic,
            "fleet_group": topic,
            "kafka_group": f"{topic}.foreign",
        }
        broker.stop()
        server.crash()
        members = [Starting(tmp_path, role, **settings) for role in ROLES]
        try:
            for each in members:
                wait_until(
                    lambda each=each: each.detail() == "not ready: kafka and postgresql",
                    what="it waits for both",
                )
                assert each.probe("/healthz").status_code == 200
                assert each.probe("/api/v1/status").status_code == 503
            broker.start()
            for each in members:
                wait_until(
                    lambda each=each: each.detail() == "not ready: postgresql",
                    what="it waits for one",
                )
            ended = members.pop()
            assert ended.process.stop() == 0
            members.append(Starting(tmp_path, ROLES[-1], **settings))
            server.start()
            for each in members:
                wait_until(each.is_ready, what="it is ready")
                assert each.probe("/healthz").status_code == 200
            for each in members[:-1]:
                said = each.process.log.read_text()
                (waited,) = re.findall(r"the start goes on after (\d+) s", said)
                assert 1 <= said.count("the start waits: ") <= 1 + int(waited) / 60
                assert broker.bootstrap in said
                assert "PostgreSQL at" in said
        finally:
            for each in members:
                assert each.process.stop() == 0


def test_what_can_never_work_ends_the_process(
    tmp_path: Path, kafka: KafkaBroker | ExternalBroker, server: PostgresqlServer
) -> None:
    """With exit code 2 and what to do: waiting would hide it.

    All roles open the topic in one way; an api opens the store as a worker does, and a gateway
    asks it for tokens only.
    """
    topic = f"start-{uuid.uuid4().hex[:8]}"
    url = f"postgresql://postgres@/postgres?host={server.folder}"
    settings = {"kafka": kafka.bootstrap, "postgresql": url, "fleet_topic": topic}
    unknown = url.replace("/postgres?", "/none?")
    hba = server.folder / "data" / "pg_hba.conf"

    def said(role: str, **changed: object) -> str:
        starting = Starting(tmp_path, role, **(settings | changed))
        assert starting.exit_code() == 2
        return starting.process.log.read_text()

    for role in ("gateway", "worker"):
        assert 'database "none" does not exist' in said(role, postgresql=unknown)
    first = Starting(tmp_path, "api", **settings)
    wait_until(first.is_ready, what="it is ready")
    assert first.process.stop() == 0
    assert "the topic has 2 partitions, not 3" in said("gateway", fleet_partitions=3)
    with server.connect() as admin:
        admin.execute("UPDATE meta SET value = '0.0' WHERE key = 'version'")
        assert "has tables of version 0.0" in said("worker")
        admin.execute("CREATE ROLE other LOGIN PASSWORD 'right'")
        hba.write_text("local all other scram-sha-256\nlocal all all trust\n")
        admin.execute("SELECT pg_reload_conf()")
        other = url.replace("postgres@", "other@")
        for role in ("gateway", "worker"):
            refused = said(role, postgresql=other, postgresql_password="wr0ng")
            assert 'password authentication failed for user "other"' in refused
            assert "check user, password" in refused
            assert "wr0ng" not in refused
