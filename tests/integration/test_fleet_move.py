"""A store that moves: from one collector into a fleet, and from the fleet into a folder again."""

import uuid
from pathlib import Path
from typing import Any, Final

import psycopg
from typer.testing import CliRunner

from collector.fleet.copy_command import store
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from tests.support.collector_process import CollectorProcess, CollectorProgram, deliver
from tests.support.fleet import PARTITIONS, Fleet, small_fleet
from tests.support.fleet_chaos import spans, trace_id
from tests.support.kafka_broker import ExternalBroker, KafkaBroker
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

RIGHT: Final = AgentEvalProfile(
    [
        AssertionTask("right", "answer", 42, "Equals"),
        TraceAssertionTask("whole", TraceAssertion.trace_span_count(), 5, "Equals"),
    ],
    alias="right",
)
DONE: Final = range(3)
"""Traces that are whole before the first move."""
HALF: Final = range(10, 18)
"""Traces of which the root, and with it the evaluation, comes after it; in all partitions."""
WAITS: Final = ("--foreign-settle-s", "1s", "--quiet-s", "1h", "--deadline-s", "1h")


def _send(process: CollectorProcess, numbers: range, places: range, *, is_new: bool) -> None:
    """Send spans, and before them the records of their traces."""
    if is_new:
        records = [
            {"uid": f"u{n}", "profile": "right", "trace_id": trace_id(n).hex(),
             "context": {"answer": 42}}
            for n in numbers
        ]  # fmt: skip
        deliver(f"{process.url}/v1/records", json={"records": records})
    kind = {"content-type": "application/x-protobuf"}
    deliver(f"{process.url}/v1/traces", content=spans(list(numbers), places), headers=kind)


def _outcomes(process: CollectorProcess) -> dict[str, tuple[str, str]]:
    return {each["uid"]: (each["outcome"], each["evaluation_id"]) for each in process.evaluations()}


def _move(source: object, target: object) -> None:
    words = ["copy", "--from", source, "--to", target, "--partitions", PARTITIONS]
    done = CliRunner().invoke(store, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output


def test_work_goes_on_where_it_was(tmp_path: Path, kafka: KafkaBroker | ExternalBroker) -> None:
    """What was decided stays, and what waited is decided by all of its trace, on either side."""
    profile = RIGHT.save_to_json(tmp_path / "right.json")
    flags = ("--profile", profile, *WAITS)
    first = CollectorProgram(tmp_path, *flags)
    first.start()
    try:
        _send(first, DONE, range(5), is_new=True)
        first.wait_evaluated(len(DONE))
        _send(first, HALF, range(1, 5), is_new=True)
        wait_until(lambda: first.records()["waiting"] == len(HALF), what="records wait")
        before = _outcomes(first)
    finally:
        first.close()
    server = PostgresqlServer()
    topic = f"move-{uuid.uuid4().hex[:8]}"
    try:
        url = f"postgresql://postgres@/postgres?host={server.folder}"
        _move(tmp_path / "data", url)
        fleet = Fleet(tmp_path, kafka, server, topic, *map(str, flags))
        with small_fleet(fleet, workers=2) as (gateway, api):
            assert _outcomes(api) == before
            _send(gateway, HALF, range(1), is_new=False)
            api.wait_evaluated(len(DONE) + len(HALF))
            there = _outcomes(api)
            _wait_for_nothing_behind(url)
        assert there == before | {f"u{n}": ("passed", there[f"u{n}"][1]) for n in HALF}
        (tmp_path / "back").mkdir()
        _move(url, tmp_path / "back" / "data")
    finally:
        server.stop()
    last = CollectorProgram(tmp_path / "back", *map(str, flags))
    last.start()
    try:
        assert _outcomes(last) == there
        sheet: dict[str, Any] = last.get("/api/v1/conservation")
        assert sheet["records"]["evaluated"] == sheet["records"]["accepted"] == len(there)
        assert sheet["spans"]["stored"] == 5 * len(there)
    finally:
        last.close()


def _wait_for_nothing_behind(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:

        def is_done() -> bool:
            sql = "SELECT count(*) FROM partitions WHERE behind_since_ns <> 0"
            return connection.execute(sql).fetchone() == (0,)

        wait_until(is_done, what="no partition is behind")
