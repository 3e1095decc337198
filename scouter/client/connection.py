"""The way to a collector: address, token, retries, and how an answer is read."""

import json
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, JsonValue, ValidationError

from scouter.client.environment import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE, named_url
from scouter.client.errors import ApiError, BusyError
from scouter.client.models.answer import Page
from scouter.client.request import NEXT_CURSOR, Request
from scouter.errors import ConfigError, DataError, TransientError
from scouter.transport.config import HttpConfig
from scouter.transport.http_client import Bound, retry_after_s, trusted

_BUSY: Final = frozenset({429, 502, 503, 504})
_SHOWN: Final = 500
MOST_BYTES: Final = 256 * 2**20
"""Of one answer of a collector, once unpacked; the parts of an export are far smaller."""
ANSWER_S: Final = 900.0
"""Longest time for one request and its whole answer, whatever the next part may take."""
_CONTINUED: Final = 3
"""Times as many deliveries of a request behind others: about a minute with the usual pauses."""

T = TypeVar("T", bound=BaseModel)
Item = TypeVar("Item", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Rule for sending a request again after a temporary failure.

    Args:
        tries: Most deliveries of one request, at least 1.
        first_pause_s: Seconds before the second delivery; each later pause is twice as long.
        longest_pause_s: Longest pause in seconds. If a collector wants a longer one
            (Retry-After), the request is not sent again.
    """

    tries: int = 4
    first_pause_s: float = 0.25
    longest_pause_s: float = 10.0


class Connection:
    """Connections to one collector, with the caller's token. Any thread may use it.

    Args:
        url: Base address of the collector, or an `HttpConfig` with address and token; without it
            that of the environment.
        token: Bearer token, never shown; without it that of the environment.
        timeout_s: Longest wait for the next part of an answer, in seconds.
        config: Another word for `url`.
        retry: Rules for sending a request again.
        transport: Carries the requests; by default the network.
        sleep: Waits the given seconds before a request is sent again.

    Raises:
        ConfigError: The address or the token cannot be one.
    """

    def __init__(
        self,
        url: str | HttpConfig | None = None,
        token: str | None = None,
        timeout_s: float = 30.0,
        *,
        config: HttpConfig | None = None,
        retry: Retry | None = None,
        transport: httpx.BaseTransport | None = None,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        url, token = _address(url, token, config)
        self._url = (url or named_url(os.environ) or DEFAULT_URL).rstrip("/")
        token = token or os.environ.get(TOKEN_VARIABLE, "").strip() or None
        _check_url(self._url)
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
            raise ConfigError("the token has letters that no token has; was all of it copied?")
        headers = {"User-Agent": "scouter-client", "Accept": "application/json"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        self._timeout_s, self._retry, self._sleep = timeout_s, retry or Retry(), sleep
        self._http = httpx.Client(
            base_url=self._url,
            headers=headers,
            timeout=timeout_s,
            transport=transport,
            verify=trusted(),
            event_hooks=Bound(most_bytes=MOST_BYTES, most_s=ANSWER_S).hooks(),
        )

    @property
    def url(self) -> str:
        """Base address of the collector."""
        return self._url

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which another program asks the same collector as the same caller."""
        token = self._http.headers.get("Authorization", "").removeprefix("Bearer ")
        return {URL_VARIABLE: self._url, TOKEN_VARIABLE: token}

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _get(self, model: type[T], path: str, given: Mapping[str, Any] | None = None) -> T:
        """Get one answer; `given` is put into the path and the query."""
        return self._ask(model, Request(method="GET", path=path, given=given or {}))

    def _pages(self, item: type[Item], path: str, given: Mapping[str, Any]) -> "Pages[Item]":
        """Read a list page by page; a page is requested when its first item is."""
        request = Request(method="GET", path=path, given=given)
        return Pages(lambda each: self._ask(Page[item], each), request)

    def _parts(self, path: str, given: Mapping[str, Any]) -> Iterator[bytes]:
        """Read a file part by part; a part is requested when the one before it was used."""
        request = Request(method="GET", path=path, given=given)
        while True:
            answer = self._send(request)
            yield answer.content
            cursor = answer.headers.get(NEXT_CURSOR)
            if cursor is None:
                return
            request = replace(request.after(cursor), is_continued=True)

    def _post(
        self,
        model: type[T],
        path: str,
        given: Mapping[str, Any] | None = None,
        body: JsonValue = None,
        *,
        is_repeatable: bool = True,
        takes_s: float = 0.0,
    ) -> T:
        """Give an order; see `Request`."""
        request = Request(
            method="POST", path=path, given=given or {}, body=body, is_repeatable=is_repeatable,
            takes_s=takes_s,
        )  # fmt: skip
        return self._ask(model, request)

    def _put(self, model: type[T], path: str, given: Mapping[str, Any], body: JsonValue) -> T:
        """Put something at a place; a second delivery does the same."""
        return self._ask(model, Request(method="PUT", path=path, given=given, body=body))

    def _ask(self, model: type[T], request: Request) -> T:
        """Send a request and read its answer.

        Raises:
            DataError: It is not what the route answers with.
        """
        try:
            return model.model_validate_json(self._send(request).content)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = ".".join(map(str, first["loc"])) or "the whole"
            raise DataError(
                f"{self._where(request)}: the answer is not understood: {place}: {first['msg']}; "
                "is this a Scouter collector, and as new as this client?"
            ) from error

    def _send(self, request: Request) -> httpx.Response:
        """Send a request until there is an answer that is a success."""
        tried = 0
        while True:
            tried += 1
            try:
                answer = self._http.send(
                    self._http.build_request(
                        request.method,
                        request.url_path,
                        params=request.params,
                        json=request.body,
                        timeout=httpx.Timeout(
                            self._timeout_s, read=max(self._timeout_s, request.takes_s)
                        ),
                    )
                )
                if answer.is_success:
                    return answer
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                pause_s = self._pause_after_error(request, tried, error)
            else:
                pause_s = self._pause_after_answer(request, tried, answer)
            self._sleep(pause_s)

    def _where(self, request: Request) -> str:
        """The request in words."""
        return f"{request.method} {self._url}{request.url_path}"

    def _pause_after_error(
        self, request: Request, tried: int, error: httpx.HTTPError | httpx.InvalidURL
    ) -> float:
        """Seconds until the next try, after one that got no answer.

        Raises:
            TransientError: There is no next try.
            ConfigError: The address can never work.
        """
        if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
            raise ConfigError(f"{self._where(request)}: {error}; check the address") from error
        was_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        if tried >= self._tries(request) or (was_sent and not request.is_repeatable):
            was_cut = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
            advice = (
                "the answer was cut off each time"
                if was_cut
                else "does a collector listen there? Give its address with --url (url= in Python) "
                f"or {URL_VARIABLE}"
            )
            raise TransientError(
                f"{self._where(request)}: {type(error).__name__}: {error}; {advice}"
            ) from error
        return self._pause(tried)

    def _pause_after_answer(self, request: Request, tried: int, answer: httpx.Response) -> float:
        """Seconds until the next try, after an answer that was no success.

        Args:
            request: The request.
            tried: Number of tries, this one included.
            answer: The answer, read to its end.

        Raises:
            ApiError: There is no next try.
        """
        status, detail, where = answer.status_code, _detail(answer), self._where(request)
        if status not in _BUSY:
            raise ApiError(status, detail, where)
        wanted = retry_after_s(answer.headers.get("Retry-After"))
        # 429 refuses a request before anything is done; of the others nobody knows.
        may_repeat = request.is_repeatable or status == 429
        is_too_long = wanted is not None and wanted > self._retry.longest_pause_s
        if tried >= self._tries(request) or is_too_long or not may_repeat:
            raise BusyError(status, detail, where, wanted)
        return self._pause(tried) if wanted is None else wanted

    def _tries(self, request: Request) -> int:
        tries = self._retry.tries
        return tries * _CONTINUED if request.is_continued and tries > 1 else tries

    def _pause(self, tried: int) -> float:
        longest = self._retry.first_pause_s * 2 ** (tried - 1)
        # Clients that were refused together do not come back together.
        return min(longest, self._retry.longest_pause_s) * random.uniform(0.5, 1)  # noqa: S311


class Pages(Iterator[Item]):
    """The items of a list; a page is requested when its first item is.

    Args:
        ask: Gets one page.
        request: For the first page.
    """

    def __init__(self, ask: Callable[[Request], Page[Item]], request: Request) -> None:
        self._ask, self._request = ask, request
        self._items = self._every()

    def __next__(self) -> Item:
        return next(self._items)

    def page(self, cursor: str | None = None) -> Page[Item]:
        """One page, for who reads on at another time.

        Args:
            cursor: `next_cursor` of the page before; None for the first.
        """
        return self._ask(self._request if cursor is None else self._request.after(cursor))

    def _every(self) -> Iterator[Item]:
        page = self.page()
        yield from page.items
        while page.next_cursor is not None:
            page = self.page(page.next_cursor)
            yield from page.items


def _address(
    url: str | HttpConfig | None, token: str | None, config: HttpConfig | None
) -> tuple[str | None, str | None]:
    """Address and token, where both may stand in a transport's settings."""
    if config is not None and url is not None:
        raise ConfigError("the collector's address is given twice, by url and by config")
    where = url if config is None else config
    if where is None or isinstance(where, str):
        return where, token
    if not isinstance(where, HttpConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
        kind = type(where).__name__
        raise ConfigError(f"a client takes an address or an HttpConfig, not a {kind}")
    known = where.auth_token
    return where.server_uri, token or (None if known is None else known.get_secret_value())


def _check_url(url: str) -> None:
    try:
        parts = urlsplit(url)
        has_host = bool(parts.hostname)
    except ValueError as error:
        raise ConfigError(f"the collector's address cannot be read: {error}") from error
    if parts.username is not None or parts.password is not None:
        # Not shown: there may be a secret in it.
        raise ConfigError("the collector's address holds a user; pass a token instead")
    if parts.scheme not in ("http", "https") or not has_host or parts.query or parts.fragment:
        raise ConfigError(f"{url!r} is no address of a collector; expected http://host:port")


def _detail(answer: httpx.Response) -> str:
    """The problem's detail, or the start of whatever was answered."""
    try:
        body = cast(object, json.loads(answer.content))
    except ValueError:
        body = None
    detail = cast("dict[str, object]", body).get("detail") if isinstance(body, dict) else None
    if isinstance(detail, str):
        return detail[:_SHOWN]
    return f"no problem document but {answer.text[:100]!r}; is this a Scouter collector?"
