"""HTTP connections: a bounded number, and those that ask before idle ones."""

import asyncio
import logging
import socket
import ssl
from abc import ABC, abstractmethod
from collections import Counter, OrderedDict
from collections.abc import Callable, Container, Sequence
from ipaddress import ip_address, ip_network
from typing import Final, NamedTuple

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
_OF_STRANGER: Final = 64
"""Connections of an address from which nobody was let in."""


class Connection(asyncio.BaseProtocol, ABC):
    """Connection that may be closed to make room for another one."""

    @property
    @abstractmethod
    def is_made(self) -> bool:
        """False until TLS is agreed on."""

    @abstractmethod
    def abort(self) -> None:
        """Close it at once, whatever is still to be sent."""


class _Place(NamedTuple):
    taking: "asyncio.Task[None]"
    """Agrees on TLS."""
    address: str


class HttpConnections:
    """Takes connections up to a bound; beyond, one without a request makes room for each new one.

    That is the one of which a request has been waited for longest; without such, the one whose
    request began to come first; without such, the one whose client has taken nothing of its answer
    for longest. While all of them wait for their answers, no new one is taken.

    An address from which nobody was let in has few places, so that it cannot keep everybody else
    waiting; beyond, a connection of its own makes room, or the new one is closed.

    Args:
        limit: Connections at a time.
        known: Addresses from which somebody was let in.
        proxies: Networks of proxies, whose connections are those of many clients.
    """

    def __init__(self, limit: int, known: Container[str], proxies: Sequence[str] = ()) -> None:
        self._limit, self._known = limit, known
        self._proxies = [ip_network(each) for each in proxies]
        self._open: dict[Connection, _Place] = {}
        self._of_address = Counter[str]()
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
            make: Makes the protocol of a connection, which reports here what it is at.
            tls: None for none.
        """
        listener.setblocking(False)
        self._listener, self._make, self._tls = listener, make, tls
        self._loop = asyncio.get_running_loop()
        self._resume()

    def close(self) -> None:
        """Take no more; those that are open stay so, unless they have not agreed on TLS yet."""
        self._pause()
        self._listener.close()
        for connection, place in self._open.items():
            if not connection.is_made:
                place.taking.cancel()

    # --- reported by a connection ---------------------------------------------------------------

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
        if connection in self._open:
            self._leave(connection)
            self._resume()

    def _leave(self, connection: Connection) -> _Place:
        place = self._open.pop(connection)
        self._of_address[place.address] -= 1
        if not self._of_address[place.address]:
            del self._of_address[place.address]
        return place

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
                client, (address, *_) = self._listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._give_way(error)
                return
            if is_full:
                self._make_room()
            elif self._has_its_places(address) and not self._make_room(address):
                client.close()
                continue
            self._take(client, address)

    def _has_its_places(self, address: str) -> bool:
        return (
            self._of_address[address] >= _OF_STRANGER
            and address not in self._known
            and not any(ip_address(address) in each for each in self._proxies)
        )

    @property
    def _is_one_stuck(self) -> bool:
        since = next(iter(self._stuck.values()), None)
        return since is not None and since <= self._loop.time() - _STUCK_S

    def _make_room(self, address: str | None = None) -> bool:
        """Close the connection that is missed least, at once; False if all are at work.

        Args:
            address: Only its connections are looked at.
        """
        for some in (self._waiting, self._sending, self._stuck):
            found = (
                each
                for each in some
                if (place := self._open.get(each)) and address in (None, place.address)
            )
            if (connection := next(found, None)) is not None:
                _log.warning(
                    "%d connections are open%s, as many as there is room for: for each new one, "
                    "the one without a request for longest, or that takes no answer, is closed",
                    len(self._open) if address is None else self._of_address[address],
                    "" if address is None else f" from {address}, which sent no valid token yet",
                )
                del some[connection]
                place = self._leave(connection)
                if connection.is_made:
                    connection.abort()
                else:
                    place.taking.cancel()
                return True
        return False

    def _give_way(self, error: OSError) -> None:
        """The whole process, or machine, has no descriptor left: let some go, and come back."""
        _log.warning("cannot take a connection now: %s", error.strerror or error)
        self._make_room()
        self._pause()
        self._loop.call_later(_RETRY_S, self._resume)

    def _take(self, client: socket.socket, address: str) -> None:
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNREAD_MS)
        connection = self._make(self)
        taking = self._loop.create_task(self._connect(connection, client))
        taking.add_done_callback(lambda _: None if connection.is_made else client.close())
        self._open[connection] = _Place(taking, address)
        self._of_address[address] += 1
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
