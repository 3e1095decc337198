"""Settings of the transport inside the process."""

from collections.abc import Callable
from typing import Any

from scouter.transport.config import RemoteConfig
from scouter.transport.port import RemoteTransport


class InProcessConfig(RemoteConfig):
    """Hands records and spans to a function of the same process, such as an embedded collector's.

    In `InProcessConfig(sink=take)`, `take(batch)` is a `Sink` of
    `scouter.transport.in_process.transport`.
    """

    sink: Callable[[Any], int | None]
    """Takes a `Batch` for good; returns how many of its items it refused, None for none."""

    def connect(self) -> RemoteTransport:
        """Open a transport that calls the sink."""
        from scouter.transport.in_process.transport import InProcessTransport

        return InProcessTransport(self)
