"""Forks at a bad moment, each in a program of its own."""

import subprocess
import sys

import pytest

CODE = """
import os, sys, threading, time
from scouter.transport.worker import BatchWorker

seconds, opening, is_open = float(sys.argv[1]), threading.Event(), []

def open_send():
    opening.set()
    time.sleep(seconds)
    is_open.append(True)
    return (lambda items, dropped: 0), (lambda: None)

worker = BatchWorker("t", open_send)
worker.put(1, 1)
opening.wait(10)
began = time.monotonic()
child = os.fork()
if child == 0:
    os._exit(len(is_open))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), time.monotonic() - began)
child = os.fork()
if child == 0:
    worker.put(1, 1)
    os._exit(not worker.flush(20))
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
worker.close()
"""


@pytest.mark.parametrize(("seconds", "opened"), [(0.2, 1), (1.5, 0)])
def test_a_fork_waits_for_a_transport_that_is_being_made_but_not_for_long(
    seconds: float, opened: int
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(seconds)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    first, took_s, second = done.stdout.split()
    assert (int(first), int(second)) == (opened, 0)
    assert float(took_s) >= min(seconds, 0.5) * 0.5
