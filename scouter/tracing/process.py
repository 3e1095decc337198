"""One id per process, so that the collector can tell whose spans it has."""

import os
from typing import Final
from uuid import uuid4

_IDS: Final[dict[int, str]] = {}
"""By process id: a forked child finds its parent's entry, which is not its own."""


def process_id() -> str:
    """The id of this process: made at the first call, anew in a forked child."""
    pid = os.getpid()
    # `setdefault` is one step of the interpreter: threads that come at once get the same id,
    # without a lock that a fork could leave shut.
    return _IDS.get(pid) or _IDS.setdefault(pid, uuid4().hex)
