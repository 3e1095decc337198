"""The tokens of a data folder, in a file of their own that a running collector follows."""

import base64
import hashlib
import hmac
import re
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from collector.access.caller import Scope
from scouter.errors import ConfigError, TransientError

FILE_NAME: Final = "access.db"
"""Name of the file inside a data folder."""
_PREFIX: Final = "sct"
_TOKEN: Final = re.compile(rf"{_PREFIX}_([0-9a-f]{{12}})_([A-Za-z0-9_-]{{43}})")
_FOLLOW_S: Final = 0.5
_BUSY_S: Final = 5.0
_READ_BUSY_S: Final = 0.05
"""Requests wait for a look at the file."""
_STALE_S: Final = 10.0
"""While the file cannot be read, what it held is good for so long."""
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS tokens (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, secret_hash BLOB NOT NULL, scopes TEXT NOT NULL,
        space TEXT NOT NULL, created_ns INTEGER NOT NULL, expires_ns INTEGER, revoked_ns INTEGER
    )
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """What is kept of a token; the secret is not."""

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


class TokenFile:
    """All tokens of a data folder; any thread, and several processes at a time.

    A secret has 256 random bits, so that its SHA-256 is as good as a slow hash of a password.

    Args:
        folder: The data folder; made if it is not there.
        now_ns: Wall clock.
        clock: Monotonic seconds.

    Raises:
        ConfigError: The file cannot be used.
    """

    def __init__(
        self,
        folder: Path,
        now_ns: Callable[[], int] = time.time_ns,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path, self._now_ns, self._clock = folder / FILE_NAME, now_ns, clock
        self._lock = threading.Lock()
        self._known: Mapping[str, Token] = {}
        self._stamp: tuple[int, int, int] | None = None
        self._looked_at = self._read_at = clock() - _FOLLOW_S
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            with self._open() as connection:
                connection.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise ConfigError(f"cannot use the tokens in {self._path}: {error}") from error

    def create(
        self, name: str, scopes: Iterable[Scope], space: str, expires_ns: int | None = None
    ) -> tuple[Token, str]:
        """Make a token.

        Args:
            name: Whom or what it is for.
            scopes: What it lets its bearer do.
            space: The only space that they see and write to.
            expires_ns: When it ends, in nanoseconds since the epoch; None for never.

        Returns:
            The token and its text, which is shown once and never kept.

        Raises:
            ConfigError: No scope was given.
            TransientError: The file cannot be written now.
        """
        wanted = frozenset(scopes)
        if not wanted:
            raise ConfigError(f"a token needs a scope: {', '.join(Scope)}")
        if not (0 < len(space) <= 128 and space.isprintable()):
            raise ConfigError("a token's space has 1 to 128 printable characters")
        secret = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode().rstrip("=")
        token = Token(
            id=secrets.token_hex(6),
            name=name,
            scopes=wanted,
            space=space,
            created_ns=self._now_ns(),
            expires_ns=expires_ns,
            revoked_ns=None,
            secret_hash=_hash(secret),
        )
        self._write(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
            (
                token.id, name, token.secret_hash, " ".join(sorted(wanted)), space,
                token.created_ns, expires_ns,
            ),
        )  # fmt: skip
        return token, f"{_PREFIX}_{token.id}_{secret}"

    def revoke(self, token_id: str) -> bool:
        """End a token; running collectors follow within half a second.

        Returns:
            False if there is no such token, or it was revoked before.

        Raises:
            TransientError: The file cannot be written now.
        """
        return bool(
            self._write(
                "UPDATE tokens SET revoked_ns = ? WHERE id = ? AND revoked_ns IS NULL",
                (self._now_ns(), token_id),
            )
        )

    def all(self) -> list[Token]:
        """Every token that was ever made, oldest first.

        Raises:
            TransientError: The file cannot be read now.
        """
        return sorted(self._tokens(0.0).values(), key=lambda each: each.created_ns)

    def has_any(self) -> bool:
        """Say whether a token was ever made: from then on, one is asked for."""
        return bool(self._tokens())

    def spaces(self) -> frozenset[str]:
        """The spaces of all tokens."""
        return frozenset(each.space for each in self._tokens().values())

    def find(self, text: str) -> Token | None:
        """The token with this text, if it still lets anybody in.

        Raises:
            TransientError: The file cannot be read now.
        """
        match = _TOKEN.fullmatch(text)
        token = self._tokens().get(match[1]) if match else None
        if token is None or match is None:
            return None
        is_right = hmac.compare_digest(_hash(match[2]), token.secret_hash)
        return token if is_right and token.is_valid(self._now_ns()) else None

    def copy_to(self, folder: Path) -> None:
        """Copy the file as it is now into another data folder.

        Raises:
            TransientError: It cannot be read or written now.
        """
        target = folder / FILE_NAME
        try:
            target.touch(mode=0o600)
            with self._open() as source, closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
        except (OSError, sqlite3.Error) as error:
            raise TransientError(f"tokens cannot be copied into {target}: {error}") from error

    def _tokens(self, follow_s: float = _FOLLOW_S) -> Mapping[str, Token]:
        """What the file holds, or held a moment ago."""
        now = self._clock()
        if now < self._looked_at + follow_s:
            return self._known
        with self._lock:
            try:
                found = self._path.stat()
                stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
                if stamp != self._stamp:
                    with self._open(_READ_BUSY_S) as connection:
                        rows = connection.execute("SELECT * FROM tokens").fetchall()
                    self._known = {row[0]: _token(row) for row in rows}
                    self._stamp = stamp
                self._read_at = now
            except (OSError, sqlite3.Error) as error:
                if self._stamp is None or now >= self._read_at + _STALE_S:
                    raise TransientError(f"tokens cannot be read: {error}", 1) from error
            self._looked_at = now
            return self._known

    def _write(self, sql: str, parameters: tuple[object, ...]) -> int:
        try:
            with self._open() as connection, connection:
                return connection.execute(sql, parameters).rowcount
        except sqlite3.Error as error:
            raise TransientError(f"cannot write {self._path}: {error}") from error

    def _open(self, timeout_s: float = _BUSY_S) -> "closing[sqlite3.Connection]":
        return closing(sqlite3.connect(self._path, timeout=timeout_s))


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _token(row: tuple[str, str, bytes, str, str, int, int | None, int | None]) -> Token:
    id, name, secret_hash, scopes, space, created_ns, expires_ns, revoked_ns = row
    return Token(
        id=id,
        name=name,
        scopes=frozenset(Scope(each) for each in scopes.split()),
        space=space,
        created_ns=created_ns,
        expires_ns=expires_ns,
        revoked_ns=revoked_ns,
        secret_hash=secret_hash,
    )
