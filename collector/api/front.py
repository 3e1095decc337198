"""What every request below `/api` passes before its body is read."""

import asyncio
from typing import Final
from weakref import WeakKeyDictionary

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from collector.access.caller import CALLER
from collector.problem import ProblemError, problem_response

_PREFIX: Final = "/api/"
_MAX_BYTES: Final = 2**20
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
        self._turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = (
            WeakKeyDictionary()
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI has it."""
        if scope["type"] != "http" or not scope["path"].startswith(_PREFIX):
            await self._app(scope, receive, send)
            return
        try:
            caller = scope[CALLER]
            if isinstance(caller, ProblemError):
                raise caller
            body = await _body(scope, receive)
        except ProblemError as error:
            answer = problem_response(
                error.status, error.detail, {**error.headers, "Connection": "close"}
            )
            await answer(scope, receive, send)
            return
        if body is not None:
            receive = _again(body, receive)
        serve = self._in_turn if scope["method"] == "GET" else self._app
        await serve(scope, receive, send)

    async def _in_turn(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a question once there is a place for it, which is free when the answer begins."""
        turns = self._turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_AT_A_TIME))
        await turns.acquire()
        is_held = True

        def end() -> None:
            nonlocal is_held
            if is_held:
                is_held = False
                turns.release()

        async def answer_ready(message: Message) -> None:
            end()  # who reads slowly, or an export, keeps nobody from asking
            await send(message)

        try:
            await self._app(scope, receive, answer_ready)
        finally:
            end()


def _again(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read once more, and then what comes behind it."""
    rest: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def again() -> Message:
        return rest.pop() if rest else await receive()

    return again


async def _body(scope: Scope, receive: Receive) -> bytes | None:
    """The whole body; None where there is none to be read.

    Raises:
        ProblemError: 413 too large, 408 too slow, 415 no JSON, 400 the client went away.
    """
    headers = dict(scope["headers"])
    size = headers.get(b"content-length", b"0")
    media = headers.get(b"content-type")
    if not (b"transfer-encoding" in headers or size != b"0" or media is not None):
        return None
    if size.isdigit() and int(size[:19]) > _MAX_BYTES:
        raise _too_large()
    is_json = (media or b"").partition(b";")[0].strip().lower() == b"application/json"
    if not is_json and scope["method"] not in ("GET", "HEAD"):
        raise ProblemError(415, "Content-Type: expected application/json")
    parts: list[bytes] = []
    length = 0
    is_more = True
    try:
        async with asyncio.timeout(_BODY_S):
            while is_more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ProblemError(400, "the client went away before it had sent the body")
                parts.append(message.get("body", b""))
                length += len(parts[-1])
                if length > _MAX_BYTES:
                    raise _too_large()
                is_more = message.get("more_body", False)
    except TimeoutError as error:
        raise ProblemError(408, f"the body took more than {_BODY_S:g} s to arrive") from error
    return b"".join(parts)


def _too_large() -> ProblemError:
    return ProblemError(413, f"a body has at most {_MAX_BYTES} bytes here")
