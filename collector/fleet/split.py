"""An item of the log in parts, one for each partition that it has something for.

What belongs to one trace lies in one partition, so that one worker joins it. A request is cut by
its bytes: of a span no more than its trace id is read. What cannot be taken apart stays whole; the
worker makes a letter of it, wherever it lies.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, NamedTuple, cast
from zlib import crc32

from google.protobuf.message import DecodeError
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs

from collector.items.letters import (
    MAX_PAYLOAD,
    make_letter,
    pack_letter,
    unpack_again,
    unpack_letter,
)
from collector.items.limits import Limits
from collector.items.logs import EVENT_NAME, record_of_log
from collector.items.record_items import check_record, read_json, stored_text
from collector.items.wire import head_field, take_apart, wire_field
from collector.log.port import Item, Kind
from collector.split import split as split_by
from collector.store.bodies import span_places
from collector.store.letters import LetterKind
from scouter.errors import DataError
from scouter.model.ids import is_trace_id
from scouter.model.otlp import read_attributes
from scouter.model.otlp_logs import event_name
from scouter.model.protobuf_fields import fields, tag_of
from scouter.model.span import AttributeValue
from scouter.transport.kafka_client import partition_of

TOO_LARGE: Final = "too_large"
"""Reason of a letter for what no message can hold."""
_FIRST: Final = tag_of(1)
_TRACE_START: Final = b"\x0a\x10"
"""Begin of a span whose first field is a trace id of 16 bytes, as usual senders write it."""
_FRAME_BYTES: Final = 12
"""Bytes around a message, a scope or a resource, at most."""
_LETTER_HEAD_BYTES: Final = 8_192
"""Bytes of a letter beside its payload, at most."""
_LIMITS: Final = Limits(max_items=2**31)
"""The receivers have looked at the number."""
_ITEM_LETTERS: Final = {
    Kind.SPANS: LetterKind.SPAN,
    Kind.LOGS: LetterKind.LOG,
    Kind.RECORDS: LetterKind.RECORD,
    Kind.RECORD: LetterKind.RECORD,
    Kind.LETTER: LetterKind.RECORDS_MESSAGE,
    Kind.DROPS: LetterKind.RECORDS_MESSAGE,
    Kind.AGAIN: LetterKind.RECORDS_MESSAGE,
}


@dataclass(frozen=True, slots=True)
class Part:
    """What an item has for one partition."""

    partition: int
    key: bytes
    """The first trace id in it as lower-case hex, or what else its partition was chosen by."""
    item: Item


class _Head(NamedTuple):
    """Fields of a resource group and of a scope group beside what they hold."""

    resource: bytes
    scope: bytes


class _Piece(NamedTuple):
    """The smallest part of an item: a span, a log record or a record."""

    key: bytes
    content: bytes
    head: _Head | None = None
    place: int | None = None
    """Number of a record among those of the item."""


def split(item: Item, partitions: int) -> list[Part]:
    """Cut an item by partition.

    Args:
        item: The item.
        partitions: Their number.

    Returns:
        Parts that together hold what the item holds, one for each partition; the item itself
        where it is for one alone.

    Cost: about 2 µs for a span and 3 for a trace; for a record what reading its JSON takes.
    """
    pieces = _pieces(item)
    if not pieces:
        key = _key(item)
        return [Part(partition_of(key, partitions), key, item)]
    numbers: dict[bytes, int] = {}
    groups: dict[int, list[_Piece]] = {}
    for piece in pieces:
        number = numbers.get(piece.key)
        if number is None:
            number = numbers[piece.key] = partition_of(piece.key, partitions)
        groups.setdefault(number, []).append(piece)
    if len(groups) == 1:
        return [Part(number, pieces[0].key, item) for number in groups]
    return [Part(number, part[0].key, _item(item, part)) for number, part in groups.items()]


def split_to_fit(part: Part, max_bytes: int) -> list[Part]:
    """Cut a part into such that no body is larger than a limit: by traces, then within one.

    Args:
        part: A part.
        max_bytes: The most that a body may have.

    Returns:
        The part itself, if it fits; letters in the place of what does not even alone.
    """
    item = part.item
    if len(item.body) <= max_bytes:
        return [part]
    pieces = _pieces(item)
    if not pieces:
        return [_refused(part, max_bytes)]
    found: list[Part] = []
    for packed in _packed(pieces, max_bytes):
        key, cut = packed[0].key, _item(item, packed)
        one = Part(part.partition, key, cut)
        found.append(one if len(cut.body) <= max_bytes else _refused(one, max_bytes))
    return found


# --- pieces -------------------------------------------------------------------------------------


def _pieces(item: Item) -> list[_Piece]:
    """What an item can be cut into; nothing where it cannot."""
    body = bytes(item.body)
    try:
        match item.kind:
            case Kind.SPANS:
                return _spans(body)
            case Kind.LOGS:
                return _logs(body, item.places)
            case Kind.RECORDS:
                return _records(body, item.places)
            case Kind.RECORD | Kind.LETTER | Kind.DROPS | Kind.AGAIN:
                return []
    except (DataError, DecodeError):
        return []


def _spans(body: bytes) -> list[_Piece]:
    places = span_places(body)
    if places is None:  # written as no usual sender does
        return _of_groups(body, lambda span, _: (_trace_of(span), None))
    pieces: list[_Piece] = []
    heads: dict[tuple[int, int], _Head] = {}
    resources: dict[int, bytes] = {}
    names: dict[bytes, bytes] = {}
    for at, size, resource_at, resource_size, scope_at, scope_size in places:
        head = heads.get((resource_at, scope_at))
        if head is None:
            resource = resources.get(resource_at)
            if resource is None:
                resource = head_field(body[resource_at : resource_at + resource_size])
                resources[resource_at] = resource
            scope = head_field(body[scope_at : scope_at + scope_size])
            head = heads[resource_at, scope_at] = _Head(resource, scope)
        content = body[at : at + size]
        trace = content[2:18] if content.startswith(_TRACE_START) else None
        name = None if trace is None else names.get(trace)
        if name is None:
            name = _trace_of(content) if trace is None else trace.hex().encode()
            if trace is not None:
                names[trace] = name
        pieces.append(_Piece(name, content, head))
    return pieces


def _logs(body: bytes, places: Sequence[int]) -> list[_Piece]:
    count = -1
    resources: dict[bytes, dict[str, AttributeValue]] = {}

    def key_of(content: bytes, head: _Head) -> tuple[bytes, int | None]:
        nonlocal count
        try:
            log = LogRecord.FromString(content)
        except (DecodeError, RecursionError):
            return b"", None
        if event_name(log) != EVENT_NAME:
            return log.trace_id.hex().encode(), None
        count += 1
        place = places[count] if count < len(places) else count
        resource = resources.get(head.resource)
        if resource is None:
            group = ResourceLogs.FromString(head.resource)
            resource = resources[head.resource] = read_attributes(group.resource.attributes)
        key = _key_of_record(record_of_log(log, resource))
        return key or log.trace_id.hex().encode(), place

    return _of_groups(body, key_of)


def _of_groups(
    body: bytes, key_of: Callable[[bytes, _Head], tuple[bytes, int | None]]
) -> list[_Piece]:
    pieces: list[_Piece] = []
    for group in take_apart(body, _LIMITS):
        head = _Head(group.resource, group.scope)
        for each in group.items:
            content = bytes(each)
            key, place = key_of(content, head)
            pieces.append(_Piece(key, content, head, place))
    return pieces


def _trace_of(span: bytes) -> bytes:
    """The trace id of a span as hex; empty without one."""
    try:
        found = [span[at:end] for tag, _, at, end in fields(span) if tag == _FIRST]
    except DataError:
        return b""
    return found[-1].hex().encode() if found else b""


def _records(body: bytes, places: Sequence[int]) -> list[_Piece]:
    pieces: list[_Piece] = []
    for index, (value, text) in enumerate(_record_texts(body)):
        place = places[index] if index < len(places) else index
        pieces.append(_Piece(_key_of_record(value), text, None, place))
    return pieces


def _record_texts(body: bytes) -> list[tuple[object, bytes]]:
    """The records in the body of `POST /v1/records`, each as it is written there.

    Raises:
        DataError: The body is something else.
    """
    try:
        return _Records(body.decode()).read()
    except (ValueError, IndexError, RecursionError) as error:
        raise DataError(f"no records: {error}") from error


class _Records:
    """Reads an object with a list of records."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._scan = json.JSONDecoder(parse_constant=_no_constant).raw_decode

    def read(self) -> list[tuple[object, bytes]]:
        found: list[tuple[object, bytes]] = []
        self._take("{")
        while True:
            name, _ = self._value()
            self._take(":")
            if name == "records":
                found = self._list()
            else:
                self._value()
            if not self._more("}"):
                break
        if self._next():
            raise ValueError("something is behind the object")
        return found

    def _list(self) -> list[tuple[object, bytes]]:
        found: list[tuple[object, bytes]] = []
        self._take("[")
        if self._next() == "]":
            self._take("]")
            return found
        while True:
            value, text = self._value()
            found.append((value, text.encode()))
            if not self._more("]"):
                return found

    def _value(self) -> tuple[object, str]:
        self._next()
        start = self._at
        value, self._at = self._scan(self._text, start)
        return value, self._text[start : self._at]

    def _next(self) -> str:
        """The next character that is no white space."""
        while (found := self._text[self._at : self._at + 1]) and found in " \t\n\r":
            self._at += 1
        return found

    def _take(self, wanted: str) -> None:
        if self._next() != wanted:
            raise ValueError(f"no {wanted!r} at {self._at}")
        self._at += 1

    def _more(self, end: str) -> bool:
        """Pass over a comma or an end; True for a comma."""
        found = self._next()
        if found not in (",", end):
            raise ValueError(f"no {end!r} at {self._at}")
        self._at += 1
        return found == ","


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


