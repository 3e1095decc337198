"""HTTP/1.1 on a connection, by a parser in C that is held to the bound of the one in Python."""

from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MAX_HEAD: Final = 2**16
"""Bytes of address and headers, or of trailers, beyond what came with their first byte."""


class BoundedHttpProtocol(HttpToolsProtocol):
    """Ends a connection whose headers have no end; the parser would keep all of them."""

    _since_progress = 0
    """Bytes that came since a message began, or since the last ones of its body."""

    def data_received(self, data: bytes) -> None:
        """Called by the transport."""
        self._since_progress += len(data)
        super().data_received(data)
        if self._since_progress > _MAX_HEAD and not self.transport.is_closing():
            self.logger.warning("ended a connection: more than %d bytes of headers", _MAX_HEAD)
            self.send_400_response("The headers of the request are too large.")

    def on_message_begin(self) -> None:
        """Called by the parser."""
        self._since_progress = 0
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._since_progress = 0
        super().on_body(body)
