"""One id per process, so that the collector can tell whose spans it has."""

import os
import threading
from uuid import uuid4

_lock = threading.Lock()
_current: tuple[int, str] = (0, "")


def process_id() -> str:
    """The id of this process: made at the first call, anew in a forked child."""
    global _current
    pid = os.getpid()
    made_for, text = _current
    if made_for == pid:
        return text
    with _lock:
        if _current[0] != pid:
            _current = (pid, uuid4().hex)
        return _current[1]
