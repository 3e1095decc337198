"""The common part of both clients: address, token, retries, reading of answers."""

import json
import os
import random
from dataclasses import dataclass, field
from typing import Final, NoReturn, TypeVar, cast
from urllib.parse import urlsplit

import httpx
from pydantic import BaseModel, ValidationError

from scouter.client.call import Call, Request
from scouter.client.environment import DEFAULT_URL, TOKEN_VARIABLE, URL_VARIABLE, named_url
from scouter.client.errors import ApiError, BusyError
from scouter.errors import ConfigError, DataError, TransientError
from scouter.transport.config import HttpConfig

_BUSY: Final = frozenset({429, 502, 503, 504})
_SHOWN: Final = 500
MOST_BYTES: Final = 256 * 2**20
"""Of one answer of a collector, once unpacked; the parts of an export are far smaller."""
ANSWER_S: Final = 900.0
"""Longest time for one request and its whole answer, whatever the next part may take."""
_CONTINUED: Final = 3
"""Times as many deliveries of a request behind others: about a minute with the usual pauses."""

T = TypeVar("T", bound=BaseModel)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Rule for sending a request again after a temporary failure.

    Args:
        tries: Most deliveries of one request, at least 1.
        first_pause_s: Seconds before the second delivery; each later pause is twice as long.
        longest_pause_s: Longest pause in seconds. If a collector asks for a longer one
            (Retry-After), the request is not sent again.
    """

    tries: int = 4
    first_pause_s: float = 0.25
    longest_pause_s: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Address of a collector, and the caller's means to reach it.

    Args:
        url: Base address of the collector.
        token: Bearer token; never shown.
        timeout_s: Longest wait for the next part of an answer, in seconds.
        retry: Rules for sending a request again.
    """

    url: str
    token: str | None = field(repr=False)
    timeout_s: float
    retry: Retry

    @classmethod
    def to(
        cls,
        url: str | HttpConfig | None,
        token: str | None,
        timeout_s: float,
        retry: Retry,
        config: HttpConfig | None = None,
    ) -> "Connection":
        """Take what was not given from the environment.

        Raises:
            ConfigError: The address or the token cannot be one.
        """
        url, token = _address(url, token, config)
        url = (url or named_url(os.environ) or DEFAULT_URL).rstrip("/")
        token = token or os.environ.get(TOKEN_VARIABLE, "").strip() or None
        _check_url(url)
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
            raise ConfigError("the token has letters that no token has; was all of it copied?")
        return cls(url=url, token=token, timeout_s=timeout_s, retry=retry)

    @property
    def headers(self) -> dict[str, str]:
        """Sent with every request."""
        sent = {"User-Agent": "scouter-client", "Accept": "application/json"}
        if self.token is not None:
            sent["Authorization"] = f"Bearer {self.token}"
        return sent

    def timeout(self, request: Request) -> httpx.Timeout:
        """Longest wait for each part of an answer; some requests take longer than others."""
        return httpx.Timeout(self.timeout_s, read=max(self.timeout_s, request.takes_s))

    def where(self, request: Request) -> str:
        """The request in words."""
        return f"{request.method} {self.url}{request.url_path}"

    def pause_after_error(
        self, request: Request, tried: int, error: httpx.HTTPError | httpx.InvalidURL
    ) -> float:
        """Seconds until the next try, after one that got no answer.

        Raises:
            TransientError: There is no next try.
            ConfigError: The address can never work.
        """
        if isinstance(error, httpx.InvalidURL | httpx.UnsupportedProtocol):
            raise ConfigError(f"{self.where(request)}: {error}; check the address") from error
        was_sent = not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        if tried >= self._tries(request) or (was_sent and not request.is_repeatable):
            begun = isinstance(error, httpx.RemoteProtocolError | httpx.ReadError)
            advice = (
                "the answer was cut off each time"
                if begun
                else f"does a collector listen there? The address is the option `url` or the "
                f"environment's {URL_VARIABLE}"
            )
            raise TransientError(
                f"{self.where(request)}: {type(error).__name__}: {error}; {advice}"
            ) from error
        return self._pause(tried)

    def pause_after_answer(self, request: Request, tried: int, answer: httpx.Response) -> float:
        """Seconds until the next try, after an answer that was no success.

        Args:
            request: The request.
            tried: Number of tries, this one included.
            answer: The answer, read to its end.

        Raises:
            ApiError: There is no next try.
        """
        status, detail, where = answer.status_code, _detail(answer), self.where(request)
        if status not in _BUSY:
            raise ApiError(status, detail, where)
        from scouter.transport.http_client import retry_after_s

        wanted = retry_after_s(answer.headers.get("Retry-After"))
        # 429 refuses a request before anything is done; of the others nobody knows.
        may_repeat = request.is_repeatable or status == 429
        is_too_long = wanted is not None and wanted > self.retry.longest_pause_s
        if tried >= self._tries(request) or is_too_long or not may_repeat:
            raise BusyError(status, detail, where, wanted)
        return self._pause(tried) if wanted is None else wanted

    def read(self, call: Call[T], answer: httpx.Response) -> T:
        """Read an answer that is a success.

        Raises:
            DataError: It is not what the route answers with.
        """
        try:
            return call.model.model_validate_json(answer.content)
        except ValidationError as error:
            self._not_understood(call.request, error)

    def _not_understood(self, request: Request, error: ValidationError) -> NoReturn:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"])) or "the whole"
        raise DataError(
            f"{self.where(request)}: the answer is not understood: {place}: {first['msg']}; is "
            "this a Scouter collector, and as new as this client?"
        ) from error

    def _tries(self, request: Request) -> int:
        tries = self.retry.tries
        return tries * _CONTINUED if request.is_continued and tries > 1 else tries

    def _pause(self, tried: int) -> float:
        longest = self.retry.first_pause_s * 2 ** (tried - 1)
        # Clients that were refused together do not come back together.
        return min(longest, self.retry.longest_pause_s) * random.uniform(0.5, 1)  # noqa: S311


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
