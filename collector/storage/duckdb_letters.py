"""Dead letters in the DuckDB store: listed, and taken out once they were replayed."""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Final

from collector.storage.database import Database, run
from collector.storage.letter_rows import (
    DeadLetter,
    LetterKind,
    LetterQuery,
    LettersRemoved,
    StoredLetter,
)
from collector.storage.transaction import FEW_DELETES, Transaction, one_of

_COLUMNS: Final = (
    "seq", "letter_id", "space", "kind", "reason", "message", "source", "payload", "uid",
    "received_ns", "was_accepted",
)  # fmt: skip


def read_letters(database: Database, query: LetterQuery) -> list[StoredLetter]:
    """Dead letters, newest first."""
    where, given = ["space = ?"], [query.space]
    filters: list[tuple[str, object]] = [
        ("reason = ?", query.reason),
        ("kind = ?", query.kind and query.kind.value),
        ("letter_id = ?", query.letter_id),
        ("uid = ?", query.uid),
        ("was_accepted = ?", query.was_accepted),
    ]
    parameters: list[object] = list(given)
    for condition, value in filters:
        if value is not None:
            where.append(condition)
            parameters.append(value)
    if query.before is not None:
        where.append("(seq, letter_id) < (?, ?)")
        parameters.extend(query.before)
    rows = database.read(
        f"SELECT {', '.join(_COLUMNS)} FROM dead_letters WHERE {' AND '.join(where)}"  # noqa: S608 our own words
        " ORDER BY seq DESC, letter_id DESC LIMIT ?",
        [*parameters, query.limit],
    )
    found: list[StoredLetter] = []
    for seq, letter_id, *values in rows:
        fields: dict[str, Any] = dict(zip(_COLUMNS[2:], values, strict=True))
        fields["kind"] = LetterKind(fields["kind"])
        found.append(StoredLetter(letter_id=letter_id, seq=seq, letter=DeadLetter(**fields)))
    return found


def _future() -> "Future[Any]":
    return Future()


@dataclass(slots=True, kw_only=True)
class RemoveLettersJob:
    """Letters to be taken out."""

    database: Database
    space: str
    letter_ids: Sequence[str]
    future: "Future[Any]" = field(default_factory=_future)

    @property
    def size(self) -> int:
        """Number of letters."""
        return len(self.letter_ids)

    def apply(self, tx: Transaction) -> LettersRemoved:
        """Delete what is there, in the writer thread's open transaction."""
        removed: list[Any] = []
        if len(self.letter_ids) > FEW_DELETES:
            self.database.make_room()
        if self.letter_ids:
            where = f"space = ? AND {one_of('letter_id', self.letter_ids)}"
            removed = run(
                self.database.connection(),
                f"DELETE FROM dead_letters WHERE {where} RETURNING letter_id",  # noqa: S608
                [self.space, *self.letter_ids],
            )
        return LettersRemoved(seq=tx.seq, letter_ids=tuple(row[0] for row in removed))
