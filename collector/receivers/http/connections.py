"""HTTP connections: a bounded number, and those that ask before idle ones."""

import asyncio
import logging
import socket
import ssl
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

_log: Final = logging.getLogger(__name__)
_AT_A_TIME: Final = 16
"""Connections that are taken before anybody else has a turn."""
_HANDSHAKE_S: Final = 20.0
_GOODBYE_S: Final = 5.0
"""Seconds that a client may take to end TLS."""
_RETRY_S: Final = 0.5
_STUCK_S: Final = 2.0
"""Seconds without a byte taken of its answer, after which a client makes room for others."""
_UNREAD_MS: Final = 60_000
"""Time after which a client is given up that takes nothing more of its answer."""


class Connection(asyncio.BaseProtocol, ABC):
    """Connection that may be closed to make room for another one."""

    @property
    @abstractmethod
    def is_made(self) -> bool:
        """False until TLS is agreed on."""

    @abstractmethod
    def abort(self) -> None:
        """Close it at once, whatever is still to be sent."""


class HttpConnections:
    """Takes connections up to a bound; beyond, one without a request makes room for each new one.

    That is the one of which a request has been waited for longest; without such, the one whose
    request began to come first; without such, the one whose client has taken nothing of its answer
    for longest. While all of them wait for their answers, no new one is taken.

    Args:
        limit: Connections at a time.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[Connection, asyncio.Task[None]] = {}
        """Each with what took it."""
        self._waiting: OrderedDict[Connection, None] = OrderedDict()
        """Connections without a request, the one that has waited longest first."""
        self._sending: OrderedDict[Connection, None] = OrderedDict()
        """Connections whose request has not arrived in full, the oldest first."""
        self._stuck: OrderedDict[Connection, float] = OrderedDict()
        """Connections whose client takes nothing now, with the time since when."""
        self._is_taking = False

    def open(
        self,
        listener: socket.socket,
        make: Callable[["HttpConnections"], Connection],
        tls: ssl.SSLContext | None,
    ) -> None:
        """Take connections from now on.

        Args:
            listener: Listens already.
            make: Makes the protocol of a connection, which tells here what it is at.
            tls: None to talk without.
        """
        listener.setblocking(False)
        self._listener, self._make, self._tls = listener, make, tls
        self._loop = asyncio.get_running_loop()
        self._resume()

    def close(self) -> None:
        """Take no more; those that are open stay so, unless they have not agreed on TLS yet."""
        self._pause()
        self._listener.close()
        for connection, taking in self._open.items():
            if not connection.is_made:
                taking.cancel()

    # --- told by a connection ---------------------------------------------------------------

    def waits(self, connection: Connection) -> None:
        """Its client owes a request."""
        self._sending.pop(connection, None)
        self._waiting[connection] = None
        self._resume()

    def sends(self, connection: Connection) -> None:
        """Its client owes the rest of a request."""
        if self._waiting.pop(connection, connection) is None:
            self._sending[connection] = None

    def works(self, connection: Connection) -> None:
        """Its client waits for an answer."""
        self._waiting.pop(connection, None)
        self._sending.pop(connection, None)

    def stuck(self, connection: Connection) -> None:
        """Its client takes nothing more of its answer."""
        self._stuck[connection] = self._loop.time()

    def flows(self, connection: Connection) -> None:
        """It does so again."""
        self._stuck.pop(connection, None)

    def lost(self, connection: Connection) -> None:
        """It is closed."""
        self.works(connection)
        self.flows(connection)
        if self._open.pop(connection, None) is not None:
            self._resume()

    # --- taking -----------------------------------------------------------------------------

    def _resume(self) -> None:
        if not self._is_taking and self._listener.fileno() >= 0:
            self._loop.add_reader(self._listener, self._take_some)
            self._is_taking = True

    def _pause(self) -> None:
        if self._is_taking:
            self._loop.remove_reader(self._listener)
            self._is_taking = False

    def _take_some(self) -> None:
        for _ in range(_AT_A_TIME):
            is_full = len(self._open) >= self._limit
            if is_full and not (self._waiting or self._sending or self._is_one_stuck):
                self._pause()
                if self._stuck:  # who has not been so for long enough yet
                    self._loop.call_later(_RETRY_S, self._resume)
                return
            try:
                client, _ = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._give_way(error)
                return
            if is_full:
                self._make_room()
            self._take(client)

    @property
    def _is_one_stuck(self) -> bool:
        since = next(iter(self._stuck.values()), None)
        return since is not None and since <= self._loop.time() - _STUCK_S

    def _make_room(self) -> None:
        """Close the connection that is missed least, at once, unless all are at work."""
        for some in (self._waiting, self._sending, self._stuck):
            if some:
                _log.warning(
                    "%d connections are open, as many as there is room for: for each new one, the "
                    "one that has been without a request longest, or takes no answer, is closed",
                    len(self._open),
                )
                connection, _ = some.popitem(last=False)
                taking = self._open.pop(connection)
                if connection.is_made:
                    connection.abort()
                else:
                    taking.cancel()
                return

    def _give_way(self, error: OSError) -> None:
        """The whole process, or machine, has no descriptor left: let some go, and come back."""
        _log.warning("cannot take a connection now: %s", error.strerror or error)
        self._make_room()
        self._pause()
        self._loop.call_later(_RETRY_S, self._resume)

    def _take(self, client: socket.socket) -> None:
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)
        connection = self._make(self)
        taking = self._loop.create_task(self._connect(connection, client))
        taking.add_done_callback(lambda _: None if connection.is_made else client.close())
        self._open[connection] = taking
        self._waiting[connection] = None

    async def _connect(self, connection: Connection, client: socket.socket) -> None:
        seconds = None if self._tls is None else _HANDSHAKE_S
        goodbye = None if self._tls is None else _GOODBYE_S
        try:
            await self._loop.connect_accepted_socket(
                lambda: connection, client, ssl=self._tls,
                ssl_handshake_timeout=seconds, ssl_shutdown_timeout=goodbye,
            )  # fmt: skip
        except OSError:  # ended before it began: no TLS, or not in time
            self.lost(connection)
