"""Who is let in: the one place that looks at tokens, for HTTP and gRPC alike."""

import ipaddress
import math
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Final
from urllib.parse import urlsplit

from collector.access.caller import ALL_SCOPES, Caller
from collector.access.rate import RateLimit
from collector.access.tokens import TokenFile
from collector.problem import ProblemError
from scouter.errors import TransientError

_FAILURES: Final = 10
"""Wrong tokens at once from one address; then one in six seconds."""
_FAILURES_PER_S: Final = 1 / 6


class Gate:
    """Lets callers in.

    Until the first token is made, anybody is, but only from this machine: the collector listens
    on loopback only then, and a request has to be meant for it. A page of some other site that a
    browser on this machine shows may send requests here, under the name of that site ("DNS
    rebinding") or from it; it is refused by the headers that browsers add.

    Args:
        tokens: The tokens.
        space: The space of those who are let in without a token.
        requests_per_s: That one token may send from one address; bursts of two seconds' worth.
        clock: Monotonic seconds.
    """

    def __init__(
        self,
        tokens: TokenFile,
        space: str,
        *,
        requests_per_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._tokens, self._space = tokens, space
        self._open: Final = Caller(space=space, scopes=ALL_SCOPES)
        self._requests = RateLimit(requests_per_s, 2 * requests_per_s, clock)
        self._failures = RateLimit(_FAILURES_PER_S, _FAILURES, clock)

    @property
    def space(self) -> str:
        """The collector's own space."""
        return self._space

    def spaces(self) -> frozenset[str]:
        """Every space that somebody may write to."""
        return self._tokens.spaces() | {self._space}

    def caller(self, authorization: str | None, address: str) -> Caller:
        """Say who sends a request.

        Args:
            authorization: The header of that name.
            address: Of the sender.

        Raises:
            ProblemError: 401 without a valid token, 429 after too many, 503 where none can be read.
        """
        try:
            if not self._tokens.has_any():
                self._slow_down(("", address))
                return self._open
            if authorization is None:
                raise _no_token("send a token: `Authorization: Bearer sct_…`")
            kind, _, text = authorization.partition(" ")
            token = self._tokens.find(text.strip()) if kind.lower() == "bearer" else None
        except TransientError as error:
            raise ProblemError(503, error.message, 1) from error
        if token is None:
            # Nobody guesses 256 bits; but who tries must not keep the others of the address out.
            if wait_s := self._failures.take(address):
                raise _too_many("wrong tokens", wait_s)
            raise _no_token("this token is unknown, expired or revoked")
        self._slow_down((token.id, address))
        return Caller(space=token.space, scopes=token.scopes, token_id=token.id)

    def check_headers(self, host: str | None, origin: str | None) -> None:
        """Refuse a request that a page of another site makes a browser send.

        Args:
            host: The header of that name.
            origin: The header of that name, which browsers add to what a page sends.

        Raises:
            ProblemError: 421 if it is meant for another host, 403 if it comes from another site.
        """
        if origin is not None and _netloc(origin) != (host or "").lower():
            raise ProblemError(403, "requests of other sites' pages are refused")
        try:
            is_open = not self._tokens.has_any()
        except TransientError as error:
            raise ProblemError(503, error.message, 1) from error
        if is_open and not _is_loopback(host or ""):
            raise ProblemError(
                421,
                f"the Host header names {(host or '')[:100]!r}: without a token, only this machine "
                "under a name of its own (such as localhost) is answered",
            )

    def _slow_down(self, key: tuple[str, str]) -> None:
        if wait_s := self._requests.take(key):
            raise _too_many("requests", wait_s)


def _no_token(detail: str) -> ProblemError:
    return ProblemError(401, detail, headers={"WWW-Authenticate": "Bearer"})


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
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        return False
    if name is None:
        return False
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
