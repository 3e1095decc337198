"""When offsets are committed, and what becomes of the answers."""

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from kafka import errors
from kafka.structs import OffsetAndMetadata, TopicPartition

from collector.receivers.kafka.commits import Continuity, OffsetCommits
from collector.receivers.kafka.intake import KafkaIntake

P0 = TopicPartition("t", 0)
LOST = errors.NodeNotReadyError("away")


@dataclass
class Durable:
    """The part of a `KafkaIntake` that is used."""

    offsets: dict[TopicPartition, int] = field(default_factory=dict[TopicPartition, int])

    def durable_offsets(self) -> Mapping[TopicPartition, int]:
        return dict(self.offsets)

    def forget(self, offsets: Mapping[TopicPartition, int]) -> None:
        for partition, offset in offsets.items():
            if self.offsets.get(partition) == offset:
                del self.offsets[partition]

    def finish_within(self, timeout_s: float) -> None:
        """Everything is durable already."""


@dataclass
class Consumer:
    """Remembers commits until the test answers them."""

    sent: list[int] = field(default_factory=list[int])
    answers: list[Callable[[object], None]] = field(default_factory=list[Any])

    def commit_async(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        callback: Callable[[object, object], None],
    ) -> None:
        self.sent += [each.offset for each in offsets.values()]
        self.answers.append(lambda answer: callback(offsets, answer))


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def make() -> tuple[Durable, OffsetCommits, Consumer, Clock]:
    durable, clock = Durable({P0: 8}), Clock()
    commits = OffsetCommits(
        cast(KafkaIntake, durable), Continuity(lambda partition, first, number: None), clock
    )
    return durable, commits, Consumer(), clock


def test_one_commit_is_on_its_way_at_a_time() -> None:
    durable, commits, consumer, clock = make()
    commits.commit(consumer)
    durable.offsets[P0] = 9
    clock.now += 60
    commits.commit(consumer, at_once=True)
    assert consumer.sent == [8]

    consumer.answers.pop()(None)
    assert durable.offsets == {P0: 9}
    commits.commit(consumer)
    consumer.answers.pop()(None)
    assert (consumer.sent, durable.offsets) == ([8, 9], {})


def test_under_load_they_are_five_a_second() -> None:
    durable, commits, consumer, clock = make()
    for n in range(100):  # a second
        durable.offsets[P0] = n
        commits.commit(consumer)
        while consumer.answers:
            consumer.answers.pop()(None)
        clock.now += 0.01
    assert 4 <= len(consumer.sent) <= 6

    durable.offsets[P0] = 100
    commits.commit(consumer, at_once=True)
    assert consumer.sent[-1] == 100


def test_a_failure_is_reported_once_and_tried_again_every_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    durable, commits, consumer, clock = make()
    for _ in range(50):  # ten seconds of a broker that is away
        commits.commit(consumer, at_once=True)
        while consumer.answers:
            consumer.answers.pop()(LOST)
        clock.now += 0.2
    assert 9 <= len(consumer.sent) <= 11
    assert durable.offsets == {P0: 8}
    assert [each.levelname for each in caplog.records] == ["WARNING"]
    assert "offsets were not committed" in caplog.text

    clock.now += 1
    commits.commit(consumer)
    consumer.answers.pop()(None)
    durable.offsets[P0] = 9
    commits.commit(consumer, at_once=True)
    consumer.answers.pop()(LOST)
    assert len(caplog.records) == 2


def test_a_commit_that_is_never_answered_is_sent_again(caplog: pytest.LogCaptureFixture) -> None:
    _, commits, consumer, clock = make()
    commits.commit(consumer)
    clock.now += 89
    commits.commit(consumer)
    assert consumer.sent == [8]
    clock.now += 2
    commits.commit(consumer)
    assert consumer.sent == [8, 8]
    assert "no answer for 90 s" in caplog.text


def test_the_next_consumer_does_not_wait_for_the_last_one() -> None:
    _, commits, consumer, _ = make()
    commits.commit(consumer)
    commits.begin()
    commits.commit(consumer, at_once=True)
    assert consumer.sent == [8, 8]


@dataclass
class Leaving:
    """A consumer whose commits are awaited: first it finds the coordinator, if it has to."""

    answers: list[object]
    sent: list[int] = field(default_factory=list[int])

    def commit_async(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> "Answer":
        self.sent += [each.offset for each in offsets.values()]
        return Answer(self.answers.pop(0))


@dataclass
class Answer:
    answer: object

    def __await__(self) -> Generator[None, None, object]:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer
        yield


@pytest.mark.parametrize(
    ("answers", "sent", "logged"),
    [([None], 1, 0), ([1, None], 2, 0), ([LOST], 1, 1), ([1, LOST], 2, 1)],
    ids=["known", "looked up", "lost", "looked up and lost"],
)
def test_what_is_given_away_is_committed_before(
    answers: list[object], sent: int, logged: int, caplog: pytest.LogCaptureFixture
) -> None:
    durable, commits, _, _ = make()
    leaving = Leaving(answers)
    with caplog.at_level(logging.WARNING):
        asyncio.run(commits.release(leaving))
    assert leaving.sent == [8] * sent
    assert durable.offsets == {}
    assert len(caplog.records) == logged
