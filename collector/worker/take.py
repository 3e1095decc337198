"""Contents of an entry of the log, item by item.

A request was read once by its receiver, which answers for it, and is read once more here. What
cannot be read as a whole is split and tried again in parts, down to single items: one that cannot
be used is a letter with its reason, and costs its neighbours nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from collector.items.drop_reports import unpack_dropped
from collector.items.letters import Again, make_letter, unpack_again, unpack_letter
from collector.items.limits import Limits
from collector.items.logs import decode_logs_protobuf
from collector.items.record_items import (
    CheckedRecord,
    ScoredItem,
    check_record,
    json_bytes,
    read_json,
    read_records_body,
    scored_items,
)
from collector.items.traces import decode_protobuf, trace_of
from collector.items.wire import head_field, wire_field
from collector.log.port import Entry, Item, Kind
from collector.store.bodies import span_places, span_ranks
from collector.store.letters import INVALID_EVENT, DeadLetter, LetterKind
from collector.store.rows import NO_TAGS, RecordRow
from collector.store.span_rows import SpanKey
from collector.worker.profiles import ProfileRegistry
from collector.worker.scores import score_rows
from scouter.errors import DataError
from scouter.model.otlp import encode_request
from scouter.model.span import Scope, Span, struct
from scouter.transport.drops import NONE_DROPPED, Dropped

_MESSAGES: Final = {
    Kind.SPANS: LetterKind.SPANS_MESSAGE,
    Kind.LOGS: LetterKind.LOG,
    Kind.RECORDS: LetterKind.RECORDS_MESSAGE,
    Kind.RECORD: LetterKind.RECORDS_MESSAGE,
    Kind.LETTER: LetterKind.RECORDS_MESSAGE,
    Kind.DROPS: LetterKind.RECORDS_MESSAGE,
    Kind.AGAIN: LetterKind.RECORDS_MESSAGE,
}
"""Kinds of letters that hold a whole item of the log."""

Head = tuple[bytes, bytes]
"""The bytes of a resource and of a scope."""


@struct
class TakenSpan:
    """A span, and how it came."""

    span: Span
    key: SpanKey
    head: Head
    """Shared by spans of one resource and scope."""
    message: bytes
    """The OTLP message of the span alone."""


@dataclass(slots=True, kw_only=True)
class Contents:
    """Everything that one entry holds."""

    space: str
    received_ns: int
    size_bytes: int = 0
    """Of the entry."""
    is_of_broker: bool = False
    spans: list[TakenSpan] = field(default_factory=list[TakenSpan])
    """Log events included."""
    records: list[RecordRow] = field(default_factory=list[RecordRow])
    letters: list[DeadLetter] = field(default_factory=list[DeadLetter])
    again: list[Again] = field(default_factory=list[Again])
    """Records that are to wait again."""
    dropped: Dropped = field(default_factory=lambda: NONE_DROPPED)
    """Drops that a sender reported."""

    def __len__(self) -> int:
        return len(self.spans) + len(self.records) + len(self.letters)


def read_entry(entry: Entry, registry: ProfileRegistry, limits: Limits) -> Contents:
    """Read an entry of the log.

    Args:
        entry: The entry.
        registry: Finds what a record means by its profile.
        limits: Of an item and of its parts: messages of brokers were not looked at before.

    Cost: about 25 µs for a span, 20 for a record, and what their size costs.
    """
    item = entry.item
    reader = _Reader(item, registry, limits)
    body = bytes(item.body)
    try:
        match item.kind:
            case Kind.SPANS:
                reader.spans(body)
            case Kind.LOGS:
                reader.logs(body)
            case Kind.RECORDS:
                reader.records(read_records_body(body, limits), len(body))
            case Kind.RECORD:
                reader.records([read_json(body)], len(body))
            case Kind.LETTER:
                reader.letter(body)
            case Kind.DROPS:
                reader.contents.dropped = unpack_dropped(body)
            case Kind.AGAIN:
                reader.contents.again.append(unpack_again(body))
    except DataError as error:
        reader.refuse(_MESSAGES[item.kind], "invalid_message", str(error), body)
    return reader.contents


def put_aside(entry: Entry, reason: str, message: str) -> Contents:
    """A letter in the place of everything that an entry holds."""
    reader = _Reader(entry.item, None, Limits())
    reader.refuse(_MESSAGES[entry.item.kind], reason, message, bytes(entry.item.body))
    return reader.contents


def trace_body(spans: Iterable[TakenSpan]) -> bytes:
    """Write spans of one trace as an OTLP `TracesData`."""
    groups: dict[int, tuple[Head, list[bytes]]] = {}
    for each in spans:
        group = groups.setdefault(id(each.head), (each.head, []))
        group[1].append(wire_field(2, each.message))
    return b"".join(
        wire_field(1, head_field(resource) + wire_field(2, head_field(scope) + b"".join(messages)))
        for (resource, scope), messages in groups.values()
    )


class _Reader:
    """Collects what is found in one item.

    Args:
        item: The item.
        registry: Finds profiles; None where no record is read.
        limits: Of what is read.
    """

    def __init__(self, item: Item, registry: ProfileRegistry | None, limits: Limits) -> None:
        self.contents = Contents(
            space=item.space, received_ns=item.received_ns, size_bytes=len(item.body),
            is_of_broker=item.is_of_broker,
        )  # fmt: skip
        self._source, self._registry, self._limits = item.source, registry, limits
        self._places = item.places

    def spans(self, body: bytes) -> None:
        """Read an `ExportTraceServiceRequest`."""
        found = decode_protobuf(body, self._limits)
        for batch in found.batches:
            self._keep(batch.spans, batch.wire)
        for each in found.refused:
            uid = trace_of(each.payload)
            self.refuse(LetterKind.SPAN, "invalid_span", each.message, each.payload, uid)

    def logs(self, body: bytes) -> None:
        """Read an `ExportLogsServiceRequest`: records, and events that go the way of spans."""
        found = decode_logs_protobuf(body, self._limits)
        self.records(found.items, len(body))
        self._keep(found.events, None)
        for reason, parts in (
            ("invalid_record", found.refused),
            (INVALID_EVENT, found.refused_events),
        ):
            for each in parts:
                self.refuse(LetterKind.LOG, reason, each.message, each.payload)

    def records(self, items: Sequence[object], size: int) -> None:
        """Check records, as they were read from JSON of that size."""
        max_bytes = self._limits.max_item if size > self._limits.max_item else None
        for index, each in enumerate(items):
            try:
                checked = check_record(each, max_bytes)
                if isinstance(checked.item, ScoredItem):
                    rows = self._score_rows(checked)
                    if not (rows or checked.item.score.is_event):
                        raise DataError(self._why_unwatched(checked.item.score.name))
                    self.contents.records += rows
                else:
                    self.contents.records.append(self._row(checked, index))
            except DataError as error:
                payload = json_bytes(each)
                self.refuse(LetterKind.RECORD, "invalid_record", str(error), payload)

    def letter(self, body: bytes) -> None:
        """Take what a receiver refused."""
        contents = self.contents
        letter = unpack_letter(body, contents.space, self._source, contents.received_ns)
        contents.letters.append(letter)

    def refuse(
        self, kind: LetterKind, reason: str, message: str, payload: bytes, uid: str = ""
    ) -> None:
        """Put something aside; its sender was answered, and will not send it again."""
        space, now_ns = self.contents.space, self.contents.received_ns
        most = self._limits.max_inflated
        self.contents.letters.append(
            make_letter(space, kind, reason, message, self._source, payload, now_ns, most, uid)
        )

    def _keep(self, spans: Sequence[Span], wire: bytes | None) -> None:
        if not spans:
            return
        places = None if wire is None else span_places(wire)
        if wire is None or places is None:
            spans = _grouped(spans)
            wire = encode_request(spans).SerializeToString()
            places = span_places(wire) or []
        heads: dict[tuple[int, int], Head] = {}
        for span, place, (size, checksum) in zip(spans, places, span_ranks(wire), strict=True):
            at, length, resource_at, resource_size, scope_at, scope_size = place
            head = heads.get((resource_at, scope_at))
            if head is None:
                head = heads[resource_at, scope_at] = (
                    wire[resource_at : resource_at + resource_size],
                    wire[scope_at : scope_at + scope_size],
                )
            key = SpanKey(span.end_ns, size, checksum)
            taken = TakenSpan(span=span, key=key, head=head, message=wire[at : at + length])
            self.contents.spans.append(taken)
        for item in scored_items(spans):  # which are events all the same
            try:
                self.contents.records += self._score_rows(check_record(item))
            except DataError as error:
                payload = json_bytes(item)
                self.refuse(LetterKind.RECORD, "invalid_record", str(error), payload)

    def _score_rows(self, checked: CheckedRecord) -> list[RecordRow]:
        if self._registry is None:
            return []
        return score_rows(checked, self._registry, self.contents.space, self.contents.received_ns)

    def _why_unwatched(self, name: str) -> str:
        fault = self._registry and self._registry.lacks_place(self.contents.space, [name])
        if fault:
            return f"score {name!r}: {fault}, then replay this letter"
        return (
            f"score {name!r}: no active profile names it; write it under `scores` of one, or start "
            "the collector with --scores, which gives 100 scores a profile of their own"
        )

    def _row(self, checked: CheckedRecord, index: int) -> RecordRow:
        item, contents = checked.item, self.contents
        meant = self._registry and self._registry.resolve(contents.space, item.profile)
        # Those of one request that do not say when they were made keep their order in a session.
        is_dated = isinstance(item.created_at, int)
        place = self._places[index] if index < len(self._places) else index
        return RecordRow(
            space=contents.space,
            uid=checked.uid,
            digest=checked.digest,
            profile_ref=item.profile,
            profile_uid=meant.uid if meant else "",
            profile_name=meant.profile.name if meant else "",
            alias=meant.profile.alias if meant else "",
            record_id=item.record_id or "",
            session_id=item.session_id or "",
            trace_id=item.trace_id,
            created_ns=item.created_at
            if isinstance(item.created_at, int)
            else contents.received_ns + place,
            received_ns=contents.received_ns,
            context=item.context,
            tags=item.tags or NO_TAGS,
            is_dated=is_dated,
        )


def _grouped(spans: Iterable[Span]) -> list[Span]:
    """Put spans into the order in which `encode_request` writes them."""
    groups: dict[int, dict[Scope, list[Span]]] = {}
    for span in spans:
        groups.setdefault(id(span.resource), {}).setdefault(span.scope, []).append(span)
    return [span for scopes in groups.values() for part in scopes.values() for span in part]
