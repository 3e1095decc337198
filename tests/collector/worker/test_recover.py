"""Judgements that were started: who is judged alone, later, or not any more."""

import contextlib
from pathlib import Path

import httpx
import pytest

from collector.store.commit import RecordId
from collector.worker.recover import Starts
from tests.support.collector_process import CollectorProcess
from tests.support.planted_collector import PlantedCollector
from tests.support.processes import wait_until

A, B = RecordId("s", "a"), RecordId("s", "b")


@pytest.mark.parametrize(
    ("times", "alone", "postponed", "poison"),
    [(0, False, False, False), (1, True, False, False), (2, True, True, False),
     (3, True, True, True)],
)  # fmt: skip
def test_what_a_record_has_become(times: int, alone: bool, postponed: bool, poison: bool) -> None:
    starts = Starts({A: times} if times else {}, is_unfinished=True)
    assert (starts.is_alone(*A), starts.is_postponed(*A), starts.is_poison(*A)) == (
        alone,
        postponed,
        poison,
    )
    assert not starts.is_alone(*B)


def test_a_process_after_an_orderly_end_notes_nothing() -> None:
    assert Starts({}, is_unfinished=False).to_note("s", ["a"]) == []


def test_each_record_is_noted_once_by_a_process() -> None:
    starts = Starts({A: 1}, is_unfinished=True)
    assert starts.to_note("s", ["a", "b"]) == [A, B]
    assert starts.to_note("s", ["a", "b"]) == []


def test_care_ends_once_all_that_was_found_is_finished() -> None:
    starts = Starts({A: 1}, is_unfinished=True)
    starts.rest()
    assert starts.is_careful
    starts.done("s", ["a"])
    starts.rest()
    assert not starts.is_careful
    assert starts.to_note("s", ["b"]) == []


def test_the_collector_goes_on_without_a_record_that_ends_it(tmp_path: Path, answers: Path) -> None:
    """Four processes end by it: with it in the log, beside others, alone, and alone once more."""
    collector = PlantedCollector(tmp_path, "--profile", answers)
    collector.start()
    with contextlib.suppress(httpx.TransportError):  # it may end before it answers
        send(collector, "bomb", {"answer": 42, "bomb": True})
    ends = 0

    def has_letter() -> bool:
        nonlocal ends
        if not collector.process.is_running:
            ends += 1
            collector.kill()
            try:
                collector.start()
            except AssertionError:  # it ended before it was ready
                return False
        with contextlib.suppress(httpx.TransportError):
            return collector.records()["dead_lettered"] == 1
        return False

    wait_until(has_letter, what="a dead letter")
    assert ends == 4
    send(collector, "fine", {"answer": 42})
    collector.wait_evaluated(1)
    (letter,) = collector.get("/api/v1/dead-letters")["items"]
    assert (letter["reason"], letter["uid"]) == ("poison", "bomb")
    assert "ended again and again" in letter["message"]
    collector.close()


def send(collector: CollectorProcess, uid: str, context: object) -> None:
    records = [{"uid": uid, "profile": "answers", "context": context}]
    answer = httpx.post(f"{collector.url}/v1/records", json={"records": records}, timeout=120)
    assert answer.status_code == 200, answer.text
