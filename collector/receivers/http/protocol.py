"""HTTP/1.1 on a connection: one request at a time, within bounds of bytes and of seconds."""

import asyncio
import re
from typing import Any, Final

from uvicorn import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from collector.receivers.http.connections import Connection, HttpConnections

_MAX_HEAD: Final = 2**16
"""Bytes of address and headers, or of trailers, beyond what came with their first byte."""
_OF_PROXY: Final = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
"""A request's target as it is sent to a proxy: with the host's name."""
_HEAD_S: Final = 20.0
"""Seconds that a head may take: from the connection on, or from the first byte of a later one."""
_PIECE: Final = 2048
_PIECES: Final = 8
"""Most pieces of a head or of chunks that are parsed before other connections have their turn.

A piece may be a single byte.
"""
_END: Final = b"\r\n\r\n"
"""The last bytes of a head and of a chunked body."""
_READ: Final = bytearray(2**16)
"""Buffer into which the system reads for every connection; it is emptied before the next read."""
_READ_VIEW: Final = memoryview(_READ)


class _Flow(FlowControl):
    """Reads while uvicorn has room for more of a body and nothing waits that came before."""

    _is_full = _is_paused = False

    def hold(self) -> None:
        """Read nothing until `release`."""
        self._is_paused = True
        super().pause_reading()

    def release(self) -> None:
        """Read again."""
        self._is_paused = False
        if not self._is_full:
            super().resume_reading()

    def pause_reading(self) -> None:
        """Called by uvicorn."""
        self._is_full = True
        super().pause_reading()

    def resume_reading(self) -> None:
        """Called by uvicorn."""
        self._is_full = False
        if not self._is_paused:
            super().resume_reading()


