"""The process: its id, its forks and its end.

Forks: every object that owns a lock or a thread starts anew in a child. Another thread may hold a
lock at the moment of the fork; in the child nobody would ever release it. Nothing is registered
before the first object needs it. Locks inside of C libraries cannot be renewed: a fork waits a
moment for what takes them long.

The end: everything that holds undelivered items delivers them, in bounded time. All begin at once,
so that one whose far side hangs takes no time from the others. `os._exit` runs no exit hook, and
most workers that a framework recycles end by it: those of `multiprocessing` pools, Celery and RQ,
and whatever calls `os.fork`. So it delivers first, too.

Signals: the host alone gets them. One that is sent to the process goes to any thread that does not
block it, and ends all threads at once where nobody handles it. So a thread of ours would undo what
the main thread blocks for a moment: Celery's workers do as they report their end, and one that was
ended there left a lock behind for which its parent waited for ever.
"""

import atexit
import functools
import os
import signal
import sys
import threading
import time
import weakref
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, NoReturn, Protocol, runtime_checkable
from uuid import uuid4


class ForkAware(Protocol):
    """Something that has to be renewed in a child process."""

    def after_fork_in_child(self) -> None:
        """Make new locks, forget threads; runs in the child before anything else."""
        ...


@runtime_checkable
class Resting(ForkAware, Protocol):
    """Something that has to be at rest while the process forks, too."""

    def before_fork(self) -> None:
        """Come to rest, in bounded time."""
        ...

    def after_fork_in_parent(self) -> None:
        """Go on."""
        ...


_WATCHED: Final[weakref.WeakSet[ForkAware]] = weakref.WeakSet()
_at_rest: list[Resting] = []
_lock = threading.RLock()  # a signal handler may come in between
_armed = False
_WAIT_S: Final = 0.5
_idle = threading.Condition(threading.RLock())
_making = 0


def watch(item: ForkAware) -> None:
    """Have an object renewed in forked children for as long as it lives; again is harmless."""
    global _armed
    with _lock:
        _WATCHED.add(item)
        if not _armed and hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=_before, after_in_parent=_in_parent, after_in_child=_in_child
            )
            _armed = True


@contextmanager
def forks_wait() -> Generator[None]:
    """Let forks by other threads wait meanwhile, for half a second at most.

    For what makes TLS contexts: OpenSSL holds a lock then, for tens of milliseconds, which in a
    child nobody would ever release.
    """
    global _making
    with _idle:
        _making += 1
    try:
        yield
    finally:
        with _idle:
            _making -= 1
            _idle.notify_all()


def _before() -> None:
    _idle.acquire()
    _idle.wait_for(lambda: not _making, _WAIT_S)
    with _lock:
        _at_rest[:] = [item for item in _WATCHED if isinstance(item, Resting)]
    for item in _at_rest:
        item.before_fork()


def _in_parent() -> None:
    while _at_rest:
        _at_rest.pop().after_fork_in_parent()
    _idle.release()


def _in_child() -> None:
    global _lock, _idle, _making
    _lock = threading.RLock()
    _idle, _making = threading.Condition(threading.RLock()), 0
    _at_rest.clear()
    for item in list(_WATCHED):
        item.after_fork_in_child()


EXIT_TIMEOUT_S: Final = 5.0
"""All together get this long at the end of the process."""
_LEAST_S: Final = 0.1


class Delivering(Protocol):
    """Something that holds items for a far side."""

    def flush(self, timeout_s: float) -> bool:
        """Begin to deliver what was put so far, and wait until it is delivered or dropped."""
        ...

    def close(self, timeout_s: float) -> bool:
        """Deliver what waits and end; what is left at the end of the time is given up."""
        ...


_OF_A_THREAD: Final = frozenset(
    getattr(signal, name, None)
    for name in ("SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGSEGV", "SIGTRAP")
)
"""Signals about what a thread itself did."""


