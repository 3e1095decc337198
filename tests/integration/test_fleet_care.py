"""What `docs/fleet.md` says of dumps and of past days."""
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

import shutil
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import httpx
import psycopg
import pyarrow.parquet as pq
import pytest

from tests.support.collector_process import CollectorProcess, deliver
from tests.support.components import require
from tests.support.fleet import Fleet, small_fleet
from tests.support.kafka_broker import ExternalBroker, KafkaBroker
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

AUTHORITY = "postgresql://postgres@"


@pytest.fixture
def server() -> Iterator[PostgresqlServer]:
    server = PostgresqlServer()
    yield server
    server.stop()


def program(name: str) -> str:
    found = shutil.which(name) or next(
        map(str, sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"), reverse=True)), None
    )
    require("postgresql", present=found is not None, detail=f"no program {name!r}")
    assert found is not None
    return found


def send(gateway: CollectorProcess, numbers: Sequence[int]) -> None:
    records = [{"uid": f"r{n}", "profile": "agent_health", "context": {"n": n}} for n in numbers]
    deliver(f"{gateway.url}/v1/records", json={"records": records})


def test_a_restored_dump_reads_from_kafka_what_came_after_it(
    tmp_path: Path, kafka: KafkaBroker | ExternalBroker, server: PostgresqlServer
) -> None:
    """As the page has it, with its commands; no record is there twice."""
    topic = f"care-{uuid.uuid4().hex[:8]}"
    (tmp_path / "before").mkdir()
    fleet = Fleet(tmp_path / "before", kafka, server, topic, "--profile", "agent_health")
    dump = tmp_path / "monday.dump"
    with small_fleet(fleet) as (gateway, api):
        send(gateway, range(20))
        api.wait_evaluated(20)
        subprocess.run(
            [program("pg_dump"), "--format=custom", f"--file={dump}",
             f"{AUTHORITY}/postgres?host={server.folder}"],
            check=True,
        )  # fmt: skip
        send(gateway, range(20, 40))
        api.wait_evaluated(40)

    restored = f"{AUTHORITY}/restored?host={server.folder}"
    server.new_database("restored", "template0")
    subprocess.run([program("pg_restore"), f"--dbname={restored}", dump], check=True)
    (tmp_path / "after").mkdir()
    fleet = Fleet(
        tmp_path / "after", kafka, server, topic, "--profile", "agent_health",
        "--postgresql", restored,
    )  # fmt: skip
    with small_fleet(fleet) as (gateway, api):
        api.wait_evaluated(40)
        send(gateway, range(40, 50))
        api.wait_evaluated(50)
        assert sorted(each["uid"] for each in api.evaluations()) == sorted(
            f"r{n}" for n in range(50)
        )
        assert api.records()["duplicates"] == api.records()["lost"] == 0


def test_days_that_are_over_are_written_and_what_is_erased_leaves_them(
    tmp_path: Path, kafka: KafkaBroker | ExternalBroker, server: PostgresqlServer
) -> None:
    """The records' time of arrival is moved into a day long ago, as nobody can wait for one."""
    past = tmp_path / "past"
    fleet = Fleet(
        tmp_path, kafka, server, f"past-{uuid.uuid4().hex[:8]}", "--profile", "agent_health",
        "--past", str(past),
    )  # fmt: skip
    with small_fleet(fleet) as (gateway, api):
        send(gateway, range(2))
        api.wait_evaluated(2)
        url = f"{AUTHORITY}/postgres?host={server.folder}"
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("UPDATE records SET received_ns = 5")
        day = past / "day=1970-01-01"
        wait_until(day.is_dir, what="the day", timeout_s=180)
        file = day / "records-0.parquet"
        assert sorted(pq.read_table(file, columns=["uid"])["uid"].to_pylist()) == ["r0", "r1"]
        answer = httpx.post(f"{api.url}/api/v1/erase", json={"record_uid": "r0"}, timeout=120)
        assert answer.status_code == 200, answer.text
        assert pq.read_table(file, columns=["uid"])["uid"].to_pylist() == ["r1"]
