"""A TCP relay before a server: counts what goes through, and lets a connection die in silence."""

import contextlib
import socket
import threading
from typing import Self


class Relay:
    """Passes on what comes to `port`; a context manager.

    Args:
        port: Of the server behind it, on 127.0.0.1.
    """

    def __init__(self, port: int) -> None:
        self._target = ("127.0.0.1", port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = [self._listening]
        self._silent: set[int] = set()
        self.port: int = self._listening.getsockname()[1]
        self.connections = 0
        self.bytes_in = 0
        """From clients, of all connections."""
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def silence(self) -> None:
        """Pass on nothing more of the connections there are, and do not close them."""
        self._silent.update(range(1, self.connections + 1))

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                server = socket.create_connection(self._target)
                self._sockets += [client, server]
                self.connections += 1
                for pair in ((client, server, True), (server, client, False)):
                    args = (self.connections, *pair)
                    threading.Thread(target=self._pass_on, args=args, daemon=True).start()

    def _pass_on(
        self, number: int, source: socket.socket, target: socket.socket, is_in: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                if is_in:
                    self.bytes_in += len(data)
                if number not in self._silent:
                    target.sendall(data)
            if number not in self._silent:
                target.shutdown(socket.SHUT_WR)
