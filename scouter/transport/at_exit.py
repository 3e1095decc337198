"""The end of the process: everything that holds undelivered items delivers them, in bounded time.

All begin at once, so that one whose far side hangs takes no time from the others.

`os._exit` runs no exit hook, and most workers that a framework recycles end by it: those of
`multiprocessing` pools, Celery and RQ, and whatever calls `os.fork`. So it delivers first, too.
"""

import atexit
import functools
import os
import sys
import time
import weakref
from typing import Any, Final, NoReturn, Protocol

EXIT_TIMEOUT_S: Final = 5.0
"""All together get this long at the end of the process."""
_LEAST_S: Final = 0.1


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
_delivering_exit: object = None
"""What stands for `os._exit`."""


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
        each.hurry()
    done = [each.flush(max(0.0, end_s - time.monotonic())) for each in found]
    return all(done)


def _at_exit(**_: object) -> None:
    end_s = time.monotonic() + EXIT_TIMEOUT_S
    found = list(_DELIVERING)
    for each in found:
        each.hurry()
    for each in found:
        each.close(max(_LEAST_S, end_s - time.monotonic()))
    _DELIVERING.clear()  # whatever runs this again waits for nothing twice
