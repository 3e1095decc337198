"""The tokens of a data folder, in a file of their own that a running collector follows."""

import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Final

from collector.access.caller import Scope
from collector.access.port import Token, Tokens
from scouter.errors import ConfigError, TransientError

_log: Final = logging.getLogger(__name__)
FILE_NAME: Final = "access.db"
"""Name of the file inside a data folder."""
_FOLLOW_S: Final = 0.5
_BUSY_S: Final = 5.0
_READ_BUSY_S: Final = 0.05
"""Requests wait for a look at the file."""
_STALE_S: Final = 10.0
"""While the file cannot be read, the tokens that it held are good for so long."""
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
        self._known = {row[0]: _token(row) for row in rows}
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
