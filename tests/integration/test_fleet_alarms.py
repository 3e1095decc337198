"""A fleet raises the same alarms as one collector for the same traffic."""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from scouter.alert.config import AgentAlertConfig, AlertCondition, AlertThreshold
from scouter.drift.config import AgentEvalConfig
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.support.collector_process import CollectorProcess, deliver
from tests.support.fleet import Fleet, FleetMember, small_fleet
from tests.support.kafka_broker import ExternalBroker, KafkaBroker
from tests.support.postgresql_server import PostgresqlServer
from tests.support.processes import wait_until

BATCH: Final = 60
HEALTHY: Final = ([42] * 9 + [41]) * 100
"""As many as a detector learns from, so that their order changes no reference."""
FALLEN: Final = [42, 41] * 60
ALERT: Final = AgentAlertConfig(
    alert_condition=AlertCondition(0.9, AlertThreshold.Below, 0.03), window=5_000
)
"""A window that all records fit into: one that counted twice, or not at all, would show."""


def profile(alias: str, *tasks: AssertionTask, **config: Any) -> AgentEvalProfile:
    return AgentEvalProfile(list(tasks), AgentEvalConfig(**config), alias=alias)


PROFILES: Final = (
    profile(
        "falls", AssertionTask("right", "answer", 42, "Equals"),
        AssertionTask("found", "kept", 42, "Equals"), alert_config=ALERT,
    ),
    profile("stays", AssertionTask("there", "answer", 40, "GreaterThan"), alert_config=ALERT),
)  # fmt: skip


def records(answers: Sequence[int], first: int, *, is_healthy: bool) -> Iterator[dict[str, Any]]:
    """Of each answer a record for each profile; a second lies between two answers."""
    for n, answer in enumerate(answers, first):
        context = {"answer": answer, **({"kept": 42} if is_healthy or n % 2 else {})}
        at = f"2026-11-02T{n // 3600:02}:{n // 60 % 60:02}:{n % 60:02}Z"
        for each in PROFILES:
            yield {"uid": f"{each.alias}{n}", "profile": each.alias, "created_at": at,
                   "context": context}  # fmt: skip


def send(url: str, sent: Sequence[dict[str, Any]]) -> None:
    for at in range(0, len(sent), BATCH):
        body = {"records": sent[at : at + BATCH]}
        deliver(f"{url}/v1/records", json=body)


class Alarms:
    """What a collector, or a fleet, makes of the traffic.

    Args:
        way: Takes the records.
        api: Is asked.
    """

    def __init__(self, way: CollectorProcess, api: CollectorProcess) -> None:
        self._way, self._api = way, api

    def run(self) -> None:
        """Send a healthy start, then the fall, until all of it is evaluated and looked at."""
        for answers, first, is_healthy in (
            (HEALTHY, 0, True),
            (FALLEN, len(HEALTHY), False),
        ):
            send(self._way.url, list(records(answers, first, is_healthy=is_healthy)))
            number = first + len(answers)
            self._api.wait_evaluated(number * len(PROFILES))
            wait_until(
                lambda number=number: set(self.taken().values()) == {number},
                what=f"the detectors have {number} records of each profile",
                every_s=0.2,
            )
            wait_until(
                lambda number=number: {each["n"] for each in self.conditions()} == {number},
                what=f"the conditions have {number} records of each profile",
                every_s=0.2,
            )

        wait_until(self.are_opened, what="what holds is an alert", every_s=0.2)

    def are_opened(self) -> bool:
        """Tell whether the detectors' thread has opened the alerts of conditions that hold."""
        items = self._api.get("/api/v1/alerts")["items"]
        return all(each["alert_id"] for each in items if each["state"] == "firing")

    def taken(self) -> Mapping[str, int]:
        """Records of the series of errors, by profile: each record is in one."""
        items = self._api.get("/api/v1/drift/series")["items"]
        return {each["profile"]: each["records"] for each in items if each["kind"] == "error"}

    def conditions(self) -> list[dict[str, Any]]:
        names = ("profile", "state", "condition", "pass_rate", "lower", "upper", "passed", "n")
        items = self._api.get("/api/v1/alerts")["items"]
        return [{name: each[name] for name in names} for each in items]

    def drift(self) -> list[tuple[Any, ...]]:
        """The alerts without what depends on the moment: how much had been seen of a fall."""
        names = ("profile", "task", "kind", "service", "environment", "version", "state", "stands",
                 "condition")  # fmt: skip
        return sorted(
            (*(each[name] for name in names), each["opened"]["healthy"], each["opened"]["against"],
             *sorted((part["task"], part["kind"]) for part in each["together"]))
            for each in self._api.get("/api/v1/alerts")["drift"]
        )  # fmt: skip


