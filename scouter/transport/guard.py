"""The line between Scouter and its host: what goes wrong inside never reaches the agent.

Two kinds of trouble arrive here. A *refusal* (the user's data has no JSON form, the far side is
away) is normal, is counted by who met it and logged once per place. An *internal error* is a bug
of ours: logged once with its traceback and swallowed, unless `strict` is set, as our tests do.
"""

import logging
import math
import os
import sys
import threading
import time
import warnings
from collections.abc import Callable
from typing import Final

from scouter.model.visible import one_line
from scouter.transport.process import watch

logger: Final = logging.getLogger("scouter")

_MAX_REMEMBERED: Final = 1000
_MINUTE_S: Final = 60.0
_MAX_REASON: Final = 500
"""Characters of a far side's words in the log."""


def text_of(error: object) -> str:
    """The text of an error, or its type's name where the error cannot even be shown."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - whatever the host's own `__str__` raises
        return f"<{type(error).__name__}>"


def is_test_run() -> bool:
    """Tell whether this process runs a test: pytest is inside one, or it is `python -m unittest`.

    A program that a test of pytest's starts inherits the variable but not the module.
    """
    in_pytest = "pytest" in sys.modules and "PYTEST_CURRENT_TEST" in os.environ
    return in_pytest or getattr(sys.modules.get("__main__"), "__package__", None) == "unittest"


class Guard:
    """Decides what becomes of an error at a public entry of the SDK."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.strict = False
        """True: internal errors are raised again. Only for tests."""
        self._clock = clock
        self._seen: set[tuple[str, str]] = set()
        self._rejected: dict[str, tuple[float, int]] = {}
        """By what was rejected: the time of the last line, and how many it has not counted."""
        self._lock = threading.RLock()

    def refuse(self, place: str, reason: str, error: object) -> None:
        """Log an expected refusal, once per place and reason.

        Args:
            place: Place of the refusal, such as `queue 'retriever'`.
            reason: The counter's name, such as `invalid`.
            error: The error or the text to log.
        """
        if self._first(place, reason):
            text = text_of(error) or type(error).__name__
            logger.warning("%s: %s (%s); further ones are only counted", place, text, reason)

    def rejected(self, what: str, count: int, reason: str) -> int:
        """Log items that the far side refused for good: once a minute, with their number.

        Args:
            what: `records` or `spans`.
            count: Their number; nothing is logged for none.
            reason: Reason of the first of them, in the far side's words, which name the field.

        Returns:
            The number.
        """
        if count <= 0:
            return 0
        watch(self)
        with self._lock:
            now_s = self._clock()
            said_s, earlier = self._rejected.get(what, (-math.inf, 0))
            is_due = now_s - said_s >= _MINUTE_S
            total = earlier + count
            self._rejected[what] = (now_s, 0) if is_due else (said_s, total)
        if is_due:
            logger.warning(
                "%s: the far side refused %d for good and says of the first of them: %s (rejected)",
                what, total, one_line(reason)[:_MAX_REASON] or "nothing",
            )  # fmt: skip
        return count

    def warn(self, place: str, reason: str, text: str) -> None:
        """Warn the nearest caller outside of this package, once per place and reason.

        Args:
            place: Place of the cause, such as `HttpConfig`.
            reason: Name of the cause, such as an argument that does nothing.
            text: Text of the warning.
        """
        if not self._first(place, reason):
            return
        import inspect  # few processes warn

        depth, frame = 1, inspect.currentframe()
        while frame is not None and str(frame.f_globals.get("__name__")).startswith("scouter."):
            depth, frame = depth + 1, frame.f_back
        warnings.warn(text, stacklevel=depth)

    def internal(self, place: str, error: BaseException) -> None:
        """Log a bug once per place and type; raise it again when `strict`."""
        if self._first(place, type(error).__name__):
            logger.error("%s: internal error, the call had no effect", place, exc_info=error)
        if self.strict:
            raise error

    def forget(self) -> None:
        """Log everything anew, as in a fresh process."""
        with self._lock:
            self._seen.clear()
            self._rejected.clear()

    def after_fork_in_child(self) -> None:
        """Make a new lock: another thread may have had the old one."""
        self._lock = threading.RLock()

    def _first(self, place: str, reason: str) -> bool:
        watch(self)
        with self._lock:
            if (place, reason) in self._seen:
                return False
            if len(self._seen) >= _MAX_REMEMBERED:
                self._seen.clear()
            self._seen.add((place, reason))
            return True


GUARD: Final = Guard()
"""The process' guard."""