def own_thread(run: Callable[[], object], name: str) -> threading.Thread:
    """Make a daemon thread that leaves signals to the host; it is not started yet."""

    def without_signals() -> None:
        if hasattr(signal, "pthread_sigmask"):
            signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals() - _OF_A_THREAD)
        run()

    return threading.Thread(target=without_signals, name=name, daemon=True)


_DELIVERING: Final[weakref.WeakSet[Delivering]] = weakref.WeakSet()
_delivering_exit: object = None
"""Stand-in for `os._exit`."""


def close_at_exit(item: Delivering) -> None:
    """Have something closed at the end of the process, if it lives until then."""
    _DELIVERING.add(item)


def arm_exit() -> None:
    """Have the exit hook run, before every hook that was registered so far, and by `os._exit`."""
    global _delivering_exit
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)
    # Celery's workers tell their parent that they end, which kills them, and come to os._exit then.
    celery: Any = sys.modules.get("celery.signals")
    if celery is not None:
        celery.worker_process_shutdown.connect(_at_exit, weak=False)
    exit_now = os._exit
    if exit_now is _delivering_exit:
        return

    def _exit(status: int) -> NoReturn:
        try:
            _at_exit()
        finally:
            exit_now(status)

    _delivering_exit = os._exit = functools.wraps(exit_now)(_exit)


def flush_all(timeout_s: float = EXIT_TIMEOUT_S) -> bool:
    """Deliver what everything in this process holds; False if the time ran out."""
    end_s = time.monotonic() + timeout_s
    found = list(_DELIVERING)
    for each in found:
        each.flush(0.0)
    done = [each.flush(max(0.0, end_s - time.monotonic())) for each in found]
    return all(done)


def _at_exit(**_: object) -> None:
    end_s = time.monotonic() + EXIT_TIMEOUT_S
    found = list(_DELIVERING)
    for each in found:
        each.flush(0.0)
    for each in found:
        each.close(max(_LEAST_S, end_s - time.monotonic()))
    _DELIVERING.clear()  # whatever runs this again waits for nothing twice


RECORD: Final = b"r"
SPAN: Final = b"s"


class ForkedWork:
    """Count of what children of this process made since `begin`, in a file that they share."""

    def __init__(self) -> None:
        self._pid = 0
        self._fd = -1
        self._made = b""

    def begin(self) -> None:
        """Count from now on, from 0; where processes cannot fork there is nothing to count."""
        if not hasattr(os, "fork"):
            return
        import tempfile  # few processes replay

        with tempfile.TemporaryFile() as file:
            self._fd = os.dup(file.fileno())
        self._pid, self._made = os.getpid(), b""

    def end(self) -> None:
        """Count no further."""
        if self._fd < 0:
            return
        self._made = self._read()
        self._pid = 0
        os.close(self._fd)
        self._fd = -1

    def takes(self, kind: bytes) -> bool:
        """Count something that is made here and now, if this process is a child.

        Args:
            kind: `RECORD` or `SPAN`.

        Returns:
            False in the process that began to count.
        """
        if not self._pid or os.getpid() == self._pid:
            return False
        os.write(self._fd, kind)
        return True

    def count(self, kind: bytes) -> int:
        """Give the number of records or spans that children made."""
        return self._read().count(kind)

    def _read(self) -> bytes:
        if self._fd < 0:
            return self._made
        return os.pread(self._fd, os.fstat(self._fd).st_size, 0)


FORKED: Final = ForkedWork()
"""The process' own, as span capture belongs to the process."""


_IDS: Final[dict[int, str]] = {}
"""By process id: a forked child finds its parent's entry, which is not its own."""


def process_id() -> str:
    """The id of this process: made at the first call, anew in a forked child."""
    pid = os.getpid()
    # `setdefault` is one step of the interpreter: threads that come at once get the same id,
    # without a lock that a fork could leave shut.
    return _IDS.get(pid) or _IDS.setdefault(pid, uuid4().hex)
