"""The join's time: it stands still while a source of spans is behind."""

from collections.abc import Callable

import pytest

from collector.pipeline.input_clock import InputClock


class Clock:
    """A monotonic clock that the test moves."""

    def __init__(self) -> None:
        self.now = 500.0
        self.inputs = InputClock(lambda: self.now, grace_s=1, stale_s=5, max_step_s=2)

    def run(self, seconds: int, each: Callable[[], None] = lambda: None) -> float:
        """Tick every half second; returns how far the join's time went."""
        before = after = self.inputs.tick()
        for _ in range(seconds * 2):
            self.now += 0.5
            each()
            after = self.inputs.tick()
        return after - before


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_without_sources_all_time_counts(clock: Clock) -> None:
    assert clock.run(100) == 100
    assert clock.inputs.behind() == ()


def test_a_source_is_behind_until_it_says_otherwise(clock: Clock) -> None:
    clock.inputs.add("kafka")
    assert clock.run(100) == 0
    assert clock.inputs.behind() == ("kafka",)
    clock.inputs.report("kafka", is_caught_up=True)
    assert clock.run(3, lambda: clock.inputs.report("kafka", is_caught_up=True)) == 3


def test_a_lag_stops_the_time_after_the_grace(clock: Clock) -> None:
    """One second of grace, then a minute of lag; what counted before stays."""
    clock.inputs.report("kafka", is_caught_up=True)
    assert clock.run(60, lambda: clock.inputs.report("kafka", is_caught_up=False)) == 1
    assert clock.run(10, lambda: clock.inputs.report("kafka", is_caught_up=True)) == 10


def test_a_source_that_is_caught_up_now_and_then_is_not_behind(clock: Clock) -> None:
    """Under load: every second report says that there is more to read."""
    turn = [0]

    def report() -> None:
        turn[0] += 1
        clock.inputs.report("kafka", is_caught_up=turn[0] % 2 == 0)

    clock.inputs.report("kafka", is_caught_up=True)
    assert clock.run(60, report) == 60


def test_a_source_that_says_nothing_hangs(clock: Clock) -> None:
    clock.inputs.report("kafka", is_caught_up=True)
    assert clock.run(60) == 5
    clock.inputs.remove("kafka")
    assert clock.run(60) == 60


def test_a_stopped_process_or_a_jump_counts_one_step(clock: Clock) -> None:
    """A minute in which nothing ran: nothing could come in either. Backwards counts nothing."""
    before = clock.inputs.tick()
    clock.now += 60
    assert clock.inputs.tick() - before == 2
    clock.now -= 1000
    assert clock.inputs.tick() - before == 2
