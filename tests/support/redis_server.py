"""A real Redis server on a free port."""

import socket
from pathlib import Path

from tests.support.components import require_program
from tests.support.processes import ManagedProcess, free_ports


class RedisServer:
    """One server of our own; `stop` and `start` keep its port and its data.

    Args:
        folder: Empty folder for data and output.
    """

    def __init__(self, folder: Path) -> None:
        self._program = require_program("redis", "redis-server")
        self._folder = folder
        (self._port,) = free_ports(1)
        self._process: ManagedProcess | None = None

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return f"redis://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert self._process is None, "the server runs already"
        self._process = ManagedProcess(
            [self._program, "--port", str(self._port), "--bind", "127.0.0.1",
             "--dir", self._folder, "--appendonly", "yes", "--appendfsync", "always",
             "--save", ""],
            log=self._folder / "redis.log",
        )  # fmt: skip
        self._process.wait_ready(self._answers)

    def stop(self) -> None:
        """Stop the server; its data stays."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def _answers(self) -> bool:
        with socket.create_connection(("127.0.0.1", self._port), timeout=1) as connection:
            connection.settimeout(120)
            connection.sendall(b"PING\r\n")
            return connection.recv(100).startswith(b"+PONG")  # not while it loads its data
