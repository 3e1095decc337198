"""The port of tokens: what is the same wherever they are kept."""

import base64
import hashlib
import hmac
import re
import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from collector.access.caller import Scope
from collector.settings.values import parse_space
from scouter.errors import ConfigError

_PREFIX: Final = "sct"
_TOKEN: Final = re.compile(rf"{_PREFIX}_([0-9a-f]{{12}})_([A-Za-z0-9_-]{{43}})")
_TOO_LATE_NS: Final = 2**63
"""Does not fit into a column of 64 bits: 2262-04-11."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """Stored description of a token; the secret is not stored."""

    id: str
    name: str
    scopes: frozenset[Scope]
    space: str
    created_ns: int
    expires_ns: int | None
    revoked_ns: int | None
    secret_hash: bytes

    def is_valid(self, now_ns: int) -> bool:
        """Say whether it still lets anybody in."""
        return self.revoked_ns is None and (self.expires_ns is None or now_ns < self.expires_ns)


class Tokens(ABC):
    """All tokens of one place; any thread, and several processes at a time.

    A secret has 256 random bits, so that its SHA-256 is as good as a slow hash of a password. What
    another process changes is followed within half a second.

    Args:
        now_ns: Wall clock.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns

    def create(
        self, name: str, scopes: Iterable[Scope], space: str, expires_ns: int | None = None
    ) -> tuple[Token, str]:
        """Make a token.

        Args:
            name: Name of the person or program that gets the token.
            scopes: Rights of the bearer.
            space: The only space that the bearer sees and writes to.
            expires_ns: End of the token, in nanoseconds since the epoch; None for never.

        Returns:
            The token and its text, which is shown once and never kept.

        Raises:
            ConfigError: No scope was given, the space can be none, the end is over or too far off,
                or nothing can be kept there at all.
            TransientError: It cannot be kept now.
        """
        wanted, created_ns = frozenset(scopes), self._now_ns()
        if not wanted:
            raise ConfigError(f"a token needs a scope: {', '.join(Scope)}")
        try:
            parse_space(space)
        except ValueError as error:
            raise ConfigError(f"--space: {error}") from error
        if expires_ns is not None and not created_ns < expires_ns < _TOO_LATE_NS:
            raise ConfigError(
                "--expires: a token ends after it is made and before the year 2262; without "
                "--expires it never does"
            )
        secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        token = Token(
            id=secrets.token_hex(6),
            name=name,
            scopes=wanted,
            space=space,
            created_ns=created_ns,
            expires_ns=expires_ns,
            revoked_ns=None,
            secret_hash=_hash(secret),
        )
        self._add(token)
        return token, f"{_PREFIX}_{token.id}_{secret}"

    def find(self, text: str) -> Token | None:
        """The token with this text, if it still lets anybody in.

        Raises:
            TransientError: The tokens cannot be read now.
        """
        match = _TOKEN.fullmatch(text)
        token = self._tokens().get(match[1]) if match else None
        if token is None or match is None:
            return None
        is_right = hmac.compare_digest(_hash(match[2]), token.secret_hash)
        return token if is_right and token.is_valid(self._now_ns()) else None

    def spaces(self) -> frozenset[str]:
        """The spaces of all tokens."""
        return frozenset(each.space for each in self._tokens().values())

    @abstractmethod
    def revoke(self, token_id: str) -> bool:
        """End a token; running collectors follow within half a second.

        Returns:
            False if there is no such token, or it was revoked before.

        Raises:
            TransientError: It cannot be written now.
        """

    @abstractmethod
    def all(self) -> list[Token]:
        """Every token that was ever made, oldest first.

        Raises:
            TransientError: The tokens cannot be read now.
        """

    @abstractmethod
    def has_any(self) -> bool:
        """Say whether a token was ever made: from then on, one is asked for.

        True to the end once it was, whatever becomes of the tokens and of their place.

        Raises:
            TransientError: The tokens cannot be read now.
        """

    @abstractmethod
    def _tokens(self) -> Mapping[str, Token]:
        """Tokens by their ids; they may be a moment old.

        Raises:
            TransientError: The tokens cannot be read now.
        """

    @abstractmethod
    def _add(self, token: Token) -> None:
        """Keep a new token."""


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()
