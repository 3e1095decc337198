"""The page's one source: the API's routes, called in the process and in the reader's name.

Each call goes through all that stands before a route: the check of the token, turns, bounds of
parameters. So the page shows nothing that the reader's token does not open. Only the answer is no
JSON: it is the route's own model.
"""

import asyncio
import json
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar, cast
from urllib.parse import unquote, urlencode

from pydantic import BaseModel, JsonValue
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Message

from collector.access.gate import OF_PROXIES
from collector.api.parameters import TAKEN
from collector.problem import ProblemError
from scouter.client.models.records import Questions

Shown: TypeAlias = dict[str, Any]
"""Values that a template shows."""
T = TypeVar("T", bound=BaseModel)
_PASSED_ON: Final = frozenset(map(str.encode, ("authorization", "host", *OF_PROXIES)))
"""Headers that decide who is let in."""


class _Named(Protocol):
    """A record, or what is about one."""

    @property
    def uid(self) -> str: ...
    @property
    def record_id(self) -> str: ...


_MOST_NAMED: Final = 100
"""Records whose questions are requested at a time."""


class File(NamedTuple):
    """An answer that is passed on as it is."""

    headers: Headers
    content: bytes


class Source:
    """Calls the API for one request of the page.

    Args:
        request: The reader's.
        token: Presented in place of the request's own; for a login.
    """

    def __init__(self, request: Request, token: str = "") -> None:
        self._request = request
        self._headers = [
            (name, value)
            for name, value in request.headers.raw
            if name in _PASSED_ON and not (token and name == b"authorization")
        ]
        if token:
            self._headers.append((b"authorization", f"Bearer {token}".encode("latin-1")))

    async def get(self, model: type[T], path: str, **query: str | int | list[str] | None) -> T:
        """Ask a route.

        Args:
            model: Of its answer.
            path: Below `/api/v1`.
            query: Its parameters; those that are None or empty are left out, and a list is given
                item by item.

        Raises:
            ProblemError: The API refused, or the collector has a fault.
        """
        return await self._take(model, "GET", path, query)

    async def questions(self, items: Iterable[_Named], since_s: int = 0) -> Mapping[str, str]:
        """By uid the user's question: the name of a record to which nobody gave an id.

        Args:
            items: Records, or what is about them.
            since_s: Time from which on they were accepted, in seconds since 1970.

        Raises:
            ProblemError: The API refused.
        """
        uids = list(dict.fromkeys(each.uid for each in items if not each.record_id))
        if not uids:
            return {}
        return (await self.get(Questions, "questions", uid=uids[:_MOST_NAMED], since=since_s)).items

    async def post(self, model: type[T], path: str, body: Mapping[str, JsonValue]) -> T:
        """Tell a route to do something.

        Args:
            model: Of its answer.
            path: Below `/api/v1`.
            body: As the route takes it.

        Raises:
            ProblemError: The API refused, or the collector has a fault.
        """
        return await self._take(model, "POST", path, {}, json.dumps(body).encode())

    async def send(self, model: type[T], path: str, body: bytes, **query: str) -> T:
        """Give a route a body of JSON that was written elsewhere; see `post`."""
        return await self._take(model, "POST", path, query, body)

    async def file(self, path: str, **query: str | int | list[str] | None) -> File:
        """Ask a route for an answer that is passed on as it is; see `get`."""
        return await self._call("GET", path, query)

    async def _take(
        self,
        model: type[T],
        method: str,
        path: str,
        query: Mapping[str, str | int | list[str] | None],
        body: bytes | None = None,
    ) -> T:
        taken: list[object] = []
        token = TAKEN.set(taken)
        try:
            answer = await self._call(method, path, query, body)
        finally:
            TAKEN.reset(token)
        # A route that writes its JSON itself, for its speed, leaves none.
        return cast("T", taken[0]) if taken else model.model_validate_json(answer.content)

    async def _call(
        self,
        method: str,
        path: str,
        query: Mapping[str, str | int | list[str] | None],
        body: bytes | None = None,
    ) -> File:
        if path.endswith(("/.", "/..")) or "/./" in path or "/../" in path:  # another path
            raise ProblemError(HTTPStatus.NOT_FOUND, "nothing is stored under that name")
        given = {name: value for name, value in query.items() if value not in (None, "")}
        headers = list(self._headers)
        if body is not None:
            headers.append((b"content-type", b"application/json"))
            headers.append((b"content-length", str(len(body)).encode()))
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method,
            "scheme": "http", "path": f"/api/v1/{unquote(path)}", "raw_path": path.encode(),
            "query_string": urlencode(given, doseq=True).encode(),
            "root_path": "", "headers": headers,
            "client": self._request.scope.get("client") or ("", 0), "server": ("localhost", 80),
        }  # fmt: skip
        waiting: list[Message] = [{"type": "http.request", "body": body or b""}]
        start: Message = {}
        content = bytearray()

        async def receive() -> Message:
            if not waiting:
                await asyncio.Event().wait()  # the reader stays until the answer is here
            return waiting.pop()

        async def send(message: Message) -> None:
            start.update(message if message["type"] == "http.response.start" else {})
            content.extend(message.get("body", b""))

        await self._request.app(scope, receive, send)
        found = File(Headers(raw=list(start["headers"])), bytes(content))
        if not 200 <= start["status"] < 300:
            raise ProblemError(start["status"], _detail(start["status"], found.content))
        return found


def _detail(status: int, content: bytes) -> str:
    try:
        return str(json.loads(content)["detail"])
    except (ValueError, KeyError, TypeError):
        return HTTPStatus(status).phrase
