"""The way in: what was accepted is appended to the log, and answered once it is durable.

A request is looked at as far as its answer needs it: which items are no good. The worker reads it.
"""

import copy
import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from collector.items.drop_reports import pack_dropped
from collector.items.letters import UNREADABLE, Again, make_letter, pack_again, pack_letter
from collector.items.limits import Limits
from collector.items.logs import LogsBody, decode_logs_json, decode_logs_protobuf
from collector.items.record_items import (
    CheckedRecord,
    check_record,
    json_bytes,
    read_records_body,
)
from collector.items.traces import check_protobuf, decode_json, trace_of
from collector.items.wire import Refused
from collector.log.brokers import Brokers
from collector.log.port import Appends, Item, Kind
from collector.receivers.budget import ByteBudget, FullError, Lease
from collector.receivers.known_records import KnownRecords, StoredRecords
from collector.store.letters import INVALID_EVENT, DeadLetter, LetterKind
from scouter.errors import DataError, TransientError
from scouter.model.otlp import encode_request
from scouter.model.span import Span
from scouter.transport.drops import Dropped
from scouter.transport.in_process import Batch

_LIMITS: Final = Limits()
_MAX_RESERVE: Final = 256 * 2**20
_RESERVE: Final = 0.05
"""Part of the disk that stays free, so that the store can take what the log has; and its most."""
_CONFLICT: Final = "the uid was accepted before with another content; the first one stays"
_WHOLE: Final = {
    Kind.SPANS: LetterKind.SPANS_MESSAGE,
    Kind.LOGS: LetterKind.LOG,
    Kind.RECORDS: LetterKind.RECORDS_MESSAGE,
    Kind.RECORD: LetterKind.RECORDS_MESSAGE,
}
"""Kinds of letters that hold a whole message."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Delivery:
    """A message of a broker."""

    kind: Kind
    data: bytes
    source: str
    """Its place: `kafka:TOPIC:PARTITION:OFFSET`."""
    dropped: str = ""
    """Text of the header that reports drops, where that is read apart."""
    unreadable: str = ""
    """Reason that the broker's client cannot read it; then the data is a batch of messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Reason that one item of a request was not accepted."""

    index: int
    uid: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Counts of the accepted records and duplicates of a request, and all problems."""

    accepted: int = 0
    duplicates: int = 0
    problems: tuple[Problem, ...] = ()


_NOTHING: Final = Outcome()


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """A request on its way to where it is durable."""

    futures: "tuple[Future[Any], ...]" = ()
    """All have to be done before the request may be acknowledged."""
    outcome: Outcome = _NOTHING
    """Holds once every future is done."""
    ignored: int = 0
    """Log records of which nothing is stored."""


class Stored(StoredRecords, Protocol):
    """The store, as far as the way in needs it."""

    @property
    def offset(self) -> int:
        """Everything before it in the log is stored."""
        ...


class Intake:
    """The way in of one space, shared by all receivers; every method takes calls of any thread.

    What is taken is durable once its futures are done. They fail with `TransientError` where the
    same may be sent again.

    Args:
        log: Takes everything.
        store: Says how far the log is stored, and which records came before.
        data: The data folder, whose disk must have room; None where the log is elsewhere.
        space: Space of everything received.
        brokers: Says how far the log is behind the brokers.
        max_behind: Bytes of the log that may wait for the worker; None for any number.
        max_in_flight: Bytes of requests that may be in memory.
        limits: Of each request.
        max_letter: Bytes of a dead letter from a broker: no sender is left to send it again.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        log: Appends,
        store: Stored,
        data: Path | None,
        *,
        space: str,
        brokers: Brokers,
        max_behind: int | None = None,
        max_in_flight: int = 2**26,
        limits: Limits = _LIMITS,
        max_letter: int = _LIMITS.max_body,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._log, self._store, self._data, self._space = log, store, data, space
        self._brokers, self._max_behind, self._now_ns = brokers, max_behind, now_ns
        self.limits, self._max_letter = limits, max_letter
        self.budget: Final = ByteBudget(max_in_flight)
        self._known: Final = KnownRecords(store)

    @property
    def space(self) -> str:
        """Space to which everything received belongs."""
        return self._space

    def in_space(self, space: str) -> "Intake":
        """The same way in, for another space."""
        if space == self._space:
            return self
        other = copy.copy(self)
        other._space = space
        return other

    # --- room -------------------------------------------------------------------------------

    @property
    def behind_bytes(self) -> int:
        """Bytes of the log that wait for the worker."""
        return max(0, self._log.end - self._store.offset)

    @property
    def is_full(self) -> bool:
        """True if senders should come back later."""
        return self._is_behind or self.budget.is_full or bool(self.no_room)

    @property
    def no_room(self) -> str:
        """Reason that the disk has no room for more; empty if it has."""
        if self._data is None:
            return ""
        try:
            disk = os.statvfs(self._data)
        except OSError as error:
            return f"the disk of {self._data} cannot be looked at: {error}"
        free = disk.f_bavail * disk.f_frsize
        reserve = min(_MAX_RESERVE, int(_RESERVE * disk.f_blocks * disk.f_frsize))
        if free >= reserve:
            return ""
        return (
            f"the disk of {self._data} has {free:,} bytes left; {reserve:,} are for what was "
            "accepted before. Make room, or let retention_days or max_store_bytes be less"
        )

    def lease(self) -> Lease:
        """Memory for one request, to be given back once it is answered.

        Raises:
            FullError: There is none now, or too much waits for the worker.
            TransientError: The disk is nearly full.
        """
        if self._is_behind or self.budget.is_full:
            raise FullError("the collector is behind; send the same again later")
        if why := self.no_room:
            raise TransientError(why, 5)
        return self.budget.lease()

    @property
    def _is_behind(self) -> bool:
        return self._max_behind is not None and self.behind_bytes > self._max_behind

    # --- requests ---------------------------------------------------------------------------

    def traces(self, data: bytes, source: str, *, is_json: bool = False) -> Taken:
        """Take an OTLP request of traces, protobuf or JSON.

        Raises:
            DataError: The bytes are no such request.
            TooLargeError: It is beyond a limit as a whole.

        Cost: about 2 µs for a span.
        """
        if is_json:
            body = decode_json(data, self.limits)
            refused, futures = body.refused, self._append_spans(body.spans, source)
            futures += [self._put_aside(self._letter_of_span(each, source)) for each in refused]
        else:
            refused = check_protobuf(data, self.limits)
            futures = [self._append(Kind.SPANS, data, source)] if data else []
        problems = tuple(_problem(0, "invalid_span", each.message) for each in refused)
        return Taken(futures=tuple(futures), outcome=Outcome(problems=problems))

    def logs(self, data: bytes, source: str, *, is_json: bool = False) -> Taken:
        """Take an OTLP request of logs; raises as `traces` does."""
        body = (decode_logs_json if is_json else decode_logs_protobuf)(data, self.limits)
        checked, problems = self._check(body.items, len(data))
        refused = [("invalid_record", each) for each in body.refused]
        refused += [(INVALID_EVENT, each) for each in body.refused_events]
        problems += [_problem(len(body.items), why, each.message) for why, each in refused]
        futures = self._append_logs(data, body, refused, source, is_json=is_json)
        taken = self._taken(futures, checked, problems)
        return Taken(futures=taken.futures, outcome=taken.outcome, ignored=body.ignored)

    def records(self, data: bytes, source: str, *, is_whole: bool = False) -> Taken:
        """Take the body of `POST /v1/records`; raises as `traces` does.

        With `is_whole` nothing of it is taken if there is a problem with any record.
        """
        items = read_records_body(data, self.limits)
        checked, problems = self._check(items, len(data))
        if is_whole and (refused := self._outcome(checked, problems)[0]).problems:
            return Taken(outcome=refused)
        futures = [self._append(Kind.RECORDS, data, source)] if items else []
        return self._taken(futures, checked, problems)

    def batch(self, batch: Batch) -> Taken:
        """Take the records and spans of an agent in this process."""
        data = json_bytes({"records": batch.records}) if batch.records else b""
        checked, problems = self._check(batch.records, len(data))
        futures = [self._append(Kind.RECORDS, data, "in_process")] if data else []
        futures += self._append_spans(batch.spans, "in_process")
        return self._taken(futures, checked, problems)

    def again(self, again: Again) -> "Future[Any]":
        """Take a request to let an accepted record wait again that became a dead letter."""
        return self._append(Kind.AGAIN, pack_again(again), "")

    def take_dropped(self, dropped: Dropped) -> "Future[Any]":
        """Count what senders say that they had to drop, as far as they did not say so before."""
        return self._append(Kind.DROPS, pack_dropped(dropped), "")

    # --- messages of brokers ----------------------------------------------------------------

    def deliver(self, deliveries: Sequence[Delivery]) -> "list[Future[Any]]":
        """Take messages of a broker; the worker makes dead letters of what is no good."""
        return [
            self.refuse(each, UNREADABLE, each.unreadable)
            if each.unreadable
            else self._append(each.kind, each.data, each.source)
            for each in deliveries
        ]

    def refuse(self, delivery: Delivery, reason: str, message: str) -> "Future[Any]":
        """Make a dead letter of a whole message."""
        letter = make_letter(
            self._space, _WHOLE[delivery.kind], reason, message, delivery.source, delivery.data,
            self._now_ns(), self._max_letter,
        )  # fmt: skip
        return self._put_aside(letter)

    # --- inside -----------------------------------------------------------------------------

    def _append(self, kind: Kind, body: bytes, source: str) -> "Future[Any]":
        item = Item(
            kind, self._space, self._now_ns(), body, source, self._brokers.behind_ns()
        )  # fmt: skip
        return self._log.append(item)

    def _append_spans(self, spans: Sequence[Span], source: str) -> "list[Future[Any]]":
        if not spans:
            return []
        return [self._append(Kind.SPANS, encode_request(spans).SerializeToString(), source)]

    def _append_logs(
        self,
        data: bytes,
        body: LogsBody,
        refused: Sequence[tuple[str, Refused]],
        source: str,
        *,
        is_json: bool,
    ) -> "list[Future[Any]]":
        """Append a request of logs as it came; JSON as what was read of it."""
        if not is_json:
            is_empty = not (body.items or body.events or refused)
            return [] if is_empty else [self._append(Kind.LOGS, data, source)]
        futures: list[Future[Any]] = []
        if body.items:
            records = json_bytes({"records": body.items})
            futures.append(self._append(Kind.RECORDS, records, source))
        futures += self._append_spans(body.events, source)
        for reason, each in refused:
            letter = self._letter(LetterKind.LOG, reason, each, source)
            futures.append(self._put_aside(letter))
        return futures

    def _letter_of_span(self, refused: Refused, source: str) -> DeadLetter:
        uid = trace_of(refused.payload)
        return self._letter(LetterKind.SPAN, "invalid_span", refused, source, uid)

    def _letter(
        self, kind: LetterKind, reason: str, refused: Refused, source: str, uid: str = ""
    ) -> DeadLetter:
        return make_letter(
            self._space, kind, reason, refused.message, source, refused.payload, self._now_ns(),
            uid=uid,
        )  # fmt: skip

    def _put_aside(self, letter: DeadLetter) -> "Future[Any]":
        return self._append(Kind.LETTER, pack_letter(letter), letter.source)

    def _check(
        self, items: Sequence[object], size: int
    ) -> tuple[list[tuple[int, CheckedRecord]], list[Problem]]:
        """The good records of a request by index, and the problems of the others."""
        max_bytes = self.limits.max_item if size > self.limits.max_item else None
        checked: list[tuple[int, CheckedRecord]] = []
        problems: list[Problem] = []
        for index, each in enumerate(items):
            try:
                checked.append((index, check_record(each, max_bytes)))
            except DataError as error:
                problems.append(_problem(index, "invalid_record", str(error)))
        return checked, problems

    def _outcome(
        self, checked: Sequence[tuple[int, CheckedRecord]], problems: Sequence[Problem]
    ) -> tuple[Outcome, list[CheckedRecord]]:
        """The answer to records, and the new ones; those that came before are known."""
        found = list(problems)
        duplicates = 0
        uids = [each.uid for _, each in checked]
        known = self._known.digests(self._space, uids) if uids else {}
        new: dict[str, CheckedRecord] = {}
        for index, each in checked:
            digest = known.setdefault(each.uid, "")
            if not digest:
                known[each.uid], new[each.uid] = each.digest, each
            elif digest == each.digest:
                duplicates += 1
            else:
                found.append(
                    Problem(index=index, uid=each.uid, reason="conflict", message=_CONFLICT)
                )
        found.sort(key=lambda problem: problem.index)
        outcome = Outcome(accepted=len(new), duplicates=duplicates, problems=tuple(found))
        return outcome, list(new.values())

    def _taken(
        self,
        futures: "Sequence[Future[Any]]",
        checked: Sequence[tuple[int, CheckedRecord]],
        problems: Sequence[Problem],
    ) -> Taken:
        """The answer to records, of which the first future is."""
        (outcome, records), space = self._outcome(checked, problems), self._space
        if records:
            futures[0].add_done_callback(lambda done: self._remember(done, space, records))
        return Taken(futures=tuple(futures), outcome=outcome)

    def _remember(self, done: "Future[Any]", space: str, records: Sequence[CheckedRecord]) -> None:
        if done.exception() is None:
            self._known.add(space, records)


def _problem(index: int, reason: str, message: str) -> Problem:
    return Problem(index=index, uid="", reason=reason, message=message)
