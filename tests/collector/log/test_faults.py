"""Every call of the system that the log makes to write: it fails once, or the process ends there.

After each, everything that was acknowledged is read, in order and once, and nothing that was not
appended: by the process that goes on, by the next one, and by one that starts after a power cut.
"""

import contextlib
import errno
import itertools
from concurrent.futures import Future
from pathlib import Path
from typing import Final

import pytest

from collector.log import file_log
from collector.log.file_log import FileLog
from scouter.errors import ConfigError, TransientError
from tests.contracts.log import item, numbers
from tests.support.faulty_disk import Fault, FaultyDisk, Loss, ProcessEnded
from tests.support.processes import wait_until

SEGMENT_BYTES: Final = 250
"""Two or three items."""
PLAN: Final = (
    "append 60", "append 60", "append 60", "append 60", "commit", "append 300", "trim", "append 10",
    "restart", "append 60", "commit", "roll", "trim", "append 60", "restart", "append 90",
    "append 60",
)  # fmt: skip


class Run:
    """A log, what was acknowledged, and a store that never fails."""

    def __init__(self, folder: Path, disk: FaultyDisk) -> None:
        self.folder, self.disk = folder, disk
        self._numbers = itertools.count()
        self.acknowledged: list[int] = []
        self.tried: list[int] = []
        """Items whose append failed or was never answered."""
        self.stored: list[int] = []
        self.offset = 0
        """Up to which the store has everything."""
        self.refusals = 0
        self.log: FileLog | None = None
        self._open()

    def go(self) -> None:
        """All of the plan, from a new process on wherever one ends."""
        for step in PLAN:
            with contextlib.suppress(ProcessEnded):
                self._do(*step.split())
            if self.disk.ended.is_set():
                self.check_power_cuts()
                self._begin_process()
                self._do("commit")  # of what the page cache gives, synced or not
                self.check_power_cuts()

    def _do(self, name: str, size: str = "") -> None:
        assert self.log is not None
        if name == "append":
            self._append(int(size))
        elif name == "commit":
            self.stored += numbers(self.log, self.offset)
            self.offset = self.log.end
        elif name == "trim":
            self.log.trim(self.offset)
        elif name == "roll":
            for _ in range(2):
                with contextlib.suppress(TransientError):
                    self._answer(self.log.roll())
        else:
            self.log.close()
            self._open()

    def _append(self, size: int) -> None:
        """Append until it is acknowledged: at most twice, as a call fails once."""
        log = self.log
        assert log is not None
        for number in itertools.islice(self._numbers, 2):
            end = log.end
            try:
                offset = self._answer(log.append(item(number, size)))
            except TransientError:
                self.refusals += 1
                self.tried.append(number)
                assert log.end == end
                assert log.fault
                self.check(log)
            except ProcessEnded:
                self.tried.append(number)
                raise
            else:
                assert offset == log.end
                assert not log.fault
                self.acknowledged.append(number)
                return
        raise AssertionError(f"no append after {self.disk.calls[-1]}")

    def _answer(self, future: "Future[int]") -> int:
        wait_until(lambda: future.done() or self.disk.ended.is_set(), what="answer", every_s=0.0)
        if not future.done():
            raise ProcessEnded
        return future.result(0)

    def _open(self) -> None:
        """Open the log; a start that fails is tried again."""
        try:
            self.log = FileLog(self.folder, self.offset, segment_bytes=SEGMENT_BYTES)
        except ConfigError:
            self.refusals += 1
            self.log = FileLog(self.folder, self.offset, segment_bytes=SEGMENT_BYTES)

    def _begin_process(self) -> None:
        if self.log is not None:
            with contextlib.suppress(ProcessEnded):
                self.log.close()
        self.disk.restart()
        self._open()

    def check(self, log: FileLog) -> None:
        """Compare what is read with what was acknowledged."""
        found = [*self.stored, *numbers(log, self.offset)]
        assert [number for number in found if number not in self.tried] == self.acknowledged
        assert found == sorted(set(found))

    def check_power_cuts(self) -> None:
        """Open what is left after power cuts of each kind.

        Parts of what was not synced may look like damage; no more than what was never acknowledged.
        """
        for loss in Loss:
            rest = self.folder.parent / f"rest {next(_rests)}"
            self.disk.power_cut(rest, loss)
            log = FileLog(rest, self.offset, segment_bytes=SEGMENT_BYTES)
            found = [*self.stored, *numbers(log, self.offset, gaps=[])]
            assert [number for number in found if number not in self.tried] == self.acknowledged
            assert found == sorted(set(found))
            log.append(item(10_000)).result(120)
            assert numbers(log, self.offset, gaps=[])[-1] == 10_000
            log.close()


_rests = itertools.count()


def run(tmp_path: Path, patch: pytest.MonkeyPatch, at: int, fault: Fault, number: int) -> Run:
    """Go through the plan with one fault, and check everything."""
    folder = tmp_path / f"{fault.value} {at}" / "log"
    folder.parent.mkdir()
    with patch.context() as patched:
        patched.setattr(file_log, "RETRY_S", 1_000)  # else a slow machine makes more calls
        disk = FaultyDisk(folder, patched, at=at, fault=fault, number=number)
        try:
            found = Run(folder, disk)
        except ProcessEnded:
            disk.restart()
            found = Run(folder, disk)
        found.go()
        assert found.log is not None
        found.check(found.log)
        with contextlib.suppress(ProcessEnded):
            found.log.close()
        found.check_power_cuts()
    with contextlib.closing(FileLog(folder, found.offset)) as log:
        found.check(log)
    return found


def test_without_a_fault_every_call_is_one_of_those_that_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plan has each kind of call; the tests below let each call of it fail."""
    found = run(tmp_path, monkeypatch, 0, Fault.ERROR, errno.EIO)
    assert found.acknowledged == list(range(10))
    assert set(found.disk.calls) == {
        "mkdir", "open", "close", "unlink", "replace", "ftruncate", "writev", "fsync", "fdatasync",
    }  # fmt: skip


@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.value)
def test_any_call_may_fail_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault
) -> None:
    """In turn: with EIO, then with ENOSPC."""
    at, refusals, has_failed = 0, 0, True
    while has_failed:
        at += 1
        found = run(tmp_path, monkeypatch, at, fault, (errno.EIO, errno.ENOSPC)[at % 2])
        refusals, has_failed = refusals + found.refusals, found.disk.has_failed
    assert at > 70
    assert fault in (Fault.END, Fault.LATE_END) or refusals > 40
