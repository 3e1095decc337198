"""HTTP/1.1 on a connection, by a parser in C that is held to the bound of the one in Python."""

import re
from typing import Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_MAX_HEAD: Final = 2**16
"""Bytes of address and headers, or of trailers, beyond what came with their first byte."""
_OF_PROXY: Final = re.compile(rb"https?://([^/?#]*)", re.IGNORECASE)
"""A request's target as it is sent to a proxy: with the host's name."""


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

    def on_headers_complete(self) -> None:
        """Called by the parser; whoever goes by the target's host must not see another one.

        Raises:
            ValueError: The target has a host, which is not the one that Host has; answered by 400.
        """
        if not self.url.startswith(b"/"):
            target = _OF_PROXY.match(self.url)
            hosts = [value.strip(b" \t").lower() for name, value in self.headers if name == b"host"]
            if target is None or hosts != [target[1].lower()]:
                raise ValueError("the request is for another host than its Host header says")
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called by the parser."""
        self._since_progress = 0
        super().on_body(body)
