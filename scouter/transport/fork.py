"""Forked children: every object that owns a lock or a thread starts anew there.

Another thread may hold a lock at the moment of the fork; in the child nobody would ever release
it. Nothing is registered before the first object asks for it.

Locks inside of C libraries cannot be renewed: a fork waits a moment for what takes them long.
"""

import os
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, Protocol


class ForkAware(Protocol):
    """Something that has to be renewed in a child process."""

    def after_fork_in_child(self) -> None:
        """Make new locks, forget threads; runs in the child before anything else."""
        ...


class Resting(ForkAware, Protocol):
    """Something that has to be at rest while the process forks."""

    def before_fork(self) -> None:
        """Come to rest, in bounded time."""
        ...

    def after_fork_in_parent(self) -> None:
        """Go on."""
        ...


_WATCHED: Final[weakref.WeakSet[ForkAware]] = weakref.WeakSet()
_RESTING: Final[weakref.WeakSet[Resting]] = weakref.WeakSet()
_at_rest: list[Resting] = []
_lock = threading.RLock()  # a signal handler may come in between
_armed = False
_WAIT_S: Final = 0.5
_idle = threading.Condition(threading.RLock())
_making = 0


def watch(item: ForkAware) -> None:
    """Have an object renewed in forked children for as long as it lives; again is harmless."""
    global _armed, _lock
    with _lock:
        _WATCHED.add(item)
        if not _armed and hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=_before, after_in_parent=_in_parent, after_in_child=_in_child
            )
            _armed = True


def rest_at_forks(item: Resting) -> None:
    """Have an object at rest during forks, and renewed in forked children."""
    watch(item)
    with _lock:
        _RESTING.add(item)


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
    _at_rest[:] = _RESTING
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
