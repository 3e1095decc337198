"""The port of tokens: what is the same wherever they are stored."""

import base64
import hashlib
import hmac
import logging
import re
import secrets
import sqlite3
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from collector.access.caller import Scope
from collector.settings.values import parse_space
from scouter.errors import ConfigError, TransientError

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
            The token and its text, which is shown once and never stored.

        Raises:
            ConfigError: No scope was given, the space can be none, the end is over or too far off,
                or nothing can be stored there at all.
            TransientError: It cannot be stored now.
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
        """Say whether a token was ever made: from then on, one is required.

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


_log: Final = logging.getLogger(__name__)
FILE_NAME: Final = "access.db"
"""Name of the file inside a data folder."""
_FOLLOW_S: Final = 0.5
_BUSY_S: Final = 5.0
_READ_BUSY_S: Final = 0.05
"""Requests wait for a look at the file."""
_STALE_S: Final = 10.0
"""While the file cannot be read, the tokens that it had are good for so long."""
_UNREADABLE: Final = (OSError, sqlite3.Error, ValueError)
"""Errors of reading the file; ValueError is raised for rows that are not tokens."""
_SCHEMA: Final = """
    CREATE TABLE IF NOT EXISTS tokens (
        id TEXT PRIMARY KEY, name TEXT NOT NULL, secret_hash BLOB NOT NULL, scopes TEXT NOT NULL,
        space TEXT NOT NULL, created_ns INTEGER NOT NULL, expires_ns INTEGER, revoked_ns INTEGER
    )
"""


class TokenFile(Tokens):
    """All tokens of a data folder.

    The file is made with the first token; who only reads makes and writes nothing.

    Args:
        folder: The data folder; made with the first token if it is not there.
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
        super().__init__(now_ns)
        self._path, self._clock = folder / FILE_NAME, clock
        self._lock = threading.Lock()
        self._known: Mapping[str, Token] = {}
        self._had_any = False
        self._stamp: tuple[int, int, int] | None = None
        self._fault = ""
        try:
            self._read(_BUSY_S)
        except _UNREADABLE as error:
            raise self._unusable(error) from error
        self._looked_at = self._read_at = clock()

    def revoke(self, token_id: str) -> bool:
        """End a token."""
        if token_id not in self._tokens(0.0):
            return False
        return bool(
            self._write(
                "UPDATE tokens SET revoked_ns = ? WHERE id = ? AND revoked_ns IS NULL",
                (self._now_ns(), token_id),
            )
        )

    def all(self) -> list[Token]:
        """Every token that was ever made, oldest first."""
        return sorted(self._tokens(0.0).values(), key=lambda each: each.created_ns)

    def has_any(self) -> bool:
        """Say whether a token was ever made."""
        self._tokens()
        return self._had_any

    def copy_to(self, folder: Path) -> None:
        """Copy the file as it is now into another data folder; nothing where there never was one.

        Raises:
            TransientError: It cannot be read or written now.
        """
        if not (self._had_any or self._path.exists()):
            return
        target = folder / FILE_NAME
        try:
            target.touch(mode=0o600)
            with self._open() as source, closing(sqlite3.connect(target)) as copy:
                source.backup(copy)
        except (OSError, sqlite3.Error) as error:
            raise TransientError(f"tokens cannot be copied into {target}: {error}") from error

    def take_over(self, tokens: Iterable[Token]) -> None:
        """Add tokens of another place as they are; those that are known stay.

        Raises:
            ConfigError: The file cannot be made.
            TransientError: They cannot be written; some may be.
        """
        for each in tokens:
            self._make()
            self._write(
                "INSERT OR IGNORE INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                (
                    each.id, each.name, each.secret_hash, " ".join(sorted(each.scopes)),
                    each.space, each.created_ns, each.expires_ns, each.revoked_ns,
                ),
            )  # fmt: skip

    def _tokens(self, follow_s: float = _FOLLOW_S) -> Mapping[str, Token]:
        """Tokens of the file by their ids; they may be a moment old."""
        now = self._clock()
        if now < self._looked_at + follow_s:
            return self._known
        with self._lock:
            try:
                self._read(_READ_BUSY_S)
                self._read_at, self._fault = now, ""
            except _UNREADABLE as error:
                if self._fault != (fault := str(error)):
                    _log.warning("the tokens in %s cannot be read: %s", self._path, fault)
                    self._fault = fault
                # Tokens that were right stay so for a while. That there are none does not: a file
                # that cannot be read may have the first one.
                if not self._had_any or now >= self._read_at + _STALE_S:
                    raise TransientError("tokens cannot be read now", 1) from error
            self._looked_at = now
            return self._known

    def _read(self, busy_s: float) -> None:
        """Take over what the file holds, if it has changed."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            if self._had_any:
                raise
            self._stamp, self._known = None, {}
            return
        stamp = (found.st_mtime_ns, found.st_size, found.st_ino)
        if stamp == self._stamp:
            return
        with self._open(busy_s) as connection:
            is_there = "SELECT count(*) FROM sqlite_master WHERE name = 'tokens'"
            has_table = bool(connection.execute(is_there).fetchone()[0])
            rows = connection.execute("SELECT * FROM tokens").fetchall() if has_table else []
        self._known = {row[0]: token_of(row) for row in rows}
        self._had_any = self._had_any or bool(rows)
        self._stamp = stamp

    def _add(self, token: Token) -> None:
        self._make()
        self._write(
            "INSERT INTO tokens VALUES (?, ?, ?, ?, ?, ?, ?, NULL)",
            (
                token.id, token.name, token.secret_hash, " ".join(sorted(token.scopes)),
                token.space, token.created_ns, token.expires_ns,
            ),
        )  # fmt: skip

    def _make(self) -> None:
        """Make folder, file and table where they are not there."""
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.touch(mode=0o600)
            with self._open() as connection:
                connection.execute(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    def _write(self, sql: str, parameters: tuple[object, ...]) -> int:
        try:
            with self._open() as connection, connection:
                return connection.execute(sql, parameters).rowcount
        except sqlite3.Error as error:
            raise TransientError(f"cannot write {self._path}: {error}") from error

    def _open(self, timeout_s: float = _BUSY_S) -> "closing[sqlite3.Connection]":
        """Open the file, and make none.

        It is never opened for reading only: what a writer that was killed left half done could not
        be taken back then, and nothing be read.
        """
        address = f"{self._path.absolute().as_uri()}?mode=rw"
        return closing(sqlite3.connect(address, timeout=timeout_s, uri=True))

    def _unusable(self, error: Exception) -> ConfigError:
        return ConfigError(f"cannot use the tokens in {self._path}: {error}")


def token_of(row: tuple[Any, ...]) -> Token:
    """Read a row of the table of tokens, which has the same columns in every place."""
    id, name, secret_hash, scopes, space, created_ns, expires_ns, revoked_ns = row
    return Token(
        id=id,
        name=name,
        scopes=frozenset(Scope(each) for each in scopes.split()),
        space=space,
        created_ns=created_ns,
        expires_ns=expires_ns,
        revoked_ns=revoked_ns,
        secret_hash=bytes(secret_hash),
    )
