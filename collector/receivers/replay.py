"""Dead letters taken in again, once what was wrong with them is mended."""

from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from collector.items.letters import MAX_PAYLOAD, UNREADABLE, is_cut
from collector.items.logs import LogsBody, decode_logs_json, decode_logs_protobuf
from collector.items.record_items import check_record, read_json, read_records_body
from collector.items.traces import decode_json, decode_protobuf
from collector.pipeline.join.input_clock import Via
from collector.receivers.ingest import Ingest
from collector.storage.port.telemetry import TelemetryStore
from collector.store.letters import (
    LARGE,
    DeadLetter,
    LetterKind,
    LetterQuery,
    StoredLetter,
)
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


class Replayer:
    """Sends dead letters through the way in that they came by.

    Args:
        store: Holds the letters.
        ingest: The way in.
        space: The space whose letters they are.
    """

    def __init__(self, store: TelemetryStore, ingest: Ingest, space: str) -> None:
        self._store, self._ingest, self._space = store, ingest, space

    def replay(self, stored: StoredLetter) -> Replayed:
        """Take one letter in; it is removed only after its content is durable elsewhere.

        Args:
            stored: The letter; of its payload as much as was read.

        Raises:
            FullError: There is no memory for it now.
            TransientError: The store cannot take it now.
        """
        letter = stored.letter
        try:
            if letter.was_accepted:
                return self._admit_again(stored)
            if is_cut(letter.message, stored.size_bytes):
                raise DataError(f"only the first {MAX_PAYLOAD} bytes of it were kept")
            with self._ingest.lease() as lease:
                lease.take(stored.size_bytes)
                _done(self._ingest.while_nothing_is_erased(lambda: self._take_in(stored)))
        except DataError as error:
            message = str(error)
            return Replayed(
                letter_id=stored.letter_id, result=ReplayResult.REFUSED, message=message
            )
        return Replayed(letter_id=stored.letter_id, result=ReplayResult.ACCEPTED)

    def _take_in(self, stored: StoredLetter) -> None:
        """Store a letter's content, then remove it, unless it was erased since it was read."""
        query = LetterQuery(space=self._space, letter_id=stored.letter_id, limit=1)
        found = self._store.dead_letters(query)
        if not found:
            raise DataError("it is not there any more: it was erased, or replayed by another")
        for letter in contents_of(found[0].letter):
            self._take(letter)
        _done(self._store.remove_dead_letters(self._space, [stored.letter_id]))

    def _admit_again(self, stored: StoredLetter) -> Replayed:
        rows = self._store.records_of(self._space, [stored.letter.uid])
        if not rows:
            raise DataError(f"the record {stored.letter.uid!r} is not stored any more")
        _done(self._ingest.admit_again(stored.letter_id, rows[0]))
        return Replayed(letter_id=stored.letter_id, result=ReplayResult.WAITING)

    def _take(self, letter: DeadLetter) -> None:
        """Store the letter's content, or raise DataError and store nothing."""
        is_json = letter.payload.lstrip()[:1] == b"{"
        match letter.kind:
            case LetterKind.SPAN | LetterKind.SPANS_MESSAGE:
                decode = decode_json if is_json else decode_protobuf
                body = decode(letter.payload, self._ingest.limits)
                if body.refused and not body.spans:
                    raise DataError(body.refused[0].message)
                via = Via.BROKER if letter.kind in LARGE else Via.DIRECT
                futures = self._ingest.take_body(body, letter.source, len(letter.payload), via)
                for future in futures:
                    _done(future)
            case LetterKind.RECORD | LetterKind.RECORDS_MESSAGE:
                self._take_records(LogsBody(items=self._records(letter.payload)), letter)
            case LetterKind.LOG:
                decode_logs = decode_logs_json if is_json else decode_logs_protobuf
                self._take_records(decode_logs(letter.payload, self._ingest.limits), letter)

    def _records(self, payload: bytes) -> list[object]:
        """One record; or those of a message that holds the body of a request."""
        item = read_json(payload)
        if isinstance(item, dict) and "records" in item:
            return read_records_body(payload, self._ingest.limits)
        return [item]

    def _take_records(self, body: LogsBody, letter: DeadLetter) -> None:
        if refused := [*body.refused, *body.refused_events]:
            raise DataError(refused[0].message)
        for item in body.items:
            check_record(item)
        taken = self._ingest.take_logs(body, letter.source, len(letter.payload))
        for future in taken.futures:
            _done(future)
        problems = taken.outcome().problems
        if problems:
            raise DataError(problems[0].message)


def contents_of(letter: DeadLetter) -> list[DeadLetter]:
    """The letter; of a batch that can be read by now one for each of its messages.

    Raises:
        DataError: It still cannot be read.
    """
    if letter.reason != UNREADABLE:
        return [letter]
    try:
        from collector.receivers.kafka.batches import values_in  # the client is an extra
    except ImportError as error:
        raise DataError("a batch of Kafka: pip install 'scouter-agents[kafka]'") from error
    return [replace(letter, payload=value) for value in values_in(letter.payload)]


def _done(future: "Future[Any]") -> None:
    try:
        future.result(COMMIT_S)
    except FutureTimeoutError as error:
        raise TransientError(f"no commit within {COMMIT_S:g} s", 5) from error