def check_other_api(gateway: CollectorProcess, api: CollectorProcess, other: FleetMember) -> None:
    """Look at alerts, and change them, by an api without the duties: all apis agree."""
    here, there = Alarms(gateway, api), Alarms(gateway, other)
    wait_until(lambda: there.conditions() == here.conditions(), what="it has all conditions")
    wait_until(lambda: there.drift() == here.drift(), what="it has all alerts")
    assert there.taken() == here.taken()
    by_task = {each["task"]: each for each in listed(other) if not each["condition"]}
    name = by_task["right"]["alert_id"]
    for verb, state in (("acknowledge", "acknowledged"), ("silence", "silenced")):
        body = {"note": "on it", "name": "Ann", **({"seconds": 600} if verb == "silence" else {})}
        found = act(other, name, verb, body)
        assert (found["state"], found["name"], found["note"]) == (state, "Ann", "on it")
        for each in (api, other):
            assert state_of(each, name) == state
    series = {each["task"]: each for each in series_of(api)}
    assert series["right"]["state"] != "learning"
    assert act(other, name, "resolve", {"accept": True})["state"] == "resolved"
    assert state_of(api, name) == "resolved"
    series = {each["task"]: each for each in series_of(api)}
    assert series["right"]["state"] == "learning", "its detector learns anew"
    again = httpx.post(f"{other.url}/api/v1/alerts/{name}/resolve", json={}, timeout=120)
    assert again.status_code == 404
    condition = next(each["alert_id"] for each in listed(other) if each["condition"])
    refused = httpx.post(
        f"{other.url}/api/v1/alerts/{condition}/resolve", json={"accept": True}, timeout=120
    )
    assert refused.status_code == 409
    assert "changed in its profile" in refused.json()["detail"]
    assert act(other, condition, "resolve", {})["state"] == "resolved"
    assert {each["profile"]: each["state"] for each in here.conditions()}["falls"] == "resolved"


def listed(api: CollectorProcess) -> list[dict[str, Any]]:
    return list(api.get("/api/v1/alerts")["drift"])


def state_of(api: CollectorProcess, name: str) -> str:
    return next(each["state"] for each in listed(api) if each["alert_id"] == name)


def series_of(api: CollectorProcess) -> list[dict[str, Any]]:
    items = api.get("/api/v1/drift/series")["items"]
    return [each for each in items if each["profile"] == "falls" and each["kind"] == "pass"]


def act(api: CollectorProcess, name: str, verb: str, body: Mapping[str, Any]) -> dict[str, Any]:
    sent = httpx.post(f"{api.url}/api/v1/alerts/{name}/{verb}", json=body, timeout=120)
    sent.raise_for_status()
    return dict(sent.json())


@pytest.fixture
def profiles(tmp_path: Path) -> list[str]:
    flags: list[str] = []
    for each in PROFILES:
        flags += ["--profile", str(each.save_to_json(tmp_path / f"{each.alias}.json"))]
    return flags


def test_the_same_traffic_raises_the_same_alarms(
    tmp_path: Path, kafka: KafkaBroker | ExternalBroker, profiles: list[str]
) -> None:
    """Of detectors, with their series and references, and of conditions with all their counts."""
    (tmp_path / "one").mkdir()
    one = CollectorProcess(tmp_path / "one", *profiles)
    one.start()
    try:
        alone = Alarms(one, one)
        alone.run()
        expected, counted = alone.drift(), alone.conditions()
    finally:
        one.close()
    assert {(each[0], each[1], each[2]) for each in expected} >= {
        ("falls", "right", "pass"), ("falls", "found", "error"),
    }  # fmt: skip
    assert not any(each[1] == "" and each[8] == "" for each in expected), "the record falls with"
    assert {each["profile"]: each["state"] for each in counted} == {
        "falls": "firing", "stays": "inactive",
    }  # fmt: skip

    server = PostgresqlServer()
    try:
        fleet = Fleet(tmp_path, kafka, server, f"alarms-{uuid.uuid4().hex[:8]}", *profiles)
        with small_fleet(fleet, workers=2) as (gateway, api):
            together = Alarms(gateway, api)
            together.run()
            assert together.drift() == expected
            assert together.conditions() == counted
            other = fleet.add("api", "api-2")
            check_other_api(gateway, api, other)
    finally:
        server.stop()
