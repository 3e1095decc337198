"""OTLP requests taken apart before they are parsed, so that one bad item costs only itself.

Traces and logs have one frame: a request holds resource groups (field 1), these hold their
resource (1) and scope groups (2), these hold their scope (1) and the items (2). Protobuf refuses a
whole message for one text that is not UTF-8 or one value that is nested too deeply, and parsing
multiplies empty messages by 30 in memory; both end at the item here.

Source: Protocol Buffers encoding; opentelemetry-proto `trace.proto`, `logs.proto`.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from google.protobuf.message import DecodeError, Message

from collector.items.limits import Limits
from scouter.errors import DataError
from scouter.model.protobuf_fields import fields, tag_of

SMALL: Final = 2 * 2**20
"""Bytes of a request that is parsed in one go."""
_PART: Final = 2**19
"""Bytes that are parsed at a time of a larger one: what protobuf makes of them is freed again."""

_GROUP: Final = tag_of(1)
"""Tag of a resource group."""
_MEMBER: Final = tag_of(2)
"""Tag of a scope group and of an item. A field 2 of another wire type is unknown to a parser."""

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """An item that could not be used: why, and the smallest request that holds it."""

    message: str
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Parsed(Generic[M]):
    """A request, and the bytes that it was parsed from."""

    data: bytes
    message: M


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Items that share resource and scope, as bytes."""

    resource: bytes
    """All fields of the resource group but its scope groups."""
    scope: bytes
    """All fields of the scope group but its items."""
    items: Sequence[memoryview]

    def request(self, items: Sequence[memoryview]) -> bytes:
        """The bytes of a request with only these items."""
        scope_group = self.scope + b"".join(wire_field(2, each) for each in items)
        return wire_field(1, self.resource + wire_field(2, scope_group))


class RequestParts(Generic[M]):
    """Parses a request in parts of bounded size, and finds the items that cannot be parsed.

    Args:
        kind: The request's message.
        limits: Of the request.
        mend: Writes a request anew that cannot be parsed or has an item that is too large; None
            where it cannot, either.
    """

    def __init__(
        self, kind: type[M], limits: Limits, mend: Callable[[bytes], bytes | None] | None = None
    ) -> None:
        self._kind, self._limits = kind, limits
        self._mend: Callable[[bytes], bytes | None] = mend or (lambda _: None)

    def parse(self, data: bytes) -> Iterator[Parsed[M] | Refused]:
        """Requests that together hold the good items in order, and each bad one.

        Raises:
            DataError: The bytes are no such request.
            TooLargeError: It is beyond a limit as a whole.

        Cost: a small good request is parsed once; else about 1 µs more for each item.
        """
        if len(data) <= SMALL:
            try:
                yield Parsed(data=data, message=self._kind.FromString(data))
            except (DecodeError, RecursionError):
                pass
            else:
                return
        count = copies = 0
        for group in take_apart(data, self._limits):
            count += len(group.items)
            self._limits.check_items(count)
            copies += self._limits.check_resource(
                len(group.resource) + len(group.scope), len(group.items)
            )
            self._limits.check_copies(copies)
            if self._has_good_frame(group):
                yield from self._of_group(group)
            else:
                for item in group.items:
                    payload = group.request([item])
                    yield self._mended(payload, "its resource or scope cannot be read")

    def _has_good_frame(self, group: Group) -> bool:
        frame = group.request(())
        try:
            self._kind.FromString(frame)
        except (DecodeError, RecursionError) as error:
            if self._mend(frame) is None:
                raise DataError(f"a resource or scope cannot be read: {error}") from error
            return False
        return True

    def _mended(self, payload: bytes, problem: str) -> Parsed[M] | Refused:
        """A request that holds one item, made good or refused."""
        mended = self._mend(payload)
        if mended is None:
            return Refused(message=problem, payload=payload)
        return Parsed(data=mended, message=self._kind.FromString(mended))

    def _of_group(self, group: Group) -> Iterator[Parsed[M] | Refused]:
        part: list[memoryview] = []
        size = 0
        for item in group.items:
            if len(item) > self._limits.max_item:
                if part:
                    yield from self._of_part(group, part)
                    part, size = [], 0
                message = f"{len(item)} bytes; at most {self._limits.max_item} of an item are taken"
                yield self._mended(group.request([item]), message)
                continue
            if part and size + len(item) > _PART:
                yield from self._of_part(group, part)
                part, size = [], 0
            part.append(item)
            size += len(item)
        if part:
            yield from self._of_part(group, part)

    def _of_part(self, group: Group, part: Sequence[memoryview]) -> Iterator[Parsed[M] | Refused]:
        """Parse, and where it fails look for the bad items by halves."""
        payload = group.request(part)
        try:
            yield Parsed(data=payload, message=self._kind.FromString(payload))
        except (DecodeError, RecursionError) as error:
            if len(part) == 1:
                yield self._mended(payload, f"cannot be read, or is nested too deeply: {error}")
                return
            half = len(part) // 2
            yield from self._of_part(group, part[:half])
            yield from self._of_part(group, part[half:])


def take_apart(data: bytes, limits: Limits) -> Iterator[Group]:
    """Split a request into groups of unparsed items.

    Raises:
        DataError: The frame is broken.
        TooLargeError: There are more groups than items may be.
    """
    groups = 0
    view = memoryview(data)
    for tag, _, start, end in fields(view):
        if tag != _GROUP:
            continue
        head: list[memoryview] = []
        scopes: list[tuple[int, int]] = []
        for inner, begin, content, stop in fields(view, start, end):
            if inner == _MEMBER:
                scopes.append((content, stop))
            else:
                head.append(view[begin:stop])
            groups += 1
            limits.check_items(groups)
        groups += 1
        limits.check_items(groups)
        resource = b"".join(head)
        for content, stop in scopes:
            yield _group(resource, view[content:stop], limits)


def _group(resource: bytes, scope: memoryview, limits: Limits) -> Group:
    head: list[memoryview] = []
    items: list[memoryview] = []
    for tag, begin, content, stop in fields(scope):
        if tag == _MEMBER:
            items.append(scope[content:stop])
        else:
            head.append(scope[begin:stop])
        limits.check_items(max(len(items), len(head)))
    return Group(resource=resource, scope=b"".join(head), items=items)


def wire_field(number: int, content: bytes | memoryview) -> bytes:
    """Write a field with a length; its number is below 16."""
    length, size = len(content), bytearray([number << 3 | 2])
    while length > 127:
        size.append(length & 127 | 128)
        length >>= 7
    size.append(length)
    return bytes(size) + content


def head_field(message: bytes) -> bytes:
    """Write a resource or a scope as the first field of its group, unless it is empty."""
    return wire_field(1, message) if message else b""
