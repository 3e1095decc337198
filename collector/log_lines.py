"""Log lines: as JSON objects for machines, and fewer of those that strangers can cause."""

import asyncio
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

_log: Final = logging.getLogger(__name__)
_BY_STRANGERS: Final = (
    "asyncio", "uvicorn", "collector.api", "collector.items", "collector.judging.worker",
    "collector.receivers", "collector.web", "collector.worker",
)  # fmt: skip
"""First words of the names of loggers that say something for a connection, a request, a record or a
span."""


class JsonLines(logging.Formatter):
    """Writes `time` (RFC 3339, UTC), `level`, `logger`, `message`, and `exception` if there is one.

    Text in a message cannot break a line or begin another one: JSON escapes line ends.
    """

    def format(self, record: logging.LogRecord) -> str:
        """Write one line."""
        moment = datetime.fromtimestamp(record.created, UTC)
        fields = {
            "time": moment.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, ensure_ascii=False)


class FewerRepeats(logging.Filter):
    """Lets a line through once a minute that may come with everything that a stranger sends.

    Two lines are the same that have the same text, whatever stands in its gaps; those with a
    traceback, if the same fault was raised in the same place. A request that was cut off by the end
    of the collector says nothing: how many there were is a line of the server's.

    Args:
        every_s: Seconds from one to the next of the same line.
        clock: Monotonic seconds.
    """

    def __init__(self, every_s: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._every_s, self._clock = every_s, clock
        self._lock = threading.Lock()
        self._seen: dict[tuple[object, ...], _Seen] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Say whether a line is written; counts it if not."""
        if record.levelno < logging.WARNING or not record.name.startswith(_BY_STRANGERS):
            return True
        key: tuple[object, ...] = record.name, record.msg
        if record.exc_info and record.exc_info[0] is not None:
            fault, _, trace = record.exc_info
            if issubclass(fault, asyncio.CancelledError):
                return False
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            key = record.name, fault, trace and (trace.tb_frame.f_code, trace.tb_lineno)
        with self._lock:
            seen = self._seen.get(key)
            if seen is None:
                self._seen[key] = _Seen(self._clock())
                return True
            seen.count, seen.last = seen.count + 1, record
            return False

    def tell(self, *, is_end: bool = False) -> None:
        """Say how often lines came again whose minute is over; to be called now and then.

        Args:
            is_end: Nothing comes any more: of all lines.
        """
        with self._lock:
            now = self._clock()
            least_s = 0.0 if is_end else self._every_s
            over = {key for key, seen in self._seen.items() if now - seen.since >= least_s}
            due = [self._seen.pop(key) for key in over]
        for seen in due:
            if seen.last is not None:
                times = "time" if seen.count == 1 else "times"
                _log.warning(
                    "%d more %s within %.0f s: %s",
                    seen.count, times, now - seen.since, seen.last.getMessage(),
                )  # fmt: skip


@dataclass(slots=True)
class _Seen:
    """A line that was written."""

    since: float
    count: int = 0
    """Number of repetitions of the line."""
    last: logging.LogRecord | None = None
