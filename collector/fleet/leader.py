"""One api of a fleet has the duties: detectors, alerts, retention. The others are ready for them.

The one that holds a lock of PostgreSQL is it. The lock goes with its connection: whoever loses that
ends, as another one may have taken over, and comes back to wait.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

import psycopg

from collector.fleet.database import Address

_log: Final = logging.getLogger(__name__)
_LEAD: Final = 0x53636F7574657232
"""Number of the lock: "Scouter2"."""
_EVERY_S: Final = 1.0
_PATIENCE: Final = (
    "SELECT set_config('tcp_keepalives_idle', '10', false),"
    " set_config('tcp_keepalives_interval', '5', false),"
    " set_config('tcp_keepalives_count', '3', false)"
)
"""The server lets go of the lock of a machine that vanished: by default after two hours."""


class Leader:
    """Tries to get the duties, and knows whether they were lost.

    Args:
        url: The database.
        begin: Called once, in a thread, when this process has the duties.
    """

    def __init__(self, url: str, begin: Callable[[], None]) -> None:
        self._address, self._begin = Address(url), begin
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scouter-leader", daemon=True)
        self.has_duties = False
        self.has_lost = False
        """True once the duties were lost: this process is to end."""

    def start(self) -> None:
        """Begin to try."""
        self._thread.start()

    def stop(self) -> None:
        """Let others have the duties."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        if self._connection is not None:
            self._connection.close()

    def _run(self) -> None:
        is_told = False
        while not self._stopping.is_set() and not self.has_lost:
            try:
                if not self.has_duties and self._lock():
                    self.has_duties = True
                    self._begin()
                    _log.info("this api has the duties: detectors, alerts, retention")
                elif self.has_duties and self._connection is not None:
                    self._connection.execute("SELECT 1")
                elif not is_told:
                    is_told = True
                    _log.info("another api has the duties; this one is ready to take them over")
            except psycopg.Error as error:
                self.has_lost = self.has_duties
                self._connection = None
                _log.warning("the lock of the duties: %s", self._address.text(error))
            except Exception:  # noqa: BLE001 whatever it is, another api may do better
                _log.exception("the duties cannot be begun")
                self.has_lost = True
            self._stopping.wait(_EVERY_S)

    def _lock(self) -> bool:
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._address.url, autocommit=True, cursor_factory=psycopg.RawCursor
            )
            self._connection.execute(_PATIENCE)
        row = self._connection.execute("SELECT pg_try_advisory_lock($1)", [_LEAD]).fetchone()
        return bool(row and row[0])
