"""The common way in: each receiver stores decoded data, then hands it to the pipeline.

Nothing is handed over or acknowledged before its commit.
"""

import copy
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from collector.items.letters import MAX_PAYLOAD, UNREADABLE, make_letter
from collector.items.limits import Limits
from collector.items.logs import LogsBody, decode_logs_json, decode_logs_protobuf
from collector.items.record_items import (
    CheckedRecord,
    check_record,
    json_bytes,
    read_json,
    read_records_body,
)
from collector.items.traces import (
    OtlpBody,
    SpanBatch,
    decode_json,
    decode_protobuf,
    merged,
    trace_of,
)
from collector.log.port import Kind
from collector.pipeline.join.input_clock import Via
from collector.pipeline.pipeline import Pipeline
from collector.receivers.budget import ByteBudget, FullError, Lease
from collector.receivers.outcomes import Outcome, Problem, Taken
from collector.receivers.way_in import Delivery
from collector.storage.port.telemetry import TelemetryStore
from collector.store.letters import (
    INVALID_EVENT,
    DeadLetter,
    LetterKind,
    LettersRemoved,
)
from collector.store.rows import NO_TAGS, RecordRow, RecordsAppended, SpansAppended
from collector.worker.profiles import ProfileRegistry
from scouter.errors import DataError
from scouter.model.span import Span
from scouter.transport.drops import Dropped
from scouter.transport.in_process.transport import Batch

