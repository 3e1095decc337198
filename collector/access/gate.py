"""The gate: the one place that looks at tokens, for HTTP and gRPC alike."""

import ipaddress
import math
import re
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from functools import lru_cache
from http import HTTPStatus
from typing import Final
from urllib.parse import urlsplit

from fastapi.security import HTTPBearer
from starlette.types import ASGIApp, Receive, Scope, Send

from collector.access.caller import ALL_SCOPES, CALLER, Caller
from collector.access.tokens import Token, Tokens
from collector.problem import ProblemError, problem_response
from scouter.errors import TransientError

BEARER: Final = HTTPBearer(
    auto_error=False,
    description="A token made by `scouter token create`; none is required until there is one.",
)
"""Shows in the OpenAPI document how a token is sent."""
_KEYS: Final = 10_000
"""That are remembered; the one used longest ago is forgotten first, which lets it begin anew."""


class RateLimit:
    """A bucket of tokens for each key (a "token bucket", as in RFC 2697); any thread.

    Args:
        per_s: Calls per second in the long run.
        burst: Calls at once.
        clock: Monotonic seconds.
    """

    def __init__(self, per_s: float, burst: float, clock: Callable[[], float]) -> None:
        self._per_s, self._burst, self._clock = per_s, burst, clock
        self._lock = threading.Lock()
        self._levels: OrderedDict[Hashable, tuple[float, float]] = OrderedDict()

    def take(self, key: Hashable) -> float:
        """Do it once, if the key may.

        Returns:
            0 if it may; else the seconds until it may, and nothing was taken.
        """
        with self._lock:
            level, now = self._level(key)
            if level < 1:
                return (1 - level) / self._per_s
            self._levels[key] = level - 1, now
            self._levels.move_to_end(key)
            if len(self._levels) > _KEYS:
                self._levels.popitem(last=False)
            return 0.0

    def _level(self, key: Hashable) -> tuple[float, float]:
        now = self._clock()
        level, at = self._levels.get(key, (self._burst, now))
        return min(self._burst, level + (now - at) * self._per_s), now


class KnownAddresses:
    """Addresses whose callers were let in, the newest 10,000 of them; any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._addresses: OrderedDict[str, None] = OrderedDict()

    def add(self, address: str) -> None:
        """A caller was let in from there."""
        with self._lock:
            self._addresses[address] = None
            self._addresses.move_to_end(address)
            if len(self._addresses) > _KEYS:
                self._addresses.popitem(last=False)

    def __contains__(self, address: str) -> bool:
        with self._lock:
            return address in self._addresses


OF_PROXIES: Final = frozenset(
    (
        "forwarded",
        "via",
        "x-forwarded-for",
        "x-forwarded-host",
        "x-forwarded-proto",
        "x-real-ip",
    )
)
"""Headers, in small letters: any of them says that a proxy passes a request on."""
_HOST: Final = re.compile(
    r"([A-Za-z0-9._-]{1,255}|\[(?P<ipv6>[0-9A-Fa-f:.]{2,45})\])(:[0-9]{0,5})?"
)
"""A Host header: HOST or HOST:PORT. Nothing that `urlsplit` takes besides is one: in
`evil.example@localhost` it reads a user's name."""
_FAILURES: Final = 10
"""Requests without a valid token at once from one address; then one in six seconds."""
_FAILURES_PER_S: Final = 1 / 6


