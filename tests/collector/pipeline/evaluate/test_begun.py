"""A record whose evaluation ends the process is set aside; others are judged."""

import contextlib
from pathlib import Path

import httpx
import pytest

from collector.pipeline.evaluate.begun import Evaluating, RecordKey
from tests.support.collector_process import CollectorProcess
from tests.support.planted_collector import PlantedCollector
from tests.support.processes import wait_until

A, B, C = ("s", "a"), ("s", "b"), ("t", "a")


def ended(folder: Path, *keys: RecordKey) -> Evaluating:
    """A process ends while it evaluates; the one behind it."""
    process = Evaluating(folder)
    with process.noted(keys):
        left = (folder / "evaluating.json").read_bytes()
    process.close()
    (folder / "evaluating.json").write_bytes(left)
    return Evaluating(folder)


def test_what_ended_alone_twice_is_poison(tmp_path: Path) -> None:
    assert not ended(tmp_path, A).poison
    behind = ended(tmp_path, A)
    assert behind.poison == {A}
    assert behind.is_suspect(A)
    behind.close()
    assert not Evaluating(tmp_path).poison, "it was told once; a replay may try again"


def test_what_ended_together_is_tried_alone_first(tmp_path: Path) -> None:
    behind = ended(tmp_path, A, B, C)
    assert behind.parted("xabcy", [("s", "x"), A, B, C, ("s", "y")]) == [
        ["x", "y"], ["a"], ["b"], ["c"]
    ]  # fmt: skip
    with behind.noted([A]):
        pass
    assert not behind.is_suspect(A), "it was evaluated, and the process is there"
    assert behind.parted("ab", [A, B]) == [["a"], ["b"]]
    behind.close()
    behind = ended(tmp_path, B)
    assert (behind.poison, behind.is_suspect(C)) == (set(), True)
    behind.close()
    behind = ended(tmp_path, B)
    assert behind.poison == {B}
    behind.close()


def test_a_fault_in_python_is_no_end(tmp_path: Path) -> None:
    process = Evaluating(tmp_path)
    for _ in range(3):
        with contextlib.suppress(ValueError), process.noted([A]):
            raise ValueError("no")
    process.close()
    assert not Evaluating(tmp_path).is_suspect(A)


@pytest.mark.parametrize("content", ["{", "[]", '{"now": 1}', '{"now": [["s"]], "suspects": []}'])
def test_a_broken_file_is_made_anew(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "evaluating.json").write_text(content)
    process = Evaluating(tmp_path)
    assert not process.poison
    assert "evaluating.json cannot be read" in caplog.text
    process.close()


def test_the_collector_goes_on_without_a_record_that_ends_it(tmp_path: Path, answers: Path) -> None:
    """Two processes end while they evaluate it; the third sets it aside and judges the rest."""
    collector = PlantedCollector(tmp_path, "--profile", answers)
    collector.start()
    with contextlib.suppress(httpx.TransportError):  # it may end before it answers
        send(collector, "bomb", {"answer": 42, "bomb": True})
    wait_until(lambda: not collector.process.is_running, what="the first process ends")
    with contextlib.suppress(AssertionError):  # it may end before it is ready
        collector.start()
    wait_until(lambda: not collector.process.is_running, what="the second process ends")
    collector.start()
    send(collector, "fine", {"answer": 42})
    collector.wait_evaluated(1)
    wait_until(lambda: collector.records()["dead_lettered"] == 1, what="a dead letter")
    (letter,) = collector.get("/api/v1/dead-letters")["items"]
    assert (letter["reason"], letter["uid"]) == ("poison", "bomb")
    assert "ended the collector's process twice" in letter["message"]
    collector.close()


def send(collector: CollectorProcess, uid: str, context: object) -> None:
    records = [{"uid": uid, "profile": "answers", "context": context}]
    answer = httpx.post(f"{collector.url}/v1/records", json={"records": records}, timeout=120)
    assert answer.status_code == 200, answer.text
