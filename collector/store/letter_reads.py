"""Dead letters: lists of them, and what becomes of those that were replayed."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from collector.store.letters import (
    DeadLetter,
    LetterKind,
    LetterQuery,
    LettersRemoved,
    StoredLetter,
    few_at_a_time,
)
from collector.store.reads import Connection, Reads, Values

# All SQL is put together from this module's own words; values travel as parameters.
# ruff: noqa: S608

_N: Final = "BIGINT"
_COLUMNS: Final = (
    "seq", "letter_id", "space", "kind", "reason", "message", "source", "uid", "received_ns",
    "was_accepted",
)  # fmt: skip
_PAYLOADS: Final = """
    SELECT letter_id, payload FROM dead_letters
    WHERE seq BETWEEN $1 AND $2 AND letter_id = ANY($3::TEXT[])
"""
_REFUSED: Final = """
    SELECT uid, min(message) FROM dead_letters
    WHERE kind = ANY($1::TEXT[]) AND uid <> '' AND space = $2 AND uid = ANY($3::TEXT[])
    GROUP BY uid
"""
_OF_SPANS: Final = [LetterKind.SPAN.value, LetterKind.SPANS_MESSAGE.value]
_THERE: Final = """
    SELECT l.letter_id, r.seq FROM dead_letters l
    LEFT JOIN records r ON l.was_accepted = 1 AND r.space = l.space AND r.uid = l.uid
    WHERE l.space = $1 AND l.letter_id = ANY($2::TEXT[])
"""
_REMOVE: Final = "DELETE FROM dead_letters WHERE space = $1 AND letter_id = ANY($2::TEXT[])"


class LetterReads(Reads):
    """Reads of dead letters."""

    def dead_letters(self, query: LetterQuery) -> list[StoredLetter]:
        """List dead letters, newest first."""
        values = Values()
        where = [f"space = {values.of(query.space)}"]
        for column, value in (
            ("reason", query.reason),
            ("kind", query.kind),
            ("letter_id", query.letter_id),
            ("uid", query.uid),
        ):
            if value is not None:
                where.append(f"{column} = {values.of(str(value))}")
        if query.was_accepted is not None:
            where.append(f"was_accepted = {values.of(int(query.was_accepted), _N)}")
        if query.before is not None:
            seq, letter_id = values.of(query.before[0], _N), values.of(query.before[1])
            where.append(f"(seq, letter_id) < ({seq}, {letter_id})")
        rows = self.read(
            f"SELECT {', '.join(_COLUMNS)} FROM dead_letters WHERE {' AND '.join(where)}"
            f" ORDER BY seq DESC, letter_id DESC LIMIT {values.of(query.limit, _N)}",
            values,
        )
        return self._whole(rows, query.payload_bytes) if rows else []

    def _whole(self, rows: Sequence[Sequence[Any]], most: int | None) -> list[StoredLetter]:
        """Letters with their payloads, or the beginnings of these; one that went is left out."""
        payloads: dict[str, tuple[int, bytes]] = {}
        for part in few_at_a_time((row[1], LetterKind(row[3])) for row in rows):
            ids = [letter_id for letter_id, _ in part]
            found = self.read(_PAYLOADS, [rows[-1][0], rows[0][0], ids])
            payloads |= {each: (len(payload), payload[:most]) for each, payload in found}
        return [_stored(row, *payloads[row[1]]) for row in rows if row[1] in payloads]

    def refused_spans(self, space: str, trace_ids: Collection[str]) -> dict[str, str]:
        """Say of traces that lack a span, as it was refused, why it was; of one span each.

        Cost: a look at the letters of spans, which are few.
        """
        return dict(self.read(_REFUSED, [_OF_SPANS, space, list(trace_ids)]))

    def remove_dead_letters(self, space: str, letter_ids: Sequence[str]) -> LettersRemoved:
        """Take letters out, as what they hold was accepted after all.

        A letter that was the state of an accepted record leaves the record waiting: the worker's
        next start finds it.

        Raises:
            TransientError: The store takes nothing now; nothing has changed.
        """
        with self.alone():
            there = dict(self.read_for_work(_THERE, [space, list(letter_ids)]))
            if not there:
                return LettersRemoved(seq=self.last_seq(), letter_ids=())
            waiting = [seq for seq in there.values() if seq is not None]

            def change(connection: Connection) -> None:
                connection.execute(_REMOVE, [space, list(there)])

            seq = self.write({}, [change], low_seq=min(waiting, default=None))
            return LettersRemoved(seq=seq, letter_ids=tuple(there))


def _stored(values: Sequence[Any], size: int, payload: bytes) -> StoredLetter:
    seq, letter_id, space, kind, reason, message, source, uid, received_ns, was_accepted = values
    letter = DeadLetter(
        space=space,
        kind=LetterKind(kind),
        reason=reason,
        message=message,
        source=source,
        payload=payload,
        uid=uid,
        received_ns=received_ns,
        was_accepted=was_accepted == 1,
    )
    return StoredLetter(letter_id=letter_id, seq=seq, letter=letter, size_bytes=size)
