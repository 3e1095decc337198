"""Days and nights in fast motion, and a version that comes early, at a collector that is a program.

Records carry the times at which they were created, days ago: nothing waits for a clock.
"""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.support.collector_process import CollectorProcess, deliver
from tests.support.processes import wait_until

AN_HOUR: Final = 90
HOUR: Final = 3_600
PROFILE: Final = AgentEvalProfile(
    [AssertionTask("right", "answer", 42, ComparisonOperator.Equals)], alias="answers"
)


@pytest.fixture(scope="module")
def collector(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CollectorProcess]:
    """One for all tests, each of which is of a service of its own."""
    folder = tmp_path_factory.mktemp("first-days")
    found = CollectorProcess(folder, "--profile", PROFILE.save_to_json(folder / "p.json"))
    found.start()
    yield found
    found.close()


def send(
    collector: CollectorProcess, begin_s: float, answers: list[int], *, service: str, version: str
) -> None:
    """Send records of one hour, which an agent made from a time on."""
    step_s = HOUR / len(answers)
    records = [
        {
            "uid": f"{service} {version} {begin_s + at * step_s:.3f}", "profile": "answers",
            "context": {"answer": answer},
            "created_at": datetime.fromtimestamp(begin_s + at * step_s, UTC).isoformat(),
            "tags": {"service.name": service, "service.version": version},
        }
        for at, answer in enumerate(answers)
    ]  # fmt: skip
    deliver(f"{collector.url}/v1/records", json={"records": records})


def series(collector: CollectorProcess, service: str, version: str) -> dict[str, Any]:
    """The series of the whole record; empty before its first record is taken."""
    items = collector.get("/api/v1/drift/series")["items"]
    wanted = (service, version, "", "pass")
    return next(
        (
            each for each in items
            if (each["service"], each["version"], each["task"], each["kind"]) == wanted
        ),
        dict[str, Any](),
    )  # fmt: skip


def alerts(collector: CollectorProcess, service: str) -> list[dict[str, Any]]:
    """Alerts of an agent, those that are over included."""
    found = collector.get("/api/v1/alerts")["drift"]
    return [each for each in found if each["service"] == service]


def every(count: int, of: int) -> list[int]:
    """Answers of one hour of which every so many is wrong."""
    return [41 if at % of == of - 1 else 42 for at in range(count)]


def test_nights_are_no_fall_and_a_worse_night_is(collector: CollectorProcess) -> None:
    """By day one of 30 fails and at night one of 5; the first night may be a fall, no other is."""
    midnight = time.time() // (24 * HOUR) * 24 * HOUR
    first = midnight - 4 * 24 * HOUR + 6 * HOUR

    def pass_hours(begin: int, end: int, at_night: int) -> None:
        for hour in range(begin, end):
            answers = every(AN_HOUR, 30 if hour % 24 < 12 else at_night)
            send(collector, first + hour * HOUR, answers, service="desk", version="1")
        wait_until(
            lambda: series(collector, "desk", "1").get("records") == end * AN_HOUR,
            what="all are taken", every_s=0.5,
        )  # fmt: skip

    pass_hours(0, 24, 5)
    (alert,) = alerts(collector, "desk")
    assert (alert["state"], alert["opened"]["first_days"]) == ("firing", True)
    assert "it may be the time of day, as two days are not known yet" in alert["now"]["message"]
    pass_hours(24, 73, 5)
    over = alerts(collector, "desk")
    assert {each["state"] for each in over} == {"resolved"}
    assert all(each["opened"]["first_days"] for each in over), "none was firm"
    against = series(collector, "desk", "1")["against"]
    assert "96.7% from 06:00 to 18:00 UTC, 80.0% at other times" in against
    pass_hours(73, 84, 5)
    pass_hours(84, 90, 2)
    (worse,) = [each for each in alerts(collector, "desk") if each["state"] == "firing"]
    assert not worse["opened"]["first_days"]
    assert " from 06:00 to 18:00 UTC, " in worse["opened"]["message"]


def test_a_version_that_comes_early_is_watched_and_alarmed(collector: CollectorProcess) -> None:
    """It begins when the one before it has 60 records, and is held against it from 100 on."""
    begin = time.time() - 12 * HOUR
    send(collector, begin, every(60, 10), service="early", version="1")
    send(collector, begin + HOUR, [42, 41] * 60, service="early", version="2")
    wait_until(lambda: series(collector, "early", "2").get("records") == 120, what="they are taken")
    found = series(collector, "early", "2")
    assert found["state"] == "learning"
    assert (
        "against version 1, once that has 100 finished conversations; it has 60"
        in (found["against"])
    )
    assert alerts(collector, "early") == []
    send(collector, begin + 2 * HOUR, every(60, 10), service="early", version="1")
    wait_until(lambda: alerts(collector, "early"), what="the early version is alarmed")
    (alert,) = alerts(collector, "early")
    assert (alert["version"], alert["state"]) == ("2", "firing")
    assert alert["opened"]["against"].startswith("version 1 before it (90.0%")
