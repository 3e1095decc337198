"""The process behind an address: a collector, or one process of a fleet."""

from typing import TYPE_CHECKING, Protocol

from collector.settings.model import CollectorSettings

if TYPE_CHECKING:
    from fastapi import FastAPI

    from collector.receivers.grpc.receiver import GrpcReceiver


class Served(Protocol):
    """A collector, or one process of a fleet."""

    settings: CollectorSettings
    max_connections: int
    app: "FastAPI"

    @property
    def grpc(self) -> "GrpcReceiver | None":
        """The way in over gRPC, where there is one."""
        ...

    @property
    def is_broken(self) -> bool:
        """True once only a new process helps."""
        ...

    @property
    def about(self) -> str:
        """What it works with, for the line that says where it listens."""
        ...

    def start(self) -> None:
        """Begin to work."""
        ...

    def drain(self) -> None:
        """Take nothing new; returns at once."""
        ...

    def stop(self) -> None:
        """Finish what was taken, and close everything."""
        ...
