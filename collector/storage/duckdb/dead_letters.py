"""Dead letters in the DuckDB store: listed, and taken out once they were replayed."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

from collector.storage.duckdb.database import Database, run
from collector.storage.duckdb.job import Job
from collector.storage.duckdb.transaction import FEW_DELETES, Transaction, one_of
from collector.store.letters import (
    DeadLetter,
    LetterKind,
    LetterQuery,
    LettersRemoved,
    StoredLetter,
    few_at_a_time,
)

_COLUMNS: Final = (
    "seq", "letter_id", "space", "kind", "reason", "message", "source", "uid", "received_ns",
    "was_accepted",
)  # fmt: skip


def read_letters(database: Database, query: LetterQuery) -> list[StoredLetter]:
    """Dead letters, newest first.

    Payloads are read behind the rest, by id: the database reads as many at once as it is asked for.
    """
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
    kinds = [(row[1], LetterKind(row[3])) for row in rows]
    payloads: dict[str, tuple[int, bytes]] = {}
    for part in few_at_a_time(kinds):
        payloads |= _payloads(database, [letter_id for letter_id, _ in part], query.payload_bytes)
    found: list[StoredLetter] = []
    for seq, letter_id, *values in rows:
        if letter_id not in payloads:
            continue  # taken out meanwhile
        size, payload = payloads[letter_id]
        fields: dict[str, Any] = dict(zip(_COLUMNS[2:], values, strict=True))
        fields["kind"] = LetterKind(fields["kind"])
        letter = DeadLetter(payload=payload, **fields)
        found.append(StoredLetter(letter_id=letter_id, seq=seq, letter=letter, size_bytes=size))
    return found


def read_refused_spans(
    database: Database, space: str, trace_ids: Collection[str]
) -> dict[str, str]:
    """By trace the reason why one of its spans was refused.

    Cost: a look at the letters of spans, which are few.
    """
    rows = database.read(
        "SELECT uid, min(message) FROM dead_letters WHERE kind IN ($1, $2) AND uid <> ''"
        " AND space = $3 AND list_contains($4::VARCHAR[], uid) GROUP BY uid",
        [LetterKind.SPAN.value, LetterKind.SPANS_MESSAGE.value, space, list(trace_ids)],
    )
    return dict(rows)


def _payloads(
    database: Database, letter_ids: Sequence[str], most: int | None
) -> dict[str, tuple[int, bytes]]:
    """Read the payload of each letter or its beginning, with the size of the whole in bytes."""
    shown = "payload" if most is None else f"payload[1:{most:d}]"
    rows = database.read(
        f"SELECT letter_id, octet_length(payload), {shown} FROM dead_letters"  # noqa: S608 our own words
        f" WHERE {one_of('letter_id', letter_ids)}",
        letter_ids,
    )
    return {letter_id: (size, payload) for letter_id, size, payload in rows}


@dataclass(slots=True, kw_only=True)
class RemoveLettersJob(Job):
    """Letters to be taken out."""

    database: Database
    space: str
    letter_ids: Sequence[str]

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
