"""The seconds that a consumer is behind its queue."""

import pytest

from collector.receivers.lag import Backlog


class Queue:
    """One queue and its consumer; a second passes between two looks."""

    def __init__(self) -> None:
        self.now = 100.0
        self.backlog = Backlog(lambda: self.now)
        self.end = self.read = 0

    def look(self, came: int, read: int) -> float | None:
        self.now += 1
        self.end += came
        self.read += read
        return self.backlog.behind_s({"q": self.end}, {"q": self.read})


@pytest.fixture
def queue() -> Queue:
    return Queue()


def test_an_empty_queue_is_no_lag(queue: Queue) -> None:
    assert queue.look(0, 0) == 0


def test_a_consumer_that_is_always_a_little_behind(queue: Queue) -> None:
    """A thousand come in each second, the last hundred are never read: one second, not more."""
    assert queue.look(1000, 900) is None
    assert [queue.look(1000, 1000) for _ in range(100)] == [1] * 100


def test_a_consumer_that_stands_still(queue: Queue) -> None:
    assert queue.look(10, 10) == 0
    assert [queue.look(10, 0) for _ in range(50)] == list(range(1, 51))
    assert queue.look(0, 500) == 0


def test_a_consumer_that_catches_up_slowly(queue: Queue) -> None:
    """Ten wait, one comes and two are read in each second: after ten seconds none is left.

    The end is 10, 11, 12 … after one second, two …; it read 2, 4, 6 …: after second n it has
    reached the end of second m where 9 + m <= 2 n.
    """
    found = [queue.look(10, 2), *(queue.look(1, 2) for _ in range(8))]
    assert found == [None, None, None, None, 4, 3, 2, 1, 0]


def test_what_other_consumers_took_is_not_waited_for() -> None:
    """Ten were to come here; others read five of them, and the end moved back."""
    now = 0.0
    backlog = Backlog(lambda: now)
    assert backlog.behind_s({"q": 10}, {"q": 0}) is None
    now = 3.0
    assert backlog.behind_s({"q": 5}, {"q": 5}) == 0


def test_every_queue_counts() -> None:
    backlog = Backlog(lambda: 0.0)
    assert backlog.behind_s({"a": 1, "b": 1}, {"a": 1, "b": 0}) is None
    assert backlog.behind_s({"a": 1, "b": 1}, {"a": 1, "b": 1}) == 0


def test_nothing_is_known_of_other_queues(queue: Queue) -> None:
    assert queue.look(10, 10) == 0
    queue.backlog.clear()
    assert queue.look(1, 0) is None
