"""The tokens of a fleet, in its PostgreSQL."""

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

from collector.access.tokens import Token, Tokens, token_of
from collector.fleet.database import Session, open_beside
from scouter.errors import ScouterError, TransientError

_log: Final = logging.getLogger(__name__)
_FOLLOW_S: Final = 0.4
"""Between two looks at the table: with the look itself, a change is followed in half a second."""


class FleetTokens(Tokens):
    """All tokens of a fleet.

    Whoever asks is answered at once from what is known. A thread follows the table; while it cannot
    be read, what is known stays good, however long that takes: a token ends then at its own end
    alone, as nobody can revoke one either. A process that could never read them lets nobody in.

    Args:
        session: A connection to the database; best one of its own.
        now_ns: Wall clock.
    """

    def __init__(self, session: Session, now_ns: Callable[[], int] = time.time_ns) -> None:
        super().__init__(now_ns)
        self._session = session
        self._known: Mapping[str, Token] | None = None
        self._stamp: object = None
        self._had_any = False
        self.where: Final = f"PostgreSQL at {session.address}"
        """Their place, for people."""
        self.fault = ""
        """Reason that the tokens cannot be read now; empty if they can."""
        self._looking = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scouter-tokens", daemon=True)
        self.look()

    def start(self) -> None:
        """Begin to follow what other processes change."""
        self._thread.start()

    def close(self) -> None:
        """End following, and close the connection."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
        self._session.drop()

    def look(self) -> None:
        """Take over what is in the table now; without a database, what is known stays."""
        with self._looking:
            try:
                self._session.run(self._read)
            except ScouterError as error:
                if not self.fault:
                    _log.warning(
                        "tokens cannot be read; %s: %s",
                        "those that are known stay good" if self._had_any else "none is known",
                        error,
                    )
                self.fault = str(error)
                return
            if self.fault:
                _log.info("tokens are read again")
            self.fault = ""

    def revoke(self, token_id: str) -> bool:
        """End a token."""
        now_ns = self._now_ns()

        # The second half of the condition is for one who does it again after a loss.
        sql = (
            "UPDATE access_tokens SET revoked_ns = $2 "
            "WHERE id = $1 AND (revoked_ns IS NULL OR revoked_ns = $2) RETURNING id"
        )
        return bool(self._session.run(lambda each: each.read(sql, [token_id, now_ns])))

    def all(self) -> list[Token]:
        """Every token that was ever made, oldest first."""
        found = self._session.run(_rows)
        return sorted(found.values(), key=lambda each: each.created_ns)

    def take_over(self, tokens: Iterable[Token]) -> None:
        """Add tokens of another place as they are; those that are known stay.

        Raises:
            TransientError: They cannot be stored now; some may be.
        """
        for each in tokens:
            self._add(each)

    def has_any(self) -> bool:
        """Say whether a token was ever made."""
        self._tokens()
        return self._had_any

    def _tokens(self) -> Mapping[str, Token]:
        known = self._known
        # That there are none does not stay good: while it cannot be read, somebody may have made
        # the first one.
        if known is None or (self.fault and not self._had_any):
            raise TransientError("tokens cannot be read now", 1)
        return known

    def _add(self, token: Token) -> None:
        sql = (
            "INSERT INTO access_tokens VALUES ($1, $2, $3, $4, $5, $6, $7, $8) "
            "ON CONFLICT (id) DO NOTHING"
        )
        row = (
            token.id, token.name, token.secret_hash, " ".join(sorted(token.scopes)), token.space,
            token.created_ns, token.expires_ns, token.revoked_ns,
        )  # fmt: skip
        self._session.run(lambda each: each.read(sql, row))

    def _read(self, session: Session) -> None:
        """Read the rows, if they have changed: they come and are revoked, and never go."""
        sql = "SELECT count(*), count(revoked_ns), max(created_ns) FROM access_tokens"
        stamp = session.read(sql)
        if self._known is not None and stamp == self._stamp:
            return
        known = _rows(session)
        self._had_any = self._had_any or bool(known)
        self._known, self._stamp = known, stamp

    def _run(self) -> None:
        while not self._stopping.wait(_FOLLOW_S):
            try:
                self.look()
            except Exception as error:  # noqa: BLE001 the thread outlives any fault
                self.fault = repr(error)
                _log.exception("a fault while tokens are read; it is tried again")


def open_tokens(url: str, password: str | None = None) -> FleetTokens:
    """Open the tokens of a database, on a connection of their own.

    Args:
        url: Of the database.
        password: Of its user, if it is not in the URL.

    Raises:
        ConfigError: The URL is none.
    """
    return FleetTokens(open_beside(url, password))


def _rows(session: Session) -> dict[str, Token]:
    rows = session.read(
        "SELECT id, name, secret_hash, scopes, space, created_ns, expires_ns, revoked_ns "
        "FROM access_tokens"
    )
    return {row[0]: token_of(row) for row in rows}
