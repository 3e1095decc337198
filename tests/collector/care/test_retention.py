"""Retention beside a date that jumps: nothing goes by that alone."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from collector.care.retention import FILE_NAME, FileNote, Housekeeping, RetentionClock
from tests.support.worker_room import SPACE, WorkerRoom, span

DAY = 86_400
DAY_NS = DAY * 10**9
START = 20_000
"""The day on which the tests begin."""


class Hands:
    """Both clocks of a machine, in days."""

    def __init__(self) -> None:
        self.date, self.ran = float(START), 5.0

    def run(self, days: float) -> None:
        self.date += days
        self.ran += days

    def now_ns(self) -> int:
        return int(self.date * DAY) * 10**9

    def monotonic(self) -> float:
        return self.ran * DAY


@pytest.fixture
def hands() -> Hands:
    return Hands()


class Days:
    """A clock of a folder, anew with each process."""

    def __init__(self, folder: Path, hands: Hands) -> None:
        self._folder, self._hands = folder, hands
        self.start()

    def start(self) -> None:
        """Begin a process; its monotonic clock may be another machine's."""
        self._hands.ran = 1.0
        self._clock = RetentionClock(
            FileNote(self._folder / FILE_NAME), 30 * DAY, self._hands.now_ns, self._hands.monotonic
        )

    def days(self, newest: float | None = None) -> float:
        newest_ns = None if newest is None else int(newest * DAY_NS)
        return self._clock.now_ns(newest_ns) / DAY_NS - START


@pytest.fixture
def counted(tmp_path: Path, hands: Hands) -> Days:
    return Days(tmp_path, hands)


def test_without_a_jump_it_is_the_date(counted: Days, hands: Hands) -> None:
    for passed in (0, 0.25, 1, 40):
        hands.run(passed)
        assert counted.days() == pytest.approx(hands.date - START)


def test_a_date_set_ahead_is_followed_once_that_much_has_run(
    counted: Days, hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    """A year ahead after a day: reported are day 1, 11 and 30, and the date from day 31 on."""
    counted.days()
    hands.run(1)
    hands.date += 365
    assert counted.days() == pytest.approx(1)
    hands.run(10)
    assert counted.days() == pytest.approx(11)
    hands.run(19)
    assert counted.days() == pytest.approx(30)
    hands.run(1)
    assert counted.days() == pytest.approx(365 + 31)
    assert len(caplog.records) == 1
    assert "365.0 days ahead" in caplog.text
    assert "nothing out for that in the next 30.0 days" in caplog.text


def test_a_date_set_ahead_and_back_again_leaves_nothing(counted: Days, hands: Hands) -> None:
    counted.days()
    hands.date += 365
    counted.days()
    hands.run(1)
    hands.date -= 365
    assert counted.days() == pytest.approx(1)
    hands.run(1)
    assert counted.days() == pytest.approx(2)


def test_a_date_set_back_is_followed(counted: Days, hands: Hands) -> None:
    counted.days()
    hands.date -= 100
    assert counted.days() == pytest.approx(-100)


def test_a_machine_that_slept_is_a_jump(counted: Days, hands: Hands) -> None:
    """As the monotonic clock stands still meanwhile; half an hour of it is none."""
    counted.days()
    hands.date += 1 / 48
    assert counted.days() == pytest.approx(1 / 48)
    hands.date += 60
    assert counted.days() == pytest.approx(1 / 48)


def test_a_restart_forgets_no_jump(counted: Days, hands: Hands) -> None:
    """20 of its 30 days ran before; half a day of stop counts, but is no time that ran."""
    counted.days()
    hands.date += 365
    counted.days()
    hands.run(20)
    assert counted.days() == pytest.approx(20)
    hands.date += 0.5
    counted.start()
    assert counted.days(newest=hands.date) == pytest.approx(20.5)
    hands.run(9)
    assert counted.days() == pytest.approx(29.5)
    hands.run(1)
    assert counted.days() == pytest.approx(365 + 30.5)


def test_of_a_stop_one_day_counts(counted: Days, hands: Hands) -> None:
    counted.days()
    hands.date += 40
    counted.start()
    assert counted.days() == pytest.approx(1)


def test_where_nothing_is_noted_the_newest_row_is_the_last_round(
    counted: Days, hands: Hands, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A store of an older version, a backup, a file that cannot be read."""
    assert counted.days(newest=START - 365) == pytest.approx(-364)
    for damaged in ("{", '{"date_ns": 1}', "[]", '{"date_ns": [1], "lag_ns": 0, "left_s": 0}'):
        (tmp_path / FILE_NAME).write_text(damaged)
        counted.start()
        assert counted.days(newest=START - 0.5) == 0
    (tmp_path / FILE_NAME).unlink()
    counted.start()
    assert counted.days(newest=None) == 0
    assert caplog.text.count("cannot read") == 4
    assert json.loads((tmp_path / FILE_NAME).read_text())["lag_ns"] == 0


@pytest.fixture
def room(tmp_path: Path) -> Iterator[WorkerRoom]:
    room = WorkerRoom(tmp_path / "data", {})
    yield room
    room.close()


def test_a_jump_of_the_date_takes_nothing_out(room: WorkerRoom, hands: Hands) -> None:
    """Three days stay; spans of day 0 and, behind a jump of a year, of day 2."""

    def append(trace: int) -> None:
        room.now_ns = hands.now_ns()
        room.spans(span(trace, 1))
        room.work()

    rounds = Housekeeping(
        room.store,
        room.log,
        room.folder,
        retention_days=3,
        max_store_bytes=None,
        now_ns=hands.now_ns,
        monotonic=hands.monotonic,
    )
    append(1)
    assert rounds.tidy() == 0
    hands.run(2)
    hands.date += 365
    assert rounds.tidy() == 0
    append(2)
    hands.run(0.9)
    assert rounds.tidy() == 0
    hands.run(0.2)
    assert rounds.tidy() == 1  # three days old by now, as time ran
    hands.run(1.8)
    assert rounds.tidy() == 0
    hands.run(0.2)
    assert rounds.tidy() == 1
    sheet = room.store.conservation(SPACE).spans
    assert (sheet.stored, sheet.expired) == (0, 2)
