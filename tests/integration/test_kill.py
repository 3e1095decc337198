"""`kill -9` in the middle of traffic: what was acknowledged is evaluated, exactly once."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx
import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.support.collector_process import CollectorProcess
from tests.support.processes import wait_until

StartCollector = Callable[..., CollectorProcess]

KILLS: Final = 3
BATCH: Final = 10
ENOUGH_BETWEEN_KILLS: Final = 200


class Producer:
    """Sends batches of records until it is stopped; a batch without an answer is sent again.

    Args:
        url: The collector.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="producer")
        self.acknowledged: list[str] = []
        """Uids in answered batches."""
        self.repeated = 0
        """Batches that were sent again."""

    def __enter__(self) -> "Producer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join(60)

    def _run(self) -> None:
        number = 0
        with httpx.Client(timeout=10) as client:
            while not self._stop.is_set():
                batch = [f"uid-{n}" for n in range(number, number + BATCH)]
                if self._deliver(client, batch):
                    self.acknowledged += batch
                number += BATCH

    def _deliver(self, client: httpx.Client, batch: list[str]) -> bool:
        records = [
            {"uid": uid, "record_id": uid, "profile": "sums", "context": {"text": uid}}
            for uid in batch
        ]
        while not self._stop.is_set():
            try:
                answer = client.post(f"{self._url}/v1/records", json={"records": records})
            except httpx.TransportError:
                self.repeated += 1
                self._stop.wait(0.02)
                continue
            assert answer.is_success, answer.text
            return True
        return False


@pytest.fixture
def collector(start_collector: StartCollector, tmp_path: Path) -> CollectorProcess:
    """A collector with a profile that reads no spans."""
    profile = AgentEvalProfile(
        alias="sums",
        tasks=[AssertionTask("has_text", "text", "uid-", ComparisonOperator.StartsWith)],
    )
    return start_collector("--profile", profile.save_to_json(tmp_path / "sums.json"))


def test_every_acknowledged_record_is_evaluated_exactly_once(collector: CollectorProcess) -> None:
    with Producer(collector.url) as producer:
        for _ in range(KILLS):
            reached = len(producer.acknowledged) + ENOUGH_BETWEEN_KILLS
            wait_until(
                lambda reached=reached: len(producer.acknowledged) >= reached,
                what=f"{reached} records are acknowledged",
            )
            collector.kill()
            collector.start()
        last = len(producer.acknowledged) + ENOUGH_BETWEEN_KILLS
        wait_until(lambda: len(producer.acknowledged) >= last, what="and some more")
    acknowledged = set(producer.acknowledged)
    assert len(acknowledged) == len(producer.acknowledged) >= (KILLS + 1) * ENOUGH_BETWEEN_KILLS
    assert producer.repeated >= KILLS

    def settled() -> bool:
        records = collector.records()
        return records["accepted"] == records["evaluated"] >= len(acknowledged)

    wait_until(settled, what="every accepted record is evaluated", timeout_s=60, every_s=0.1)
    items = collector.evaluations()
    uids = [item["uid"] for item in items]
    counted = sum(
        value
        for name, value in collector.metrics().items()
        if name.startswith("scouter_evaluations_total")
    )

    assert len(uids) == len(set(uids))  # none twice
    assert acknowledged <= set(uids)  # none lost
    assert {item["outcome"] for item in items} == {"passed"}
    assert collector.records()["accepted"] == len(uids) == counted
