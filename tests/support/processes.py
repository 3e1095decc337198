"""Real programs in a test: started in a group of their own, ended with it."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Final, Protocol, TypeVar

T = TypeVar("T")
PATIENCE_S: Final = 240.0
"""Seconds until an event counts as missing: it ends the wait, so that a long one costs nothing."""


def wait_until(
    check: Callable[[], T | None],
    *,
    what: str,
    timeout_s: float = PATIENCE_S,
    every_s: float = 0.02,
) -> T:
    """Ask again and again until the answer is truthy.

    Args:
        check: The question; may raise OSError while the far side is not there yet.
        what: Name of the awaited thing, for the error message.
        timeout_s: Seconds until the test fails.
        every_s: Seconds between two questions; they grow with time, as the awaited thing needs the
            processor, too.

    Returns:
        The first truthy answer.

    Raises:
        AssertionError: Time is up; shows the last answer or error.
    """
    began = time.monotonic()
    deadline = began + timeout_s
    pause = threading.Event()
    last: object = None
    while True:
        try:
            answer = check()
        except OSError as error:
            last = error
        else:
            if answer:
                return answer
            last = answer
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {timeout_s:g} s: {what}; last answer: {last!r}")
        pause.wait(max(every_s, (time.monotonic() - began) / 20))


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listened on a moment ago, all different.

    They lie below those that the system gives to clients: a server that is started again may find
    such a one taken.
    """
    dice = random.Random()  # not the common one, which every worker seeds alike
    found: list[int] = []
    with contextlib.ExitStack() as stack:
        while len(found) < count:
            port, tried = dice.randrange(10_000, 32_000), stack.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                tried.bind(("127.0.0.1", port))
                found.append(port)
    return found


class Process(Protocol):
    """The part of `subprocess.Popen` that a managed process needs."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...


class ManagedProcess:
    """A program in its own process group, with its output in a file.

    Args:
        args: The command line.
        log: File that standard output and error go to; appended to.
        env: The whole environment; inherited if not given.
        cwd: Working folder.
    """

    def __init__(
        self,
        args: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
    ) -> None:
        self.args = [str(arg) for arg in args]
        self.log = log
        with log.open("ab") as output:
            self._process: Process = self._spawn(output, env, cwd)

    def _spawn(
        self, output: IO[bytes], env: Mapping[str, str] | None, cwd: Path | None
    ) -> "Process":
        return subprocess.Popen(
            self.args,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=None if env is None else dict(env),
            cwd=cwd,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        """The program's process id, also the id of its group."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """True until the program has ended."""
        return self._process.poll() is None

    @property
    def exit_code(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._process.poll()

    def tail(self, lines: int = 40) -> str:
        """The last lines of the output."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def wait_ready(self, check: Callable[[], T | None], *, timeout_s: float = PATIENCE_S) -> T:
        """Wait until `check` answers truthy; fail at once if the program ends.

        Raises:
            AssertionError: It ended or was not ready in time; shows its last output.
        """

        def ready() -> T | None:
            if not self.is_running:
                raise AssertionError(f"{self.args[0]} ended with {self.exit_code}:\n{self.tail()}")
            return check()

        try:
            return wait_until(ready, what=f"{self.args[0]} is ready", timeout_s=timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.tail()}") from None

    def stop(self, *, grace_s: float = PATIENCE_S) -> int:
        """End the program politely, then not.

        Returns:
            The exit code; -9 if it had to be killed.
        """
        self._signal_group(signal.SIGTERM)
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self._signal_group(signal.SIGKILL)
        return self._finish()

    def kill(self) -> int:
        """End the program and all its children at once, as a crash would."""
        self._signal_group(signal.SIGKILL)
        return self._finish()

    def _finish(self) -> int:
        code = self._process.wait(120)
        self._signal_group(signal.SIGKILL)  # children that outlived their parent
        return code

    def _signal_group(self, number: signal.Signals) -> None:
        # Thousands of processes use up the numbers: a stranger may have that of one that has ended,
        # and then nothing of its group is left.
        if self._process.poll() is not None and Path(f"/proc/{self.pid}").exists():
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)
