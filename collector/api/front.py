"""The checks of every request before its route: its wire, its body, and its turn."""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collector.access.caller import CALLER, Caller
from collector.access.caller import Scope as CallerScope
from collector.problem import ProblemError, problem_response
from collector.receivers.budget import RETRY_AFTER_S, ByteBudget, FullError, Lease
from collector.receivers.http.body import read_whole

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
                body = _Body(receive, send, is_requested=b"expect" not in names)
                receive, send = body.receive, body.send
        await self._app(scope, receive, send)


def _without_body(send: Send) -> Send:
    """Send the head of an answer only; whoever writes the rest has to stop."""
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
        is_requested: False if the client sends the body only once it is requested.
    """

    def __init__(self, receive: Receive, send: Send, *, is_requested: bool) -> None:
        self._receive, self._send, self._is_requested = receive, send, is_requested
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
                if self._is_requested:
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


_WAITING: Final = 100
"""Questions of one space that wait; who comes behind them would hardly wait to the end."""
_RETRY_AFTER_S: Final = 5


class Turns:
    """Places for questions: one that is free is taken at once, else each space gets one in turn.

    So a space with many requests waits for itself, and the others for one of its questions at most.
    For one event loop.

    Args:
        places: Number of questions at a time.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By space, the one whose turn is next first; only while no place is free."""

    async def take(self, space: str) -> bool:
        """Take a place, to be given back.

        Returns:
            True if there was none at first.

        Raises:
            ProblemError: 503, too many questions of the space wait already.
        """
        if self._free:
            self._free -= 1
            return False
        queue = self._waiting.setdefault(space, deque())
        if len(queue) >= _WAITING:
            raise ProblemError(
                503, f"{_WAITING} questions of this space wait already", _RETRY_AFTER_S
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came at the same moment
                self.give_back()
            raise
        return True

    def give_back(self) -> None:
        """Give a place to the next space's first question."""
        while self._waiting:
            space, queue = next(iter(self._waiting.items()))
            turn = queue.popleft()
            if queue:
                self._waiting.move_to_end(space)
            else:
                del self._waiting[space]
            if not turn.done():  # else it was cancelled
                turn.set_result(None)
                return
        self._free += 1


IS_BEHIND: Final = "is_behind"
"""Name in the state of a request whose answer may lack what was acknowledged before it."""
_BEHIND: Final = b"scouter-behind"
_PREFIX: Final = "/api/"
_MAX_BYTES: Final = 2**20
_LARGE: Final = "/api/v1/runs"
"""Takes whole files of results."""
_LARGE_BYTES: Final = 32 * 2**20
_SPACE_BYTES: Final = 4 * _MAX_BYTES
"""Bytes of request bodies that each space may have in memory.

A space that sends much so delays no other space.
"""
_WRITERS: Final = frozenset((CallerScope.PROFILE, CallerScope.ADMIN))
"""Scopes of which a caller needs at least one to send a body, but to the next paths."""
_OTHER_WRITERS: Final = {
    _LARGE: frozenset((CallerScope.INGEST,)),
    "/api/v1/labels": frozenset((CallerScope.LABEL,)),
    "/api/v1/feedback": frozenset((CallerScope.INGEST,)),
}
_BODY_S: Final = 20.0
_AT_A_TIME: Final = 4
"""Questions that are answered together. Forty pages of a thousand items at once are ready no
sooner, take ten times the memory, and let probes and receivers wait for the interpreter."""