# --- keys ---------------------------------------------------------------------------------------


def _key(item: Item) -> bytes:
    """What the partition of a whole item is chosen by."""
    body = bytes(item.body)
    try:
        if item.kind == Kind.RECORD:
            return _key_of_record(read_json(body)) or _sum(body)
        if item.kind == Kind.AGAIN:
            again = unpack_again(body)
            return (again.trace_id or again.uid).encode("utf-8", "replace")
        if item.kind == Kind.LETTER:
            names = json.loads(body.partition(b"\n")[0])
            if isinstance(names, list) and len(cast("list[object]", names)) == 4:
                uid = cast("list[object]", names)[3]
                if isinstance(uid, str) and is_trace_id(uid):
                    return uid.encode()
    except (ValueError, DataError):
        pass
    return _sum(body)


def _sum(body: bytes) -> bytes:
    return b"%08x" % crc32(body)


def _key_of_record(value: object) -> bytes:
    """Trace id of a record, else its uid; empty for what is no record."""
    record = cast("dict[str, object]", value)
    if isinstance(value, dict):
        trace, uid = record.get("trace_id"), stored_text(record.get("uid"))
        if isinstance(trace, str) and is_trace_id(trace.lower()):
            return trace.lower().encode()
        if not trace and isinstance(uid, str) and uid:
            return uid.encode("utf-8", "replace")
    try:
        checked = check_record(record)
    except DataError:
        return b""
    return (checked.item.trace_id or checked.uid).encode("utf-8", "replace")


