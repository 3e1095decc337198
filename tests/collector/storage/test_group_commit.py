"""The thread that commits goes on, whatever happens to it."""

import logging
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import closing

import pytest

from collector.storage.group_commit import GroupWriter
from scouter.errors import DataError


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
    """What is due there can be made up for; rows that nobody stores any more cannot."""

    def tend() -> None:
        raise ZeroDivisionError

    writer = GroupWriter(commit, afterwards=tend)
    with closing(writer), caplog.at_level(logging.ERROR):
        for row in range(3):
            job = Job(row)
            writer.submit(job)
            assert job.future.result(10) == row
    assert "between two commits" in caplog.text


def test_a_job_that_cannot_be_stored_fails_alone() -> None:
    with closing(GroupWriter(commit)) as writer:
        jobs = [Job(row) for row in (1, -1, 2)]
        for job in jobs:
            writer.submit(job)
        with pytest.raises(DataError, match="no such row"):
            jobs[1].future.result(10)
        assert [jobs[at].future.result(10) for at in (0, 2)] == [1, 2]
