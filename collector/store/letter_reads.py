"""Dead letters: lists of them, and what becomes of those that were replayed."""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from collector.store.letters import (
    DeadLetter,
    LetterKind,
    LetterQuery,
    LettersRemoved,
    StoredLetter,
    few_at_a_time,
)
from collector.store.reads import Connection, Reads, Values

_JSON_STARTS: Final = ("{", "[")
_DEPTH: Final = 64


class LetterSearch:
    """Looks for texts as whole values: `7` is not found in `17`.

    Args:
        texts: Uids and session ids.
        trace_ids: Lower-case hex.
        tag: Key and text.
    """

    def __init__(
        self, texts: Iterable[str], trace_ids: Iterable[str], tag: tuple[str, str] | None = None
    ) -> None:
        self.texts, self._tag = frozenset(texts), tag
        self._trace_ids = frozenset(trace_ids)
        wanted = self.texts | self._trace_ids
        self._needles = [needle for text in wanted for needle in _forms(text)]
        for trace_id in self._trace_ids:
            self._needles += [*_forms(trace_id.upper()), bytes.fromhex(trace_id)]
        self._tag_needles = [_forms(text) for text in tag or ()]

    def finds(self, payload: bytes) -> bool:
        """Say whether a payload speaks of any of it."""
        try:
            value = json.loads(payload)
        except (ValueError, RecursionError):  # protobuf, or cut off
            return self._finds_bytes(payload)
        return self._finds_value(value, 0)

    def is_id(self, text: str) -> bool:
        """Say whether a text is one of the ids."""
        return text in self.texts or text.lower() in self._trace_ids

    def _finds_bytes(self, payload: bytes) -> bool:
        if any(needle in payload for needle in self._needles):
            return True
        return bool(self._tag_needles) and all(
            any(needle in payload for needle in forms) for forms in self._tag_needles
        )

    def _finds_value(self, value: object, depth: int) -> bool:
        if depth > _DEPTH:
            return self._finds_bytes(json.dumps(value).encode())
        if isinstance(value, str):
            return self._finds_text(value, depth)
        if isinstance(value, dict):
            items = cast(Mapping[str, Any], value)
            return self.has_tag(items) or any(
                self._finds_value(each, depth + 1) for pair in items.items() for each in pair
            )
        if isinstance(value, list):
            return any(self._finds_value(each, depth + 1) for each in cast(list[object], value))
        return False

    def _finds_text(self, text: str, depth: int) -> bool:
        if self.is_id(text):
            return True
        if not text.startswith(_JSON_STARTS):
            return False
        try:  # a log record's body may be the JSON text of a record
            return self._finds_value(json.loads(text), depth + 1)
        except (ValueError, RecursionError):
            return False

    def has_tag(self, items: Mapping[str, Any]) -> bool:
        """Say whether an object bears the tag, as a field of its own or as an attribute."""
        if self._tag is None:
            return False
        key, text = self._tag
        if items.get(key) == text:
            return True
        value = items.get("value")  # an attribute of OTLP JSON
        return (
            items.get("key") == key
            and isinstance(value, dict)
            and text in cast(Mapping[str, Any], value).values()
        )


def _forms(text: str) -> tuple[bytes, ...]:
    """A text as a protobuf field and as JSON strings are written; not as a part of a longer one."""
    plain = text.encode("utf-8", "surrogatepass")
    quoted = [json.dumps(text, ensure_ascii=is_ascii) for is_ascii in (True, False)]
    return (
        _length(len(plain)) + plain,
        *(each.encode("utf-8", "surrogatepass") for each in quoted),
        *(json.dumps(each).encode()[1:-1] for each in quoted),
    )


def _length(size: int) -> bytes:
    """A protobuf varint."""
    found = bytearray()
    while size > 127:
        found.append(size & 127 | 128)
        size >>= 7
    return bytes((*found, size))


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