T = TypeVar("T")
_LIMITS: Final = Limits()
_SPAN_BYTES: Final = 2000
"""A guess at a span's size in this process: nothing was written that could be measured."""
_WHOLE: Final = {
    Kind.SPANS: LetterKind.SPANS_MESSAGE,
    Kind.LOGS: LetterKind.LOG,
    Kind.RECORDS: LetterKind.RECORDS_MESSAGE,
    Kind.RECORD: LetterKind.RECORDS_MESSAGE,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsTaken:
    """A batch on its way into the store."""

    futures: "tuple[Future[Any], ...]"
    """All have to be done before the batch may be acknowledged."""
    appended: "Future[RecordsAppended] | None"
    positions: tuple[int, ...]
    """Index in the batch of every row that was appended."""
    rows: tuple[RecordRow, ...]
    problems: tuple[Problem, ...]

    def outcome(self) -> Outcome:
        """Sum up, once every future is done."""
        problems = list(self.problems)
        accepted = duplicates = 0
        if self.appended is not None:
            result = self.appended.result()
            accepted, duplicates = len(result.accepted), len(result.duplicates)
            for at in result.conflicts:
                message = "the uid was accepted before with another content; the first one is kept"
                index, uid = self.positions[at], self.rows[at].uid
                problems.append(Problem(index=index, uid=uid, reason="conflict", message=message))
        problems.sort(key=lambda problem: problem.index)
        return Outcome(accepted=accepted, duplicates=duplicates, problems=tuple(problems))


class Ingest:
    """The way in, shared by all receivers.

    Args:
        store: Takes everything first.
        registry: Finds the profile of a record when it is accepted.
        pipeline: Is told of every commit.
        space: Space of everything received.
        max_queued: Spans and records that may wait for the pipeline.
        max_behind: Bytes that may be due and not evaluated yet; None for any number.
        max_in_flight: Bytes of requests that may be in memory, waiting for the pipeline included.
        limits: Of each request.
        max_letter: Bytes of a dead letter from a broker: no sender is left to send it again.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: TelemetryStore,
        registry: ProfileRegistry,
        pipeline: Pipeline,
        *,
        space: str,
        max_queued: int,
        max_behind: int | None = None,
        max_in_flight: int = 2**26,
        limits: Limits = _LIMITS,
        max_letter: int = _LIMITS.max_body,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._registry, self._pipeline = store, registry, pipeline
        self._space, self._max_queued, self._now_ns = space, max_queued, now_ns
        self.limits, self._max_letter, self._max_behind = limits, max_letter, max_behind
        self.budget = ByteBudget(max_in_flight, lambda: pipeline.queued)

    @property
    def space(self) -> str:
        """Space to which everything received belongs."""
        return self._space

    def in_space(self, space: str) -> "Ingest":
        """The same way in, for another space."""
        if space == self._space:
            return self
        other = copy.copy(self)
        other._space = space
        return other

    @property
    def is_full(self) -> bool:
        """True if senders should come back later."""
        queued, most = self._pipeline.queued, self._max_behind
        is_behind = most is not None and self._pipeline.backlog().due.size_bytes > most
        return is_behind or queued >= self._max_queued or self.budget.is_full

    def lease(self) -> Lease:
        """Memory for one request, to be given back once it is answered.

        Raises:
            FullError: There is none now.
        """
        if self.is_full:
            raise FullError("the collector is behind; send the same again later")
        return self.budget.lease()

    # --- as receivers see it ----------------------------------------------------------------

    def traces(self, data: bytes, source: str, *, is_json: bool = False) -> Taken:
        """Take an OTLP request of traces; see `WayIn`."""
        body = (decode_json if is_json else decode_protobuf)(data, self.limits)
        futures = self.take_body(body, source, len(data))
        problems = tuple(
            Problem(index=0, uid="", reason="invalid_span", message=each.message)
            for each in body.refused
        )
        return Taken(futures=tuple(futures), outcome=lambda: Outcome(problems=problems))

    def logs(self, data: bytes, source: str, *, is_json: bool = False) -> Taken:
        """Take an OTLP request of logs; see `WayIn`."""
        body = (decode_logs_json if is_json else decode_logs_protobuf)(data, self.limits)
        taken = self.take_logs(body, source, len(data))
        return Taken(futures=taken.futures, outcome=taken.outcome, ignored=body.ignored)

    def records(self, data: bytes, source: str) -> Taken:
        """Take the body of `POST /v1/records`; see `WayIn`."""
        taken = self.take_records(read_records_body(data, self.limits), source, len(data))
        return Taken(futures=taken.futures, outcome=taken.outcome)

    def batch(self, batch: Batch) -> Taken:
        """Take the records and spans of an agent in this process."""
        size = _SPAN_BYTES * (len(batch.spans) + len(batch.records))
        taken = self.take_records(batch.records, "in_process", size)
        futures = list(taken.futures)
        if batch.spans:
            futures.append(self.take_spans(batch.spans, size))
        return Taken(futures=tuple(futures), outcome=taken.outcome)

    def deliver(self, deliveries: Sequence[Delivery]) -> "list[Future[Any]]":
        """Take messages of a broker."""
        batches: list[SpanBatch] = []
        items: list[object] = []
        sources: list[str] = []
        events: list[Span] = []
        futures: list[Future[Any]] = []
        letters: list[DeadLetter] = []
        for each in deliveries:
            source, data = each.source, each.data
            try:
                if each.unreadable:
                    futures.append(self.refuse(each, UNREADABLE, each.unreadable))
                elif each.kind is Kind.SPANS:
                    body = decode_protobuf(data, self.limits)
                    batches += body.batches
                    refused = OtlpBody(refused=body.refused)
                    futures += self.take_body(refused, source, len(data), Via.BROKER)
                elif each.kind is Kind.LOGS:
                    logs = decode_logs_protobuf(data, self.limits)
                    items += logs.items
                    sources += [source] * len(logs.items)
                    events += logs.events
                    letters += self.letters_of_logs(logs, source, Via.BROKER)
                elif each.kind is Kind.RECORDS:
                    found = read_records_body(data, self.limits)
                    items += found
                    sources += [source] * len(found)
                else:
                    items.append(read_json(data))
                    sources.append(source)
            except DataError as error:
                futures.append(self.refuse(each, "invalid_message", str(error)))
        size = sum(len(each.data) for each in deliveries)
        futures += self.take_records(items, sources, size, Via.BROKER).futures
        for batch in merged(batches):
            futures.append(self.take_spans(batch.spans, size, Via.BROKER, wire=batch.wire))
        if events:
            futures.append(self.take_spans(events, size, Via.BROKER))
        if letters:
            futures.append(self.put_aside(letters))
        return futures

    def refuse(self, delivery: Delivery, reason: str, message: str) -> "Future[Any]":
        """Make a dead letter of a whole message."""
        kind = _WHOLE[delivery.kind]
        source, data = delivery.source, delivery.data
        return self.put_aside([self.letter(kind, reason, message, source, data, Via.BROKER)])

    # --- inside -----------------------------------------------------------------------------

    def take_body(
        self, body: OtlpBody, source: str, size: int, via: Via = Via.DIRECT
    ) -> "list[Future[Any]]":
        """Store the spans of a request and put its refused ones aside.

        Args:
            body: Content of the request.
            source: The receiver, for dead letters.
            size: Bytes of the request.
            via: The way that it came.
        """
        futures: list[Future[Any]] = []
        for batch in body.batches:
            share = size // len(body.batches)
            futures.append(self.take_spans(batch.spans, share, via, wire=batch.wire))
        if body.refused:
            letters = [
                self.letter(
                    LetterKind.SPAN,
                    "invalid_span",
                    each.message,
                    source,
                    each.payload,
                    via,
                    uid=trace_of(each.payload),
                )
                for each in body.refused
            ]
            stored = self.put_aside(letters)
            futures.append(stored)
            traces = frozenset(each.uid for each in letters if each.uid)
            if traces:
                stored.add_done_callback(
                    lambda done: self._pipeline.spans_refused(self._space, traces, done)
                )
        return futures

    def take_logs(self, body: LogsBody, source: str, size: int) -> RecordsTaken:
        """Store the records and log events of a logs request and put aside what is neither."""
        share = size // 2 if body.items and body.events else size
        taken = self.take_records(body.items, source, share)
        if body.events:
            stored = self.take_spans(body.events, share)
            taken = replace(taken, futures=(*taken.futures, stored))
        letters = self.letters_of_logs(body, source)
        if not letters:
            return taken
        problems = [
            Problem(index=len(body.items), uid="", reason=each.reason, message=each.message)
            for each in letters
        ]
        return replace(
            taken,
            futures=(*taken.futures, self.put_aside(letters)),
            problems=(*taken.problems, *problems),
        )

    def letters_of_logs(
        self, body: LogsBody, source: str, via: Via = Via.DIRECT
    ) -> list[DeadLetter]:
        """Dead letters of the log records that could not be read."""
        refused = [("invalid_record", each) for each in body.refused]
        refused += [(INVALID_EVENT, each) for each in body.refused_events]
        return [
            self.letter(LetterKind.LOG, reason, each.message, source, each.payload, via)
            for reason, each in refused
        ]

    def take_spans(
        self,
        spans: Sequence[Span],
        size: int,
        via: Via = Via.DIRECT,
        *,
        wire: bytes | None = None,
    ) -> "Future[None]":
        """Store spans; the future is done once they cannot be lost any more.

        Args:
            spans: The spans.
            size: Bytes of the request, or of its part.
            via: The way that it came.
            wire: The OTLP request with just these spans, if there is one.
        """
        durable: Future[None] = Future()
        future = self._store.append_spans(
            self._space, spans, self._now_ns(), wire=wire, durable=durable
        )
        future.add_done_callback(lambda done: self._spans_committed(done, size, via))
        return durable

    def _spans_committed(self, done: "Future[SpansAppended]", size: int, via: Via) -> None:
        self._pipeline.spans_appended(done, via)  # first: else they would look as if taken already
        if done.exception() is None:
            self.budget.committed(len(done.result().stored), size)

    def _records_committed(self, done: "Future[RecordsAppended]", size: int, via: Via) -> None:
        self._pipeline.records_appended(done, via)  # first, as above
        if done.exception() is None:
            self.budget.committed(len(done.result().accepted), size)

    def take_records(
        self,
        items: Sequence[object],
        sources: str | Sequence[str],
        size: int,
        via: Via = Via.DIRECT,
    ) -> RecordsTaken:
        """Check records, store the good ones and put the others aside.

        Args:
            items: Values read from JSON, one per record.
            sources: The receiver, for dead letters: one word for all or one for each.
            size: Bytes of the request.
            via: The way that they came.
        """
        max_bytes = self.limits.max_item if size > self.limits.max_item else None
        now_ns = self._now_ns()
        positions: list[int] = []
        rows: list[RecordRow] = []
        problems: list[Problem] = []
        letters: list[DeadLetter] = []
        for index, item in enumerate(items):
            try:
                rows.append(self._row(check_record(item, max_bytes), now_ns, index))
                positions.append(index)
            except DataError as error:
                message = str(error)
                problems.append(
                    Problem(index=index, uid="", reason="invalid_record", message=message)
                )
                source = sources if isinstance(sources, str) else sources[index]
                payload = json_bytes(item)
                letters.append(
                    self.letter(LetterKind.RECORD, "invalid_record", message, source, payload, via)
                )
        futures: list[Future[Any]] = []
        appended: Future[RecordsAppended] | None = None
        if rows:
            appended = self._store.append_records(rows)
            appended.add_done_callback(lambda done: self._records_committed(done, size, via))
            futures.append(appended)
        if letters:
            futures.append(self.put_aside(letters))
        return RecordsTaken(
            futures=tuple(futures),
            appended=appended,
            positions=tuple(positions),
            rows=tuple(rows),
            problems=tuple(problems),
        )

    def take_dropped(self, dropped: Dropped) -> "Future[Any]":
        """Count what senders say that they had to drop, as far as they did not say so before."""
        return self._store.add_drops(self._space, dropped, self._now_ns())

    def admit_again(self, letter_id: str, row: RecordRow) -> "Future[LettersRemoved]":
        """Let an accepted record that became a dead letter wait again."""
        return self._pipeline.admit_again(letter_id, row)

    def while_nothing_is_erased(self, action: Callable[[], T]) -> "Future[T]":
        """Do something that must not bring back what is erased meanwhile."""
        return self._pipeline.while_nothing_is_erased(action)

    def put_aside(self, letters: Sequence[DeadLetter]) -> "Future[Any]":
        """Store dead letters."""
        return self._store.append_dead_letters(letters)

    def letter(
        self,
        kind: LetterKind,
        reason: str,
        message: str,
        source: str,
        payload: bytes,
        via: Via = Via.DIRECT,
        *,
        uid: str = "",
    ) -> DeadLetter:
        """Make a dead letter of something that was never accepted; see `make_letter`."""
        most = self._max_letter if via is Via.BROKER else MAX_PAYLOAD
        return make_letter(
            self._space, kind, reason, message, source, payload, self._now_ns(), most, uid
        )

    def _row(self, checked: CheckedRecord, now_ns: int, index: int) -> RecordRow:
        item = checked.item
        meant = self._registry.resolve(self._space, item.profile)
        # Those of one request that do not say when they were made keep their order in a session.
        created_ns = item.created_at if isinstance(item.created_at, int) else now_ns + index
        return RecordRow(
            space=self._space,
            uid=checked.uid,
            digest=checked.digest,
            profile_ref=item.profile,
            profile_uid=meant.uid if meant else "",
            profile_name=meant.profile.name if meant else "",
            alias=meant.profile.alias if meant else "",
            record_id=item.record_id or "",
            session_id=item.session_id or "",
            trace_id=item.trace_id,
            created_ns=created_ns,
            received_ns=now_ns,
            context=item.context,
            tags=item.tags or NO_TAGS,
            is_dated=isinstance(item.created_at, int),
        )