# --- writing ------------------------------------------------------------------------------------


def _packed(pieces: Sequence[_Piece], max_bytes: int) -> Iterator[list[_Piece]]:
    """Groups of pieces that fit; traces stay whole where they do."""
    by_key: dict[bytes, list[_Piece]] = {}
    for piece in pieces:
        by_key.setdefault(piece.key, []).append(piece)
    room = (max_bytes - 2 * _FRAME_BYTES,)
    for traces in split_by(by_key.values(), lambda same: (sum(map(_size_of, same)),), room):
        yield from split_by(chain.from_iterable(traces), lambda piece: (_size_of(piece),), room)


def _size_of(piece: _Piece) -> int:
    """The most bytes that a piece takes, with a head of its own."""
    size = len(piece.content) + _FRAME_BYTES
    if piece.head is None:
        return size
    return size + len(piece.head.resource) + len(piece.head.scope) + 2 * _FRAME_BYTES


def _item(item: Item, pieces: Sequence[_Piece]) -> Item:
    """An item with only some pieces."""
    places = tuple(each.place for each in pieces if each.place is not None)
    if item.kind == Kind.RECORDS:
        body = b'{"records":[' + b",".join(each.content for each in pieces) + b"]}"
    else:
        body = _request(pieces)
    return replace(item, body=body, places=places)


def _request(pieces: Iterable[_Piece]) -> bytes:
    """An OTLP request, of traces or of logs."""
    resources: dict[int, tuple[bytes, dict[int, tuple[bytes, list[bytes]]]]] = {}
    for piece in pieces:
        head = cast("_Head", piece.head)
        _, scopes = resources.setdefault(id(head.resource), (head.resource, {}))
        _, messages = scopes.setdefault(id(head), (head.scope, []))
        messages.append(wire_field(2, piece.content))
    return b"".join(
        wire_field(1, resource + b"".join(
            wire_field(2, scope + b"".join(messages)) for scope, messages in scopes.values()
        ))
        for resource, scopes in resources.values()
    )  # fmt: skip


def _refused(part: Part, max_bytes: int) -> Part:
    """A letter in the place of what no message can hold."""
    item, payload = part.item, bytes(part.item.body)
    kind, reason, uid = _ITEM_LETTERS[item.kind], TOO_LARGE, ""
    size, room = len(payload), max_bytes - _LETTER_HEAD_BYTES
    message = f"{size} bytes; a message of Kafka holds {max_bytes}"
    if item.kind == Kind.SPANS and is_trace_id(key := part.key.decode()):
        uid = key
    if item.kind == Kind.LETTER:
        with contextlib.suppress(DataError):
            letter = unpack_letter(payload, item.space, item.source, item.received_ns)
            kind, reason, payload = letter.kind, letter.reason, letter.payload
            message, uid = letter.message, letter.uid
    if room <= MAX_PAYLOAD and len(payload) > room:
        size, payload = len(payload), payload[: max(0, room)]
        message += f" (the first {len(payload)} of {size} bytes are here)"
    letter = make_letter(
        item.space, kind, reason, message, item.source, payload, item.received_ns, room, uid
    )
    cut = replace(item, kind=Kind.LETTER, body=pack_letter(letter), places=())
    return Part(part.partition, part.key, cut)
