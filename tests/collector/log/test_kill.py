"""A process with a log that is killed at any moment."""

import os
import random
import sys
import threading
from pathlib import Path

import pytest

from collector.log.file_log import FileLog
from tests.contracts.log import numbers
from tests.support.log_process import THREADS, acknowledged, stored
from tests.support.processes import ManagedProcess

LIFE_S = 0.1
"""A process is killed at a random moment up to so long after its first answer."""
APART = 1_000_000
"""Between the numbers of two processes."""


@pytest.mark.parametrize("kills", [20, pytest.param(300, marks=pytest.mark.long)])
def test_what_was_acknowledged_outlives_any_kill(tmp_path: Path, kills: int) -> None:
    """All of it, once, in the order of the offsets; and each thread's items in its order.

    A store takes items and trims meanwhile. A kill may leave a part of its last line.
    """
    moments, pause = random.Random(7), threading.Event()
    answers = tmp_path / "acknowledged"
    for kill in range(kills):
        for file in (answers, tmp_path / "stored"):
            cut_last_line(file)
        size = answers.stat().st_size if kill else 0
        process = ManagedProcess(
            [sys.executable, "-m", "tests.support.log_process", tmp_path, str(kill * APART)],
            log=tmp_path / "output",
            cwd=Path(__file__).parents[3],
        )
        try:
            process.wait_ready(lambda size=size: answers.exists() and answers.stat().st_size > size)
            pause.wait(moments.random() * LIFE_S)
        finally:
            process.kill()
    output = (tmp_path / "output").read_text().splitlines()
    assert [line for line in output if "torn bytes are cut off" not in line] == []
    for file in (answers, tmp_path / "stored"):
        cut_last_line(file)
    offset, found = stored(tmp_path)
    log = FileLog(tmp_path / "log", offset)
    found += numbers(log, offset)
    log.close()
    answered = acknowledged(tmp_path)
    assert len(answered) >= kills
    in_order = sorted(answered, key=lambda number: answered[number])
    assert [number for number in found if number in answered] == in_order
    assert len(set(found)) == len(found)
    assert len(found) - len(answered) <= kills * THREADS
    for first in range(THREADS):
        mine = [number for number in found if number % THREADS == first]
        assert mine == sorted(mine)


def cut_last_line(file: Path) -> None:
    """Remove what a kill has left of a line."""
    if file.exists():
        text = file.read_bytes()
        os.truncate(file, text.rfind(b"\n") + 1)
