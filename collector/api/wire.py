"""HTTP rules for every route: HEAD, and an end for bodies that nobody reads."""

import asyncio
from typing import Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

_REST_S: Final = 2.0
"""Seconds in which a client may send the rest of a body after the answer. If its connection were
closed at once, a client that only reads when it has sent all would not see the answer."""
_CLOSE: Final = (b"connection", b"close")


class WireFront:
    """ASGI middleware that answers HEAD as GET, and ends a connection where a body is not read.

    A request that is refused may have a body of any size on its way: what comes of it is dropped
    for a moment, then the connection is closed.

    Args:
        app: Serves the request.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI has it."""
        if scope["type"] == "http":
            if scope["method"] == "HEAD":
                scope, send = {**scope, "method": "GET"}, _without_body(send)
            names = {name for name, _ in scope["headers"]}
            if b"content-length" in names or b"transfer-encoding" in names:
                body = _Body(receive, send, is_asked_for=b"expect" not in names)
                receive, send = body.receive, body.send
        await self._app(scope, receive, send)


def _without_body(send: Send) -> Send:
    """Send the head of an answer only; the server tells whoever writes the rest to stop."""
    is_over = False

    async def send_head(message: Message) -> None:
        nonlocal is_over
        if is_over:
            return
        if message["type"] == "http.response.body":
            is_over = True
            message = {"type": "http.response.body", "body": b"", "more_body": False}
        await send(message)

    return send_head


class _Body:
    """The body of one request, and whether all of it is here when it is answered.

    Args:
        receive: The server's.
        send: The server's.
        is_asked_for: False if the client sends the body only once it is asked for.
    """

    def __init__(self, receive: Receive, send: Send, *, is_asked_for: bool) -> None:
        self._receive, self._send, self._is_asked_for = receive, send, is_asked_for
        self._is_whole = False

    async def receive(self) -> Message:
        """Get the next part."""
        message = await self._receive()
        self._is_whole = self._is_whole or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """Send a part of the answer."""
        if not self._is_whole:
            if message["type"] == "http.response.start":
                if self._is_asked_for:
                    await self._drop(0)
                if not self._is_whole:
                    message = {**message, "headers": [*message["headers"], _CLOSE]}
            elif not message.get("more_body", False):
                await self._send({**message, "more_body": True})
                await self._drop(_REST_S)
                message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _drop(self, seconds: float) -> None:
        """Read on until the body, the client's patience or the time is over."""
        try:
            async with asyncio.timeout(seconds):
                while not self._is_whole:
                    await self.receive()
        except TimeoutError:
            pass  # the connection is closed then
