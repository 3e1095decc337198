"""Spaces take turns: one that has a lot to do delays another by a turn."""

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from collector.metrics import TotalName
from collector.pipeline.turns import Turns
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.assertion import AssertionTask
from tests.collector.pipeline.process_support import Process
from tests.contracts.store_data import SPACE, record

BEHIND: Final = AgentEvalProfile(
    [
        AssertionTask("first", "answer", 1, "Equals"),
        AssertionTask("second", "answer", 1, "Equals", depends_on=["first"]),
    ],
    alias="slow",
)
"""Tasks that depend on others are run record by record, with a look at the clock between."""


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Process]:
    running = Process(tmp_path, BEHIND)
    yield running
    running.store.close()


def test_each_has_its_turn_and_its_own_order() -> None:
    turns: Turns[int] = Turns()
    for space, item in (("a", 1), ("a", 2), ("b", 3), ("a", 4), ("c", 5)):
        turns.put(space, item)
    turns.put_first("a", 0)
    assert (len(turns), list(turns)) == (6, [0, 1, 2, 4, 3, 5])
    order: list[tuple[str, int]] = []
    while (space := turns.next_space()) is not None:
        item = turns.pop(space)
        assert item is not None
        order.append((space, item))
    assert order == [("a", 0), ("b", 3), ("c", 5), ("a", 1), ("a", 2), ("a", 4)]
    assert (bool(turns), turns.pop("a")) == (False, None)


def test_a_space_that_was_alone_waits_for_one_that_came_meanwhile() -> None:
    turns: Turns[int] = Turns()
    for item in range(3):
        turns.put("a", item)
    assert (turns.next_space(), turns.pop("a"), turns.next_space()) == ("a", 0, "a")
    turns.put("b", 9)
    assert (turns.next_space(), turns.next_space()) == ("b", "a")


def test_what_is_dropped_leaves_no_empty_queue() -> None:
    turns: Turns[int] = Turns()
    turns.put("a", 1)
    turns.put("b", 2)
    turns.keep(lambda item: item > 1)
    assert (turns.next_space(), turns.next_space(), list(turns)) == ("b", "b", [2])


def test_a_slow_space_delays_another_by_a_turn(process: Process) -> None:
    """A record takes 0.1 s. 200 of one space wait when the only one of another comes."""
    other = process.register(BEHIND, "other")
    context = {"answer": 1}
    slow = [record(f"u{n}", profile_uid=process.profile_uid, context=context) for n in range(200)]
    process.records(*slow)
    process.tick_s = 0.1
    process.work.step()
    begun = len(process.evaluations())
    assert 0 < begun < 10
    process.records(record("mine", space="other", profile_uid=other, context=context))
    came = process.now
    while not process.evaluations("other"):
        process.work.step()
    assert process.now - came < 3.0
    assert process.work.waiting == 200 - len(process.evaluations()) > 100
    while not process.work.step():
        pass
    assert len(process.evaluations()) == 200
    assert process.total(TotalName.RECORDS) == 201
    assert process.work.waiting == 0


def test_a_trace_that_was_begun_goes_on_in_its_next_turn(process: Process) -> None:
    """Records of one trace are given back in part, and decided once each."""
    trace = "a" * 32
    uid = process.profile_uid
    rows = [
        record(f"u{n}", profile_uid=uid, trace_id=trace, context={"answer": 1}) for n in range(30)
    ]
    process.records(*rows)
    process.tick_s = 0.1
    steps = 0
    while process.work.waiting:
        process.work.step()
        steps += 1
        assert steps < 100
    assert steps > 3
    assert len(process.evaluations()) == process.total(TotalName.RECORDS) == 30
    assert rows[0].space == SPACE