class BoundedHttpProtocol(HttpToolsProtocol, asyncio.BufferedProtocol, Connection):
    """A connection on which nothing is stored that has no end.

    The parser would make a request of whatever has come, however many there are. So it is given
    bytes up to the end of one message only. The rest waits until the answer is written, and
    nothing more is read meanwhile: at most one read.

    Args:
        connections: Is notified whose turn it is, the client's or ours.
        config: uvicorn's.
        server_state: uvicorn's.
        app_state: uvicorn's.
    """

    def __init__(
        self,
        connections: HttpConnections,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
    ) -> None:
        super().__init__(config, server_state, app_state)
        self._connections = connections
        self._is_made = False
        self._why = ""
        """Reason for which the parser was stopped."""
        self._since_progress = 0
        """Bytes that came since a message began, or since the last ones of its body."""
        self._rest = b""
        """Bytes that arrived and were not given to the parser yet."""
        self._owes_head = True
        self._head_timer: asyncio.TimerHandle | None = None
        self._body_left = 0
        """Bytes of a body whose length was stated; 0 or less of any other."""

    @property
    def is_made(self) -> bool:
        """False until TLS is agreed on."""
        return self._is_made

    def abort(self) -> None:
        """Close it at once, whatever is still to be sent."""
        self.transport.abort()

    # --- called by the transport ------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride] - as uvicorn has it
        """Begin."""
        super().connection_made(transport)
        self._flow = self.flow = _Flow(transport)
        self._is_made = True
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._unset_head_timer()
        self._unset_keepalive_if_required()
        super().connection_lost(exc)
        self._connections.lost(self)

    def pause_writing(self) -> None:
        """The client takes nothing now."""
        super().pause_writing()
        self._connections.stuck(self)

    def resume_writing(self) -> None:
        """The client takes something again."""
        super().resume_writing()
        self._connections.flows(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        """Say where to read into."""
        del sizehint
        return _READ_VIEW

    def buffer_updated(self, nbytes: int) -> None:
        """Take what was read."""
        data = self._rest + bytes(_READ_VIEW[:nbytes]) if self._rest else bytes(_READ_VIEW[:nbytes])
        self._parse(data)

    # --- called by the parser ---------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Begin a request."""
        self._since_progress = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Begin the work on a request; whoever goes by the target's host must not see another one.

        Raises:
            ValueError: The target has a host, which is not the one that Host has, or the request is
                not HTTP/1.1; answered by 400.
        """
        if self.parser is not None and self.parser.get_http_version() != "1.1":
            raise self._refusal("the request is not HTTP/1.1; nginx: proxy_http_version 1.1")
        if not self.url.startswith(b"/"):
            target = _OF_PROXY.match(self.url)
            hosts = [value.strip(b" \t").lower() for name, value in self.headers if name == b"host"]
            if target is None or hosts != [target[1].lower()]:
                raise self._refusal("the request is for another host than its Host header says")
        super().on_headers_complete()
        self._owes_head = False
        self._unset_head_timer()
        self._body_left = 0
        if self.parser is not None and self.parser.should_upgrade():
            # To another protocol, which is not spoken here; what follows may be of that one.
            self.cycle.keep_alive = False
            return
        for name, value in self.headers:
            if name == b"content-length":
                self._body_left = int(value)

    def _refusal(self, why: str) -> ValueError:
        self._why = why
        return ValueError(why)

    def send_400_response(self, msg: str) -> None:
        """Say why, and end the connection."""
        super().send_400_response(self._why or msg)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._since_progress = 0
        self._body_left -= len(body)
        super().on_body(body)

    # --- called by uvicorn ------------------------------------------------------------------

    def on_response_complete(self) -> None:
        """Go on with what came meanwhile."""
        self._owes_head = True
        self._connections.waits(self)
        if self.cycle.more_body:  # nobody reads the rest, so that it is not seen where it ends
            self.transport.close()
        super().on_response_complete()
        self._go_on()

    def _unsupported_upgrade_warning(self) -> None:
        """Say nothing: the request is answered as if it had not requested another protocol."""

    # --- the client's turn ------------------------------------------------------------------

    @property
    def _is_at_work(self) -> bool:
        """True from the last byte of a request to the last one of its answer."""
        return not self._owes_head and not self.cycle.more_body

    def _parse(self, data: bytes) -> None:
        """Give the parser what is its turn, a few pieces at a time, and keep the rest."""
        at, end = 0, self._end_of_piece(data, 0)
        for _ in range(_PIECES):
            if end == at or self._is_at_work or self.transport.is_closing():
                break
            self._since_progress += end - at
            super().data_received(data[at:end])
            at, end = end, self._end_of_piece(data, end)
            if self._since_progress > _MAX_HEAD and not self.transport.is_closing():
                self.logger.warning("ended a connection: more than %d bytes of headers", _MAX_HEAD)
                self.send_400_response("The headers of the request are too large.")
        self._rest = data[at:]
        self._tell()
        if end == at:
            self._flow.release()
        else:
            self._flow.hold()
            if not self._is_at_work:
                self.loop.call_soon(self._go_on)  # others have their turn before

    def _go_on(self) -> None:
        """Take what was stored."""
        if self._rest and not self.transport.is_closing():
            data, self._rest = self._rest, b""
            self._parse(data)

    def _tell(self) -> None:
        """Tell who is waited for."""
        if self._owes_head:
            if self._head_timer is None:
                self._expect_head()
        elif self._is_at_work:
            self._connections.works(self)
        else:
            self._connections.sends(self)

    def _end_of_piece(self, data: bytes, at: int) -> int:
        """Find the end of the next piece: the end of the message, or an earlier position.

        The result is `at` if more bytes are needed to tell.
        """
        if self._body_left > 0:
            return min(len(data), at + self._body_left)
        stop = min(len(data), at + _PIECE)
        found = data.find(_END, at, stop)
        if found >= 0:
            return found + len(_END)
        # The last bytes may be the first ones of an end.
        cut = next(n for n in (3, 2, 1, 0) if data.endswith(_END[:n], at, stop))
        return stop - cut

    def _expect_head(self) -> None:
        self._head_timer = self.loop.call_later(
            min(_HEAD_S, self.timeout_keep_alive), self.timeout_keep_alive_handler
        )

    def _unset_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None
