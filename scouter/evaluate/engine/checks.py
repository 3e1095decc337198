"""Checks that people write in Python: their names, and the process in which they run.

The functions are never loaded here: what they import, and how they end, stays in a process of their
own. It is started by the first check and used for all, and again after it had to be killed.
"""

import atexit
import json
import os
import pickle
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from importlib.metadata import entry_points
from typing import IO, Final, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.model.span import Span

GROUP: Final = "scouter.checks"
"""Entry points of installed packages, each a name and a function."""
LOAD_S: Final = 60.0
"""Most seconds until the process has started and has loaded a check."""
MOST_BYTES: Final = 1_000_000
"""Most bytes of an answer."""
_PROGRAM: Final = "scouter.evaluate.engine.check_process"
_CHUNK: Final = 65_536


class CheckProcess:
    """A process that runs one check after the other.

    Args:
        module: A module with checks, beside those of installed packages; empty for none.
    """

    def __init__(self, module: str = "") -> None:
        self._module = module
        self._lock = threading.Lock()
        self._child: subprocess.Popen[bytes] | None = None
        self._owner = 0
        self._unread = b""

    def names(self) -> Sequence[str]:
        """List the checks of the module.

        Raises:
            TaskFault: It cannot be imported.
        """
        with self._lock:
            child = self._send(("names", LOAD_S), LOAD_S)
            return cast("list[str]", self._answer(child, LOAD_S)["names"])

    def run(
        self, name: str, context: JsonValue, spans: Sequence[Span], limit_s: float
    ) -> tuple[bool | float, str]:
        """Run a check.

        Args:
            name: One of `check_names`.
            context: What it reads of the record.
            spans: What it reads of the record's traces.
            limit_s: Seconds after which it is killed, with its process.

        Returns:
            The outcome or score, and a message that may be empty.

        Raises:
            TaskFault: It raised, took too long, ended its process or returned something else.
        """
        with self._lock:
            child = self._send(("run", limit_s, name, context, tuple(spans)), LOAD_S)
            self._answer(child, LOAD_S)  # it is loaded
            answer = self._answer(child, limit_s)
        return cast("bool | float", answer["value"]), str(answer["message"])

    def close(self) -> None:
        """End the process, if there is one."""
        with self._lock:
            self._end()

    def _started(self) -> subprocess.Popen[bytes]:
        child = self._child
        if child is not None and self._owner == os.getpid() and child.poll() is None:
            return child
        if child is not None and self._owner == os.getpid():
            self._end()  # it ended between two checks
        # A fork has the pipes of its parent, whose process this is not.
        self._owner, self._unread = os.getpid(), b""
        self._child = subprocess.Popen(  # noqa: S603 — our own program
            [sys.executable, "-m", _PROGRAM, self._module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        for pipe in _pipes(self._child):
            os.set_blocking(pipe.fileno(), False)
        return self._child

    def _send(self, message: object, limit_s: float) -> "subprocess.Popen[bytes]":
        data = pickle.dumps(message)
        rest = memoryview(len(data).to_bytes(8, "big") + data)
        deadline = time.monotonic() + limit_s
        child = self._started()
        asks = _pipes(child)[0].fileno()
        while rest:
            self._await(asks, selectors.EVENT_WRITE, deadline, limit_s)
            try:
                rest = rest[os.write(asks, rest[:_CHUNK]) :]
            except BrokenPipeError:
                raise self._ended(child) from None
        return child

    def _answer(self, child: "subprocess.Popen[bytes]", limit_s: float) -> dict[str, JsonValue]:
        deadline = time.monotonic() + limit_s
        answers = _pipes(child)[1].fileno()
        while b"\n" not in self._unread:
            self._await(answers, selectors.EVENT_READ, deadline, limit_s)
            got = os.read(answers, _CHUNK)
            if not got:
                raise self._ended(child)
            self._unread += got
            if len(self._unread) > 2 * MOST_BYTES:
                self._end()
                raise TaskFault(Reason.CHECK, f"it answered more than {MOST_BYTES:,} bytes")
        line, _, self._unread = self._unread.partition(b"\n")
        answer: dict[str, JsonValue] = json.loads(line)
        if "error" in answer:
            raise TaskFault(Reason.CHECK, str(answer["error"]))
        return answer

    def _await(self, pipe: int, event: int, deadline: float, limit_s: float) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(pipe, event)
            if selector.select(max(0.0, deadline - time.monotonic())):
                return
        self._end()
        raise TaskFault(Reason.CHECK, f"it took longer than {limit_s:g} s and was killed")

    def _ended(self, child: "subprocess.Popen[bytes]") -> TaskFault:
        code = child.wait()
        self._end()
        return TaskFault(Reason.CHECK, f"its process ended with the code {code}")

    def _end(self) -> None:
        child, self._child = self._child, None
        if child is None or self._owner != os.getpid():
            return
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)  # with whatever the check started
        child.wait()
        for pipe in _pipes(child):
            pipe.close()


def _pipes(child: "subprocess.Popen[bytes]") -> "tuple[IO[bytes], IO[bytes]]":
    """The pipe to a process, and the one from it."""
    return cast("IO[bytes]", child.stdin), cast("IO[bytes]", child.stdout)


class _Checks:
    """The checks that this process may run."""

    def __init__(self) -> None:
        self.process = CheckProcess()
        self.of_module: Sequence[str] = ()


_checks: Final = _Checks()
atexit.register(lambda: _checks.process.close())


def use_checks(module: str) -> None:
    """Let the tasks of this process run the functions of a module; an earlier one is forgotten.

    Args:
        module: Its dotted name; empty for none.

    Raises:
        ConfigError: It cannot be imported, or has no public function.
    """
    process = CheckProcess(module)
    names: Sequence[str] = ()
    if module:
        try:
            names = process.names()
        except TaskFault as fault:
            process.close()
            raise ConfigError(f"--checks {module}: {fault}") from fault
        if not names:
            process.close()
            raise ConfigError(f"--checks {module}: it has no public function of its own")
    _checks.process.close()
    _checks.process, _checks.of_module = process, names


def check_names() -> Sequence[str]:
    """Name the checks of installed packages, and those of the module in use."""
    return sorted({*entry_points(group=GROUP).names, *_checks.of_module})


def run_check(
    name: str, context: JsonValue, spans: Sequence[Span], limit_s: float
) -> tuple[bool | float, str]:
    """Run a check, as `CheckProcess.run` says."""
    return _checks.process.run(name, context, spans, limit_s)
