"""The end of the process: everything that holds undelivered items delivers them, in bounded time.

All begin at once, so that one whose far side hangs takes no time from the others.
"""

import atexit
import sys
import time
import weakref
from typing import Any, Final, Protocol

EXIT_TIMEOUT_S: Final = 5.0
"""All together get this long at the end of the process."""
_LEAST_S: Final = 0.1
_AFTER_ALL_OTHERS: Final = -100


class Delivering(Protocol):
    """Something that holds items for a far side."""

    def hurry(self) -> None:
        """Begin to deliver what waits; returns at once."""
        ...

    def flush(self, timeout_s: float) -> bool:
        """Wait until what was put so far is delivered or dropped."""
        ...

    def close(self, timeout_s: float) -> bool:
        """Deliver what waits and end; what is left at the end of the time is given up."""
        ...


_DELIVERING: Final[weakref.WeakSet[Delivering]] = weakref.WeakSet()
_FINALIZERS: Final[list[Any]] = []
"""The registration with `multiprocessing`, and those of the processes that this one came from."""


def close_at_exit(item: Delivering) -> None:
    """Have something closed at the end of the process, if it lives until then."""
    _DELIVERING.add(item)


def arm_exit() -> None:
    """Have the exit hook run, before every hook that was registered so far."""
    atexit.unregister(_at_exit)
    atexit.register(_at_exit)
    # A child of `multiprocessing` ends by os._exit and runs that module's finalizers only.
    util = sys.modules.get("multiprocessing.util")
    if util is not None and not any(item.still_active() for item in _FINALIZERS):
        finalizer: Any = util.Finalize(None, _at_exit, exitpriority=_AFTER_ALL_OTHERS)
        _FINALIZERS[:] = [finalizer]


def flush_all(timeout_s: float = EXIT_TIMEOUT_S) -> bool:
    """Deliver what everything in this process holds; False if the time ran out."""
    end_s = time.monotonic() + timeout_s
    found = list(_DELIVERING)
    for each in found:
        each.hurry()
    done = [each.flush(max(0.0, end_s - time.monotonic())) for each in found]
    return all(done)


def _at_exit() -> None:
    end_s = time.monotonic() + EXIT_TIMEOUT_S
    found = list(_DELIVERING)
    for each in found:
        each.hurry()
    for each in found:
        each.close(max(_LEAST_S, end_s - time.monotonic()))
