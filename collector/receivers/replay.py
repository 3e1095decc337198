"""Replay of dead letters: what can be used by now goes the way of everything else, by the log."""

from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from collector.items.letters import MAX_PAYLOAD, UNREADABLE, Again, is_cut
from collector.items.logs import decode_logs_json, decode_logs_protobuf
from collector.items.record_items import check_record, json_bytes, read_json, read_records_body
from collector.items.traces import decode_json, decode_protobuf
from collector.receivers.intake import Intake, Taken
from collector.store.letters import (
    DeadLetter,
    LetterKind,
    LetterQuery,
    StoredLetter,
)
from collector.store.store import Store
from collector.worker.worker import WorkOrders
from scouter.errors import DataError, TransientError

COMMIT_S: Final = 60.0


class ReplayResult(StrEnum):
    """Outcome of replaying a dead letter."""

    ACCEPTED = "accepted"
    """Its content is stored now, or was before; the letter is gone."""
    WAITING = "waiting"
    """The record waits for its evaluation again; the letter is gone."""
    REFUSED = "refused"
    """Nothing has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """One letter and what became of it."""

    letter_id: str
    result: ReplayResult
    message: str = ""


class LetterReplay:
    """Appends the content of dead letters to the log, and removes letters whose content is stored.

    What is erased meanwhile stays erased: the store refuses its keys, and a letter that went with
    something else is not appended.

    Args:
        store: Has the letters.
        way: The way in, of the letters' space.
        work: Stores what is appended.
        space: The space whose letters they are.
    """

    def __init__(self, store: Store, way: Intake, work: WorkOrders, space: str) -> None:
        self._store, self._way, self._work, self._space = store, way, work, space

    def replay(self, stored: StoredLetter) -> Replayed:
        """Take one letter in; it is removed only after its content is stored elsewhere.

        Args:
            stored: The letter; of its payload as much as was read.

        Raises:
            FullError: There is no memory for it now.
            TransientError: Log or store cannot take it now.
        """
        letter, result = stored.letter, ReplayResult.ACCEPTED
        try:
            if letter.was_accepted:
                self._admit_again(stored)
                result = ReplayResult.WAITING
            elif is_cut(letter.message, stored.size_bytes):
                raise DataError(f"only the first {MAX_PAYLOAD} bytes of it were stored")
            else:
                with self._way.lease() as lease:
                    lease.take(stored.size_bytes)
                    self._take_in(stored)
        except DataError as error:
            return Replayed(
                letter_id=stored.letter_id, result=ReplayResult.REFUSED, message=str(error)
            )
        return Replayed(letter_id=stored.letter_id, result=result)

    def _take_in(self, stored: StoredLetter) -> None:
        digests: dict[str, str] = {}
        end = self._work.append_again(lambda: self._append(stored.letter_id, digests))
        if not self._work.wait_for(end, COMMIT_S):
            raise TransientError(f"not stored within {COMMIT_S:g} s", 5)
        self._check_stored(digests)
        self._store.remove_dead_letters(self._space, [stored.letter_id])

    def _append(self, letter_id: str, digests: dict[str, str]) -> None:
        """Append all that a letter holds; notes the digests of its records."""
        query = LetterQuery(space=self._space, letter_id=letter_id, limit=1)
        found = self._store.dead_letters(query)
        if not found:
            raise DataError("it is not there any more: it was erased, or replayed by another")
        for letter in _contents_of(found[0].letter):
            digests |= self._take(letter)

    def _admit_again(self, stored: StoredLetter) -> None:
        rows = self._store.records_of(self._space, [stored.letter.uid])
        if not rows:
            raise DataError(f"the record {stored.letter.uid!r} is not stored any more")
        again = Again(stored.letter.uid, stored.letter_id, rows[0].trace_id or "")
        end = self._work.append_again(lambda: _done(self._way.again(again)))
        if not self._work.wait_for(end, COMMIT_S):
            raise TransientError(f"not stored within {COMMIT_S:g} s", 5)

    def _take(self, letter: DeadLetter) -> dict[str, str]:
        """Append the letter's content, or raise DataError and append nothing.

        Returns:
            The digests of its records, by uid.
        """
        payload, way = letter.payload, self._way
        is_json = payload[:1] == b"{"  # protobuf begins with a tag, which is another byte
        match letter.kind:
            case LetterKind.SPAN | LetterKind.SPANS_MESSAGE:
                decode = decode_json if is_json else decode_protobuf
                body = decode(payload, way.limits)
                if body.refused and not body.spans:
                    raise DataError(body.refused[0].message)
                _wait(way.traces(payload, letter.source, is_json=is_json))
                return {}
            case LetterKind.RECORD | LetterKind.RECORDS_MESSAGE:
                items = self._records(payload)
                digests = _digests(items)
                _wait(way.records(json_bytes({"records": items}), letter.source))
                return digests
            case LetterKind.LOG:
                decode_logs = decode_logs_json if is_json else decode_logs_protobuf
                logs = decode_logs(payload, way.limits)
                if refused := [*logs.refused, *logs.refused_events]:
                    raise DataError(refused[0].message)
                digests = _digests(logs.items)
                _wait(way.logs(payload, letter.source, is_json=is_json))
                return digests

    def _records(self, payload: bytes) -> list[object]:
        """One record; or those of a message that holds the body of a request."""
        item = read_json(payload)
        if isinstance(item, dict) and "records" in item:
            return read_records_body(payload, self._way.limits)
        return [item]

    def _check_stored(self, digests: Mapping[str, str]) -> None:
        """Refuse records in whose place others are stored, or that were erased."""
        stored = self._store.stored_records(self._space, digests)
        for uid, digest in digests.items():
            if uid not in stored:
                raise DataError(f"the record {uid!r} was erased")
            if stored[uid] != digest:
                raise DataError(
                    f"uid {uid} was accepted before with another content; the first one stays"
                )


def _digests(items: Iterable[object]) -> dict[str, str]:
    """The digests of records, by uid.

    Raises:
        DataError: One of them cannot be used.
    """
    return {checked.uid: checked.digest for checked in map(check_record, items)}


def _contents_of(letter: DeadLetter) -> list[DeadLetter]:
    """The letter; of a batch that can be read by now one for each of its messages.

    Raises:
        DataError: It still cannot be read.
    """
    if letter.reason != UNREADABLE:
        return [letter]
    try:
        from collector.receivers.kafka.intake import values_in  # the client is an extra
    except ImportError as error:
        raise DataError("a batch of Kafka: pip install 'scouter-agents[kafka]'") from error
    return [replace(letter, payload=value) for value in values_in(letter.payload)]


def _wait(taken: Taken) -> None:
    """Wait until the log has it."""
    for future in taken.futures:
        _done(future)


def _done(future: "Future[Any]") -> Any:  # noqa: ANN401 - whatever it gives
    try:
        return future.result(COMMIT_S)
    except FutureTimeoutError as error:
        raise TransientError(f"no commit within {COMMIT_S:g} s", 5) from error
