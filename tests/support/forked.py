"""Collectors as processes that are forked from one that has imported everything.

The import of a collector takes a second of processor time, a fork some milliseconds. Hundreds of
tests start one; a few start `python -m scouter.cli.app`, as a user does.
"""

import atexit
import gc
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Final

from tests.support.jumping_clock import VARIABLE, JumpingClock
from tests.support.processes import ManagedProcess, Process

_IMPORTED: Final = (
    "collector.commands",
    "collector.fleet.api",
    "collector.fleet.gateway",
    "collector.fleet.roles",
    "collector.fleet.worker",
    "collector.service",
    "scouter.cli.app",
    "uvicorn",
    "uvicorn.lifespan.off",
    "uvicorn.loops.auto",
)
_LONGEST: Final = 1 << 17
"""Bytes of a request, at most."""
_ROOT: Final = Path(__file__).parents[2]
_lock: Final = threading.Lock()
_servers: Final[dict[int, socket.socket]] = {}
"""The way to the fork server of each process; a fork of a test starts its own."""


class ManagedFork(ManagedProcess):
    """A module of Python that runs as a managed program in a fork; its first argument names it."""

    def _spawn(self, output: IO[bytes], env: Mapping[str, str] | None, cwd: Path | None) -> Process:
        request = {
            "args": self.args,
            "env": dict(os.environ if env is None else env),
            "cwd": str(cwd or Path.cwd()),
        }
        return _Fork(request, output.fileno())


class _Fork:
    """A module that runs as a program in a fork.

    Args:
        request: Its arguments (`MODULE ARGUMENT…`), environment and folder.
        output: File descriptor of its standard output and error.
    """

    def __init__(self, request: dict[str, Any], output: int) -> None:
        reader, writer = os.pipe()
        with _lock:
            socket.send_fds(_server(), [json.dumps(request).encode()], [output, writer])
        os.close(writer)
        self._told = os.fdopen(reader, "rb", buffering=0)
        told = self._told.read(8)
        assert told, "the fork server has died"
        self.pid = int.from_bytes(told)
        """The process id, also the id of its group."""
        self._code: int | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._await_end, daemon=True).start()

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it is there.

        Raises:
            subprocess.TimeoutExpired: It is not there after so many seconds.
        """
        if not self._ended.wait(timeout):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        assert self._code is not None, "the fork server has died"
        return self._code

    def _await_end(self) -> None:
        with self._told:
            if status := self._told.read(8):
                self._code = os.waitstatus_to_exitcode(int.from_bytes(status))
        self._ended.set()


def _server() -> socket.socket:
    """Connection to this process's fork server, which is started if there is none."""
    if os.getpid() not in _servers:
        ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with its:
            process = subprocess.Popen(
                [sys.executable, "-m", __name__, str(its.fileno())],
                cwd=_ROOT,
                stdin=subprocess.DEVNULL,
                pass_fds=[its.fileno()],
                start_new_session=True,
            )

        def end() -> None:
            ours.close()
            process.wait(120)

        atexit.register(end)
        _servers[os.getpid()] = ours
    return _servers[os.getpid()]


def _fork_for_each(requests: socket.socket) -> dict[str, Any]:
    """Fork for each request, until the tests have ended.

    Returns:
        The request, in a fork that is to become the program.
    """
    for module in _IMPORTED:
        __import__(module)
    __import__("collector.api.routes")  # loads all of a collector: in the fork server alone
    assert threading.active_count() == 1, "only a process of one thread can be forked"
    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the system reaps
    while True:
        request, descriptors, _, _ = socket.recv_fds(requests, _LONGEST, 2)
        if not request:
            sys.exit()
        if not os.fork():
            requests.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _start(*descriptors)
            return json.loads(request)
        for each in descriptors:
            os.close(each)


def _start(output: int, told: int) -> None:
    """Fork the program, where this returns; tell its process id, then its wait status."""
    if program := os.fork():
        os.close(output)
        os.write(told, program.to_bytes(8))
        os.write(told, os.waitpid(program, 0)[1].to_bytes(8))
        os._exit(0)
    os.close(told)
    os.setsid()
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)


def _main() -> None:
    clock = JumpingClock()
    clock.install()
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        request = _fork_for_each(requests)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    if ahead := os.environ.get(VARIABLE):
        clock.file = Path(ahead)
    sys.argv = request["args"]
    sys.modules.pop(sys.argv[0], None)  # it runs as `__main__`
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _main()
