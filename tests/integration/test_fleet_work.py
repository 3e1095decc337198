"""A fleet at work: what a user does with it, over its gateway and its api."""

import json
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.transport.kafka_client import partition_of
from tests.support.collector_process import CollectorProcess, deliver, tasks_by_id
from tests.support.fleet import PARTITIONS, Fleet, small_fleet
from tests.support.fleet_chaos import spans, trace_id
from tests.support.kafka_broker import ExternalBroker, KafkaBroker
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

TALK: Final = AgentEvalProfile(
    [
        AssertionTask("all", "records[*].context.turn", 6, "HasLengthEqual", scope="session"),
        TraceAssertionTask(
            "seen", TraceAssertion.trace_span_count(), 30, "Equals", scope="session"
        ),
    ],
    alias="talk",
)
RIGHT: Final = AgentEvalProfile(
    [
        AssertionTask("right", "answer", 42, "Equals"),
        TraceAssertionTask("whole", TraceAssertion.trace_span_count(), 5, "Equals"),
    ],
    alias="right",
)


class Both:
    """The gateway and the api of a fleet."""

    def __init__(self, gateway: CollectorProcess, api: CollectorProcess) -> None:
        self.gateway, self.api = gateway, api
        self.http = httpx.Client(base_url=api.url, timeout=120)
        for profile in (TALK, RIGHT):
            body = json.loads(profile.model_dump_json())
            self.http.post("/api/v1/profiles?activate=true", json=body).raise_for_status()

    def records(self, *records: dict[str, Any]) -> dict[str, Any]:
        return dict(deliver(f"{self.gateway.url}/v1/records", json={"records": records}).json())

    def spans(self, numbers: Sequence[int], places: Sequence[int] = range(5)) -> None:
        kind = {"content-type": "application/x-protobuf"}
        body = spans(numbers, places)
        deliver(f"{self.gateway.url}/v1/traces", content=body, headers=kind)

    def evaluation(self, uid: str, revision: int = 1) -> dict[str, Any]:
        """The latest evaluation on a record, once it has this revision."""

        def found() -> dict[str, Any] | None:
            items = self.evaluations(uid)
            return next((each for each in items if each["revision"] >= revision), None)

        return wait_until(found, what=f"{uid} is judged", timeout_s=120, every_s=0.2)

    def evaluations(self, uid: str) -> list[dict[str, Any]]:
        return [each for each in self.api.evaluations() if each["uid"] == uid]


@pytest.fixture(scope="module")
def both(
    tmp_path_factory: pytest.TempPathFactory, kafka: KafkaBroker | ExternalBroker
) -> Iterator[Both]:
    server = PostgresqlServer()
    folder = tmp_path_factory.mktemp("fleet")
    topic = f"fleet-{uuid.uuid4().hex[:8]}"
    fleet = Fleet(
        folder,
        kafka,
        server,
        topic,
        "--foreign-settle-s",
        "500ms",
        "--session-quiet-s",
        "2s",
        "--deadline-s",
        "12s",
    )
    try:
        with small_fleet(fleet, workers=2) as (gateway, api):
            both = Both(gateway, api)
            yield both
            both.http.close()
    finally:
        server.stop()


def part_of(number: int) -> int:
    return partition_of(trace_id(number).hex().encode(), PARTITIONS)


def record(uid: str, number: int, profile: str = "right", **fields: Any) -> dict[str, Any]:
    of = trace_id(number).hex()
    return {"uid": uid, "profile": profile, "trace_id": of, "context": {"answer": 42}} | fields


def test_a_session_that_lies_in_all_partitions_is_judged_once(both: Both) -> None:
    """After the slowest of its traces: the last spans come a while after all records."""
    numbers = list(range(1_000, 1_006))
    assert len({part_of(number) for number in numbers}) == PARTITIONS
    both.records(
        *(record(f"turn-{n}", n, "talk", session_id="s", context={"turn": n}) for n in numbers)
    )
    both.spans(numbers[:-1])
    both.spans(numbers[-1:])

    def whole() -> dict[str, Any] | None:
        items = both.api.evaluations(session_id="s")
        return next((each for each in items if each["scope"] == "session"), None)

    found = wait_until(whole, what="the session is judged", timeout_s=120, every_s=0.2)
    tasks = tasks_by_id(found)
    assert {name: task["outcome"] for name, task in tasks.items()} == {
        "all": "passed", "seen": "passed",
    }  # fmt: skip
    assert found["revision"] == 1


def test_a_late_span_lets_the_record_be_judged_again(both: Both) -> None:
    both.records(record("late", 2_000))
    both.spans([2_000], range(4))
    first = both.evaluation("late")
    assert tasks_by_id(first)["whole"]["outcome"] == "failed"
    both.spans([2_000], [4])
    again = both.evaluation("late", revision=2)
    assert tasks_by_id(again)["whole"]["outcome"] == "passed"


def test_what_comes_twice_counts_once(both: Both) -> None:
    for _ in range(2):
        both.records(record("twice", 3_000))
        both.spans([3_000])
    both.evaluation("twice")
    sheet = both.api.get("/api/v1/conservation")
    assert sheet["records"]["duplicates"] >= 1
    trace = both.api.get(f"/api/v1/traces/{trace_id(3_000).hex()}")
    assert len(trace["spans"]) == 5


def test_what_was_erased_is_gone_and_does_not_come_back(both: Both) -> None:
    both.records(record("gone", 4_000))
    both.spans([4_000])
    both.evaluation("gone")
    answer = both.http.post("/api/v1/erase", json={"record_uid": "gone"})
    assert answer.status_code == 200, answer.text
    assert both.evaluations("gone") == []
    both.records(record("gone", 4_000))
    both.records(record("behind", 4_001))
    both.spans([4_001])
    both.evaluation("behind")
    assert both.evaluations("gone") == []


def test_a_letter_of_an_accepted_record_is_replayed(both: Both) -> None:
    """Its profile is not known until its deadline; then somebody registers it."""
    both.records(record("odd", 5_000, "later"))
    both.spans([5_000])

    def letter() -> dict[str, Any] | None:
        return next(iter(both.api.get("/api/v1/dead-letters")["items"]), None)

    found = wait_until(letter, what="the letter", timeout_s=120, every_s=0.5)
    assert found["reason"] == "unknown_profile"
    body = json.loads(RIGHT.model_copy(update={"alias": "later"}).model_dump_json())
    body["config"]["name"] = "later"
    both.http.post("/api/v1/profiles?activate=true", json=body).raise_for_status()
    done = both.http.post(f"/api/v1/dead-letters/{found['letter_id']}/replay").json()
    assert done["result"] == "waiting", done
    assert both.evaluation("odd")["outcome"] == "passed"


def test_each_role_shows_its_own_series(both: Both, tmp_path: Path) -> None:
    del tmp_path
    api, gateway = both.api.metrics(), both.gateway.metrics()
    name = "scouter_records_received_total"
    assert sum(n for key, n in api.items() if key.startswith(name)) > 0
    assert not [key for key in gateway if key.startswith(name)]
    assert any(key.startswith("scouter_ingest_duration_seconds_count") for key in gateway)
    assert any(key.startswith("scouter_receiver_lag_seconds") for key in api)
