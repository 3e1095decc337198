"""The page's one source: the HTTP API, asked in the process and in the reader's name.

So the page shows nothing that the reader's token does not open, and every bound of the API holds.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final, TypeAlias

import httpx
import orjson
from starlette.requests import Request

from collector.access.gate import OF_PROXIES

Answer: TypeAlias = dict[str, Any]
"""An answer of the API, as its OpenAPI document describes it."""

_PASSED_ON: Final = frozenset(map(str.encode, ("authorization", "host", *OF_PROXIES)))
"""Headers that decide who is let in."""


class AskError(Exception):
    """The API refused a question.

    Args:
        status: HTTP status.
        detail: Its words.
    """

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail


class Source:
    """Asks the API for one request of the page.

    Args:
        request: The reader's.
        token: Presented in place of the request's own; for a login.
    """

    def __init__(self, request: Request, token: str = "") -> None:
        headers = [
            (name, value)
            for name, value in request.headers.raw
            if name in _PASSED_ON and not (token and name == b"authorization")
        ]
        if token:
            headers.append((b"authorization", f"Bearer {token}".encode("latin-1")))
        client = request.client
        transport = httpx.ASGITransport(
            app=request.app, client=(client.host, client.port) if client else ("", 0)
        )
        self._http = httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers
        )

    async def post(self, path: str, body: Answer) -> Answer:
        """Tell a route to do something.

        Args:
            path: Below `/api/v1`.
            body: As the route takes it.

        Raises:
            AskError: The API refused, or the collector has a fault.
        """
        _check(path)
        return _json(_read(await self._http.post(f"/api/v1/{path}", json=body)))

    async def send(self, path: str, body: bytes, **query: str) -> Answer:
        """Give a route a body of JSON that was written elsewhere.

        Args:
            path: Below `/api/v1`.
            body: As it came.
            query: The route's parameters.

        Raises:
            AskError: The API refused, or the collector has a fault.
        """
        headers = {"Content-Type": "application/json"}
        return _json(
            _read(
                await self._http.post(
                    f"/api/v1/{path}", params=query, content=body, headers=headers
                )
            )
        )

    async def get(self, path: str, **query: str | int | None) -> Answer:
        """Ask a route.

        Args:
            path: Below `/api/v1`.
            query: Its parameters; those that are None or empty are left out.

        Raises:
            AskError: The API refused, or the collector has a fault.
        """
        return _json(_read(await self._ask(path, query)))

    async def file(self, path: str, **query: str | int | None) -> httpx.Response:
        """Ask a route for an answer that is passed on as it is.

        Args:
            path: Below `/api/v1`.
            query: Its parameters; those that are None or empty are left out.

        Raises:
            AskError: The API refused, or the collector has a fault.
        """
        return _read(await self._ask(path, query))

    async def _ask(self, path: str, query: Mapping[str, str | int | None]) -> httpx.Response:
        params: Mapping[str, str | int] = {
            name: value for name, value in query.items() if value not in (None, "")
        }  # type: ignore[assignment]  # no None is left
        _check(path)
        try:
            return await self._http.get(f"/api/v1/{path}", params=params)
        except httpx.InvalidURL as error:  # longer than any address may be
            raise AskError(HTTPStatus.BAD_REQUEST, str(error)) from error


def _check(path: str) -> None:
    """Refuse a name that would make another path of this one."""
    if path.endswith(("/.", "/..")) or "/./" in path or "/../" in path:
        raise AskError(HTTPStatus.NOT_FOUND, "nothing is stored under that name")


def _read(answer: httpx.Response) -> httpx.Response:
    if not answer.is_success:
        raise AskError(answer.status_code, _detail(answer))
    return answer


def _json(answer: httpx.Response) -> Answer:
    """The content of an answer; half surrogates, which only the slower reader takes, too."""
    try:
        return orjson.loads(answer.content)
    except orjson.JSONDecodeError:
        return answer.json()


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.reason_phrase
