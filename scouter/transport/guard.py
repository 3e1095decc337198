"""The line between Scouter and its host: what goes wrong inside never reaches the agent.

Two kinds of trouble arrive here. A *refusal* (the user's data has no JSON form, the far side is
away) is normal, is counted by who met it and logged once per place. An *internal error* is a bug
of ours: logged once with its traceback and swallowed, unless `strict` is set, as our tests do.
"""

import logging
import os
import sys
import threading
import warnings
from typing import Final

from scouter.transport.fork import watch

logger: Final = logging.getLogger("scouter")

_MAX_REMEMBERED: Final = 1000


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

    def __init__(self) -> None:
        self.strict = False
        """True: internal errors are raised again. Only for tests."""
        self._seen: set[tuple[str, str]] = set()
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

    def after_fork_in_child(self) -> None:
        """Make a new lock: another thread may have held the old one."""
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
