"""The thread that commits goes on, whatever happens to it."""

import logging
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing

import pytest

from collector.storage.duckdb.group_commit import GroupWriter
from scouter.errors import DataError, TransientError
from tests.support.processes import wait_until


class Job:
    """One row."""

    size = 1

    def __init__(self, row: int) -> None:
        self.row = row
        self.future: Future[object] = Future()


def commit(group: Sequence[Job]) -> Sequence[object]:
    if any(job.row < 0 for job in group):
        raise ValueError("no such row")
    return [job.row for job in group]


def test_it_outlives_a_fault_between_two_commits(caplog: pytest.LogCaptureFixture) -> None:
    """Work that is due there can be done later; rows that nobody stores any more are lost."""

    def tend() -> None:
        raise ZeroDivisionError

    writer = GroupWriter(commit, afterwards=tend)
    with closing(writer), caplog.at_level(logging.ERROR):
        for row in range(3):
            job = Job(row)
            writer.submit(job)
            assert job.future.result(120) == row
    assert "between two commits" in caplog.text


def test_a_job_that_cannot_be_stored_fails_alone() -> None:
    with closing(GroupWriter(commit)) as writer:
        jobs = [Job(row) for row in (1, -1, 2)]
        for job in jobs:
            writer.submit(job)
        with pytest.raises(DataError, match="no such row"):
            jobs[1].future.result(120)
        assert [jobs[at].future.result(120) for at in (0, 2)] == [1, 2]


class Paused:
    """A writer that gathers promised jobs for longer than a test takes, and what it commits."""

    def __init__(self) -> None:
        self.groups: list[list[int]] = []
        self.writer: GroupWriter[Job] = GroupWriter(
            self._commit, is_promised=lambda job: job.row < 100, pause_s=60
        )

    def _commit(self, group: Sequence[Job]) -> Sequence[object]:
        self.groups.append([job.row for job in group])
        return commit(group)

    def submit(self, *rows: int) -> list[Job]:
        jobs = [Job(row) for row in rows]
        for job in jobs:
            self.writer.submit(job)
        return jobs


@pytest.fixture
def paused() -> Iterator[Paused]:
    """Its first commit is behind it: that one waits for nothing."""
    paused = Paused()
    with closing(paused.writer):
        (first,) = paused.submit(0)
        first.future.result(120)
        yield paused


def test_promised_jobs_are_gathered_until_somebody_is_in_a_hurry(paused: Paused) -> None:
    jobs = paused.submit(1, 2)
    with pytest.raises(TimeoutError):
        jobs[0].future.result(0.2)
    paused.writer.hurry()
    assert [job.future.result(120) for job in jobs] == [1, 2]
    assert paused.groups == [[0], [1, 2]]


def test_a_job_that_somebody_waits_for_takes_the_others_along(paused: Paused) -> None:
    jobs = paused.submit(1, 100)
    assert [job.future.result(120) for job in jobs] == [1, 100]
    assert paused.groups == [[0], [1, 100]]


def test_a_job_that_somebody_waits_for_does_not_wait_for_others(paused: Paused) -> None:
    awaited, _ = paused.submit(100, 1)
    assert awaited.future.result(120) == 100


def test_the_end_waits_for_no_pause(paused: Paused) -> None:
    (job,) = paused.submit(1)
    paused.writer.close()
    assert job.future.result(0) == 1


def test_a_pause_ends_by_itself() -> None:
    writer = GroupWriter(commit, is_promised=lambda job: True, pause_s=0.05)
    with closing(writer):
        for row in range(3):
            job = Job(row)
            writer.submit(job)
            assert job.future.result(120) == row


def test_what_is_due_is_tried_until_it_works_though_nothing_comes() -> None:
    """Until then the writer says why it takes nothing; a load balancer sends nothing meanwhile."""
    is_full, tried = threading.Event(), threading.Event()
    is_full.set()

    def tend() -> None:
        if is_full.is_set():
            raise TransientError("no room")
        tried.set()

    with closing(GroupWriter(commit, afterwards=tend)) as writer:
        job = Job(1)
        writer.submit(job)
        assert job.future.result(120) == 1
        wait_until(lambda: writer.fault == "no room", what="the fault")
        is_full.clear()
        assert tried.wait(120)
        wait_until(lambda: writer.fault == "", what="the end of it")