class Gate:
    """Lets callers in.

    Until the first token is made, anybody is, but only from this machine: where the collector
    listens on loopback only, the sender's address is one of loopback, no proxy says that it passes
    the request on, and it is meant for this machine. A page of some other site that a browser on
    this machine shows may send requests here, under the name of that site ("DNS rebinding") or from
    it; it is refused by the headers that browsers add. Once there was a token, nothing opens the
    gate again.

    Args:
        tokens: The tokens.
        space: The space of those who are let in without a token.
        requests_per_s: That one token may send from one address; bursts of two seconds' worth.
        is_reachable: True if other machines can reach the collector: nobody is let in without a
            token then, even if there is none.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        tokens: Tokens,
        space: str,
        *,
        requests_per_s: float,
        is_reachable: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens, self._space, self._is_reachable = tokens, space, is_reachable
        self._open: Final = Caller(space=space, scopes=ALL_SCOPES)
        self._requests = RateLimit(requests_per_s, 2 * requests_per_s, clock)
        self._failures = RateLimit(_FAILURES_PER_S, _FAILURES, clock)
        self.known: Final = KnownAddresses()

    @property
    def space(self) -> str:
        """The collector's own space."""
        return self._space

    @property
    def tokens(self) -> Tokens:
        """The tokens that let callers in."""
        return self._tokens

    def spaces(self) -> frozenset[str]:
        """Every space that somebody may write to."""
        return self._tokens.spaces() | {self._space}

    def caller(
        self,
        authorization: str | None,
        address: str,
        *,
        is_forwarded: bool = False,
        is_probe: bool = False,
    ) -> Caller:
        """Say who sends a request.

        Args:
            authorization: The header of that name.
            address: Of the sender.
            is_forwarded: True if a header is one `OF_PROXIES`.
            is_probe: True if everybody is answered there, so that to come without a token is no
                attempt to get in.

        Raises:
            ProblemError: 401 without a valid token; while there is none, 403 from elsewhere or by a
                proxy; 429 after too many, 503 where none can be read.
        """
        if self._is_open():
            if is_forwarded:
                raise ProblemError(
                    403,
                    "what a proxy passes on needs a token, whoever sent it; see `scouter token`",
                )
            if not _is_loopback_address(address):
                raise ProblemError(
                    403, "without a token, only this machine is answered; see `scouter token`"
                )
            self._slow_down(("", address))
            self.known.add(address)
            return self._open
        token = None if authorization is None else self._token(authorization)
        if token is not None:
            self._slow_down((token.id, address))
            self.known.add(address)
            return Caller(space=token.space, scopes=token.scopes, token_id=token.id)
        # Nobody guesses 256 bits; but who tries must not keep the others of the address out.
        is_attempt = authorization is not None or not is_probe
        if is_attempt and (wait_s := self._failures.take(address)):
            raise _too_many("requests without a valid token", wait_s)
        detail = (
            "send a token: `Authorization: Bearer sct_…`"
            if authorization is None
            else "this token is unknown, expired or revoked"
        )
        raise ProblemError(401, detail, headers={"WWW-Authenticate": "Bearer"})

    def check_headers(self, host: str | None, origin: str | None) -> None:
        """Refuse a request that a page of another site makes a browser send, or another machine.

        Args:
            host: The header of that name.
            origin: The header of that name, which browsers add to what a page sends.

        Raises:
            ProblemError: 400 if the Host is no HOST or HOST:PORT, 421 if it is meant for another
                host, 403 if it comes from another site.
        """
        if host and _HOST.fullmatch(host) is None:
            raise ProblemError(400, f"the Host header {host[:100]!r} is no HOST or HOST:PORT")
        if origin is not None and _netloc(origin) != (host or "").lower():
            raise ProblemError(403, "requests of other sites' pages are refused")
        if self._is_open() and not _is_loopback(host or ""):
            raise ProblemError(
                421,
                f"the Host header names {(host or '')[:100]!r}: without a token, only this machine "
                "under a name of its own (such as localhost) is answered",
            )

    def _is_open(self) -> bool:
        """Say whether somebody of this machine needs no token.

        Raises:
            ProblemError: 503, it cannot be read whether there is one.
        """
        if self._is_reachable:
            return False
        try:
            return not self._tokens.has_any()
        except TransientError as error:
            raise _unreadable(error) from error

    def _token(self, authorization: str) -> Token | None:
        kind, _, text = authorization.partition(" ")
        if kind.lower() != "bearer":
            return None
        try:
            return self._tokens.find(text.strip())
        except TransientError as error:
            raise _unreadable(error) from error

    def _slow_down(self, key: tuple[str, str]) -> None:
        if wait_s := self._requests.take(key):
            raise _too_many("requests", wait_s)


def _unreadable(error: TransientError) -> ProblemError:
    return ProblemError(503, error.message, 1)


def _too_many(what: str, wait_s: float) -> ProblemError:
    return ProblemError(429, f"too many {what}; come back later", math.ceil(wait_s))


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc.lower()
    except ValueError:
        return None


@lru_cache(maxsize=256)
def _is_loopback(host: str) -> bool:
    """Say whether a Host header names this machine, as itself only."""
    match = _HOST.fullmatch(host)
    if match is None:
        return False
    name = match[1].lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    return _is_loopback_address(match["ipv6"] or name)


@lru_cache(maxsize=256)
def _is_loopback_address(address: str) -> bool:
    """Say whether an IP address is this machine's own."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return False
    if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
        return found.ipv4_mapped.is_loopback  # as a socket for both kinds has it
    return found.is_loopback


_PROBES: Final = frozenset(("/healthz", "/readyz"))
"""Supervisors ask them again and again, without a token."""
_MACHINES: Final = ("/api/", "/v1/", "/metrics", "/openapi.json")
"""Paths that programs ask, beside the probes. All others are the page's."""
_HEADERS: Final = frozenset((b"authorization", b"host", b"origin"))
_OF_PROXIES: Final = frozenset(name.encode() for name in OF_PROXIES)


def is_page(path: str) -> bool:
    """Tell whether a path belongs to the page, which people open without a token and then sign in.

    The others take a token in a header only, so that no site can use a browser's session there.
    """
    return path not in _PROBES and not path.startswith(_MACHINES)


class AccessFront:
    """ASGI middleware that leaves the caller, or why there is none, in the request.

    It only answers what is malformed: some routes are open to everybody, and each has its own form
    of a refusal.

    Args:
        app: Serves the request.
        gate: Lets callers in.
    """

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, as ASGI has it."""
        if scope["type"] == "http":
            found = [
                (name, value.decode("latin-1").strip(" \t"))  # the parser in C leaves blanks
                for name, value in scope["headers"]
                if name in _HEADERS
            ]
            headers = dict(found)
            client = scope.get("client")
            try:
                if len(headers) < len(found):  # a proxy in front may go by the other one
                    raise ProblemError(400, "Host, Origin or Authorization is there twice")
                self._gate.check_headers(headers.get(b"host"), headers.get(b"origin"))
                scope[CALLER] = self._gate.caller(
                    headers.get(b"authorization"),
                    client[0] if client else "",
                    is_forwarded=not _OF_PROXIES.isdisjoint(name for name, _ in scope["headers"]),
                    is_probe=scope["path"] in _PROBES or is_page(scope["path"]),
                )
            except ProblemError as error:
                if error.status == HTTPStatus.BAD_REQUEST:
                    await problem_response(error.status, error.detail)(scope, receive, send)
                    return
                scope[CALLER] = error
        await self._app(scope, receive, send)
