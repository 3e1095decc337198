"""`kill -9` while detectors watch: no result is lost to the evidence, and none counts twice."""

import json
import random
import threading
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from collector.alerts.watcher import HEALTH
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.observed import BEFORE_ALL
from scouter.drift.series.reference import stated_by
from scouter.drift.series.series_set import SeriesSet
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.transport.http_client import trusted
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until
from tests.support.store_appends import AppendingStore

PROFILE: Final = AgentEvalProfile(
    [AssertionTask("right", "answer", 42, ComparisonOperator.Equals)], alias="answers"
)
BATCH: Final = 25
GOOD: Final = [42] * 9 + [41]
ANSWERS: Final = GOOD * 110 + [42, 41] * 120 + GOOD * 60
"""Healthy for 1,100 records, then half of 240 fail, then healthy again."""


def deliver(url: str, answers: Sequence[int]) -> None:
    """Send records in order, each until it is accepted."""
    pause = threading.Event()
    for first in range(0, len(answers), BATCH):
        records = [
            {"uid": f"u{first + at}", "profile": "answers", "context": {"answer": answer}}
            for at, answer in enumerate(answers[first : first + BATCH])
        ]
        while True:
            try:
                answer = httpx.post(
                    f"{url}/v1/records", json={"records": records}, timeout=120, verify=trusted()
                )
                if answer.is_success:
                    break
            except httpx.HTTPError:  # it was killed: the same records again
                pause.wait(0.05)


def taken(collector: CollectorProcess) -> int:
    """Records that the whole records' series has."""
    found = collector.get("/api/v1/drift/series")["items"]
    return sum(each["records"] for each in found if (each["task"], each["kind"]) == ("", "pass"))


@pytest.mark.parametrize("kills", [2, pytest.param(6, marks=pytest.mark.long)])
def test_a_killed_detector_goes_on_exactly(tmp_path: Path, kills: int) -> None:
    profile = PROFILE.save_to_json(tmp_path / "p.json")
    collector = CollectorProcess(tmp_path, "--profile", profile)
    moments, pause = random.Random(36), threading.Event()
    collector.start()
    try:
        with ThreadPoolExecutor(1) as pool:
            sending = pool.submit(deliver, collector.url, ANSWERS)
            for _ in range(kills):
                pause.wait(moments.random() * 2)
                collector.kill()
                collector.start()
            sending.result(timeout=240)
        collector.wait_evaluated(len(ANSWERS))
        wait_until(lambda: taken(collector) >= len(ANSWERS), what="all are taken", every_s=0.2)
        assert taken(collector) == len(ANSWERS)
        alerts = collector.get("/api/v1/alerts")["drift"]
        assert [each["task"] for each in alerts] == ["right"]
        look = collector.get(f"/api/v1/alerts/{alerts[0]['alert_id']}")
        assert [event["state"] for event in look["history"]] == ["firing", "resolved"]
        assert Counter(each["task"] for each in look["together"]) == {"": 1, "right": 1}
    finally:
        collector.close()
    assert kept(tmp_path / "data") == anew(tmp_path / "data")


def kept(folder: Path) -> list[Any]:
    """The state of the one group, as it was kept through all kills."""
    store = AppendingStore(folder)
    states = [state for state in store.drift_states() if state.name not in ("", HEALTH)]
    found = [json.loads(state.body) for state in states]
    store.close()
    return found


def anew(folder: Path) -> list[Any]:
    """The state that the stored results give in one go."""
    stated = stated_by(PROFILE)
    store, series = AppendingStore(folder), SeriesSet(stated_of=lambda space, uid: stated)
    series.decided(None)
    while page := store.decided_after(series.place, 100):
        for observed in page:
            series.take(observed)
    store.close()
    series.decided({})
    series.advance(series.now_ns)
    assert series.place != BEFORE_ALL
    return [json.loads(json.dumps(group.to_json())) for group in series.groups.values()]
