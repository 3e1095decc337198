"""One api of a fleet has the duties: detectors, alerts, retention. The others are ready for them.

The one that holds a lock of PostgreSQL is it. The lock goes with its connection: whoever loses that
ends, as another one may have taken over, and comes back to wait. PostgreSQL ends the connection of
a process that is frozen. The next one raises an epoch, which is looked at in each transaction of
who has the duties: so one that wakes up writes nothing any more.
"""

import logging
import threading
from collections.abc import Callable
from typing import Any, Final

import psycopg

from collector.fleet.database import Address
from collector.fleet.schema import DUTIES

_log: Final = logging.getLogger(__name__)
_LEAD: Final = 0x53636F7574657232
"""Number of the lock: "Scouter2"."""
_EVERY_S: Final = 1.0
FROZEN_S: Final = 60.0
"""The server lets go of the lock of a process that has not said anything for so long."""
_PATIENCE: Final = (
    "SELECT set_config('tcp_keepalives_idle', '10', false),"
    " set_config('tcp_keepalives_interval', '5', false),"
    " set_config('tcp_keepalives_count', '3', false),"
    " set_config('idle_session_timeout', $1, false)"
)
"""The server lets go of the lock of a machine that vanished, too: by default after two hours."""
_RAISE: Final = """
    INSERT INTO public.meta VALUES ($1, '1') ON CONFLICT (key)
    DO UPDATE SET value = (meta.value::BIGINT + 1)::TEXT RETURNING value
"""
"""It waits for a transaction of who had the duties."""


class Leader:
    """Tries to get the duties, and knows whether they were lost.

    Args:
        url: The database of a fleet.
        begin: Called once, in a thread, when this process has the duties, with their epoch.
        frozen_s: See `FROZEN_S`.
    """

    def __init__(
        self, url: str, begin: Callable[[str], None], *, frozen_s: float = FROZEN_S
    ) -> None:
        self._address, self._begin, self._frozen_s = Address(url), begin, frozen_s
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
        """Begin with nothing any more; the duties stay here until `close`."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def close(self) -> None:
        """Let others have the duties."""
        self.stop()
        if self._connection is not None:
            self._connection.close()

    def _run(self) -> None:
        is_reported = False
        while not self._stopping.is_set() and not self.has_lost:
            try:
                if not self.has_duties and (epoch := self._lock()):
                    self.has_duties = True
                    self._begin(epoch)
                    _log.info("this api has the duties: detectors, alerts, retention")
                elif self.has_duties and self._connection is not None:
                    self._connection.execute("SELECT 1")
                elif not is_reported:
                    is_reported = True
                    _log.info("another api has the duties; this one is ready to take them over")
            except psycopg.Error as error:
                self.has_lost = self.has_duties
                if self._connection is not None:  # it may have the lock
                    self._connection.close()
                self._connection = None
                _log.warning("the lock of the duties: %s", self._address.text(error))
            except Exception:  # noqa: BLE001 whatever it is, another api may do better
                _log.exception("the duties cannot be started")
                self.has_lost = True
            self._stopping.wait(_EVERY_S)

    def _lock(self) -> str:
        """Try to get the lock; the epoch of the duties, empty while another one has them."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self._address.url, autocommit=True, cursor_factory=psycopg.RawCursor
            )
            self._connection.execute(_PATIENCE, [f"{self._frozen_s * 1000:.0f}"])
        run = self._connection.execute
        if run("SELECT pg_try_advisory_lock($1)", [_LEAD]).fetchone() != (True,):
            return ""
        raised = run(_RAISE, [DUTIES]).fetchone()
        return str(raised[0]) if raised else ""
