"""The name under which a collector reads from a broker: after a restart the same, and its own."""

import re
import socket
import threading
import uuid
from pathlib import Path
from typing import Final

from collector.settings.model import CollectorSettings

FILE_NAME: Final = "consumer"
"""Name of the file in the data folder that distinguishes this collector's consumer from others.

No backup copies it, since a collector that runs on a copy is another consumer.
"""
_making: Final = threading.Lock()


def consumer_name(data: Path) -> str:
    """The machine's name and the store's number, `HOST-0123456789ab`.

    By it a broker knows who comes back after a crash, and two collectors on one machine have
    two. The number is made at the first call.

    Args:
        data: The data folder, which no other process has open.

    Raises:
        OSError: The number cannot be stored.
    """
    with _making:  # the receivers of all brokers ask at once
        return f"{_host()}-{_number(data / FILE_NAME)}"


def member_name(settings: CollectorSettings) -> str:
    """The name of a process of a fleet, which has no folder; else `consumer_name`.

    Raises:
        OSError: The number of the folder cannot be stored.
    """
    if settings.role == "all":
        return consumer_name(settings.data)
    return settings.fleet_name or _host()


def _host() -> str:
    # Kafka takes letters, digits, dots, dashes and underscores, and at most 249 of them.
    return re.sub(r"[^A-Za-z0-9._-]", "-", socket.gethostname())[:200]


def _number(file: Path) -> str:
    try:
        if found := file.read_text(encoding="ascii").strip():
            return found
    except FileNotFoundError:  # the first start
        pass
    number = uuid.uuid4().hex[:12]
    partial = file.with_name(f"{file.name}.partial")
    partial.write_text(f"{number}\n", encoding="ascii")
    partial.replace(file)
    return number
