"""Forked children: every object that owns a lock or a thread starts anew there.

Another thread may hold a lock at the moment of the fork; in the child nobody would ever release
it. Nothing is registered before the first object asks for it.
"""

import os
import threading
import weakref
from typing import Final, Protocol


class ForkAware(Protocol):
    """Something that has to be renewed in a child process."""

    def after_fork_in_child(self) -> None:
        """Make new locks, forget threads; runs in the child before anything else."""
        ...


_WATCHED: Final[weakref.WeakSet[ForkAware]] = weakref.WeakSet()
_lock = threading.RLock()  # a signal handler may come in between
_armed = False


def watch(item: ForkAware) -> None:
    """Have an object renewed in forked children for as long as it lives; again is harmless."""
    global _armed, _lock
    with _lock:
        _WATCHED.add(item)
        if not _armed and hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_in_child)
            _armed = True


def _in_child() -> None:
    global _lock
    _lock = threading.RLock()
    for item in list(_WATCHED):
        item.after_fork_in_child()
