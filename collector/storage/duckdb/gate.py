"""Many at a time, or one alone."""

import threading
from collections.abc import Generator
from contextlib import contextmanager


class Gate:
    """Lets users in together, and now and then one of them alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._is_closed = False

    @contextmanager
    def together(self) -> Generator[None]:
        """Be inside with others; waits while somebody is alone, or about to be."""
        with self._changed:
            self._changed.wait_for(lambda: not self._is_closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self, timeout_s: float) -> Generator[bool]:
        """Be inside alone. One thread at a time asks for it.

        Args:
            timeout_s: Most seconds to wait for the threads inside; no other one gets in meanwhile.
                The wait is bounded, so that a thread that comes in twice only delays.

        Yields:
            False if they did not leave in time: others are inside.
        """
        with self._changed:
            self._is_closed = True
        try:
            with self._changed:
                is_alone = self._changed.wait_for(lambda: not self._inside, timeout_s)
                self._is_closed = is_alone
                self._changed.notify_all()
            yield is_alone
        finally:
            with self._changed:
                self._is_closed = False
                self._changed.notify_all()