class ApiFront:
    """ASGI middleware that refuses strangers at once, reads bodies within bounds, and lets few ask.

    The framework would read a body of any size, and parse it, before anybody looks at the token.
    A body is JSON: what a page of another site makes a browser send without asking is not.

    Args:
        app: Serves the request; the caller is known by now.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()
        self._bodies: dict[tuple[str, bool], ByteBudget] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI has it."""
        if scope["type"] != "http" or not scope["path"].startswith(_PREFIX):
            await self._app(scope, receive, send)
            return
        caller: Caller | ProblemError = scope[CALLER]
        if isinstance(caller, ProblemError):
            await _refuse(caller, scope, receive, send)
        elif scope["method"] == "GET":
            await self._in_turn(caller, scope, receive, send)
        elif _OTHER_WRITERS.get(scope["path"], _WRITERS).isdisjoint(
            caller.scopes
        ):  # it will be refused, whatever it sends
            await _is_gone(receive)  # the server drops what has come
            await self._app(scope, _again(b"", receive), send)
        else:
            await self._with_body(caller, scope, receive, send)

    async def _with_body(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Read a body into the memory of its space, which it keeps until the answer is sent."""
        is_large = scope["path"] == _LARGE
        most, together = (_LARGE_BYTES, _LARGE_BYTES) if is_large else (_MAX_BYTES, _SPACE_BYTES)
        key = caller.space, is_large
        budget = self._bodies.setdefault(key, ByteBudget(together))
        with budget.lease() as lease:
            try:
                body = await _body(scope, receive, lease, most)
            except FullError:
                detail = f"the bodies of this space's requests take {together} bytes; come back"
                await _refuse(ProblemError(429, detail, RETRY_AFTER_S), scope, receive, send)
            except ProblemError as error:
                await _refuse(error, scope, receive, send)
            else:
                await self._app(scope, _again(body, receive), send)

    async def _in_turn(self, caller: Caller, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a question once there is a place for it, which is free when the answer begins."""
        turns = self._turns.setdefault(asyncio.get_running_loop(), Turns(_AT_A_TIME))
        try:
            if _has_body(dict(scope["headers"])):
                raise ProblemError(400, "a GET has no body here")
            has_waited = await turns.take(caller.space)
        except ProblemError as error:
            await _refuse(error, scope, receive, send)
            return
        has_place = True

        def end() -> None:
            nonlocal has_place
            if has_place:
                has_place = False
                turns.give_back()

        async def answer_ready(message: Message) -> None:
            end()  # who reads slowly, or an export, keeps nobody from asking
            if message["type"] == "http.response.start" and scope.get("state", {}).get(IS_BEHIND):
                message["headers"] = [*message["headers"], (_BEHIND, b"true")]
            await send(message)

        try:
            if not (has_waited and await _is_gone(receive)):
                await self._app(scope, _again(b"", receive), answer_ready)
        finally:
            end()


async def _refuse(error: ProblemError, scope: Scope, receive: Receive, send: Send) -> None:
    answer = problem_response(error.status, error.detail, {**error.headers, "Connection": "close"})
    await answer(scope, receive, send)


def _has_body(headers: Mapping[bytes, bytes]) -> bool:
    return b"transfer-encoding" in headers or headers.get(b"content-length", b"0") != b"0"


async def _is_gone(receive: Receive) -> bool:
    """Say whether the client went away, without waiting for anything that it may send."""
    try:
        async with asyncio.timeout(0):
            return (await receive())["type"] == "http.disconnect"
    except TimeoutError:
        return False


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read once more, and then what comes behind it."""
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return rest.pop() if rest else await receive()

    return again


async def _body(scope: Scope, receive: Receive, lease: Lease, most: int) -> bytes:
    """The whole body, of so many bytes at most; empty where there is none.

    Raises:
        ProblemError: 413 too large, 408 too slow, 415 no JSON, 400 the client went away.
        FullError: There is no memory for it now.
    """
    headers = dict(scope["headers"])
    media = headers.get(b"content-type")
    if media is None and not _has_body(headers):
        return b""
    is_json = (media or b"").partition(b";")[0].strip().lower() == b"application/json"
    if not is_json:
        raise ProblemError(415, "Content-Type: expected application/json")
    why = f"a body has at most {most} bytes here"
    return await read_whole(scope, receive, lease, most, _BODY_S, why)
