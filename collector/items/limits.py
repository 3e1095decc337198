"""Limits of one request. Anything beyond is refused before it costs memory."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Self, TypeAlias

from collector.settings.model import CollectorSettings
from scouter.errors import DataError
from scouter.model.attributes import MAX_ITEMS
from scouter.model.span import Attributes, AttributeValue, Span

MAX_JSON_MARKS: Final = 2_000_000
"""Commas, colons and brackets in a JSON text: each value behind one costs about 70 bytes."""

_Group: TypeAlias = Attributes | tuple[AttributeValue, ...]


class TooLargeError(DataError):
    """A request as a whole is beyond a limit; the same in smaller parts can be taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one request, whichever way it comes in.

    Sizes are bytes as decoded: OTLP protobuf, or JSON without white space.
    """

    max_body: int = 16 * 2**20
    """Bytes as sent."""
    max_inflated: int = 32 * 2**20
    """Bytes after decompression."""
    max_items: int = 20_000
    """Spans, log records or records in one request."""
    max_item: int = 4 * 2**20
    """Bytes of one span or record with all that it holds."""
    max_attributes: int = MAX_ITEMS
    """Attributes of one span, and its events and links with theirs."""
    max_resource: int = 64 * 2**10
    """Bytes of a resource or scope: they are stored with every span."""
    max_values: int = 1_000_000
    """Attributes and values inside them of all items of a request of more than 2 MiB."""

    @classmethod
    def of(cls, settings: CollectorSettings) -> Self:
        """Take the limits of a collector's settings."""
        return cls(
            max_body=settings.max_body,
            max_inflated=settings.max_inflated,
            max_items=settings.max_items,
            max_item=settings.max_item,
            max_attributes=settings.max_attributes,
        )

    def check_items(self, count: int) -> None:
        """Refuse a request with too many items.

        Raises:
            TooLargeError: There are more than `max_items`.
        """
        if count > self.max_items:
            raise TooLargeError(
                f"more than {self.max_items} items in one request; send smaller batches"
            )

    def check_resource(self, size: int, items: int) -> int:
        """Refuse a resource or scope that would be multiplied by its items.

        Returns:
            Bytes that storing it with every item takes.

        Raises:
            TooLargeError: It is larger than `max_resource`.
        """
        if size > self.max_resource:
            raise TooLargeError(
                f"a resource or scope of {size} bytes; at most {self.max_resource} are taken"
            )
        return size * items

    def check_copies(self, size: int) -> None:
        """Refuse a request whose resources, stored with every item, are too much.

        Raises:
            TooLargeError: They are more than `max_inflated` bytes.
        """
        if size > self.max_inflated:
            raise TooLargeError(
                f"resources of {size} bytes over all spans of a request; at most "
                f"{self.max_inflated} are taken: send smaller batches"
            )

    def has_room_for(self, span: Span) -> bool:
        """Tell whether a span has no more attributes, events and links than `max_attributes`."""
        count = len(span.attributes)
        if span.events or span.links:
            count += len(span.events) + len(span.links)
            count += sum(len(each.attributes) for each in (*span.events, *span.links))
        return count <= self.max_attributes


def check_values(values: int, limits: Limits) -> None:
    """Refuse a request with too many values.

    Raises:
        TooLargeError: There are more than `max_values`.
    """
    if values > limits.max_values:
        raise TooLargeError(
            f"more than {limits.max_values} values in one request; send smaller batches"
        )


def check_json_marks(data: bytes) -> None:
    """Refuse JSON that would become far more memory than text.

    Raises:
        TooLargeError: It holds more than `MAX_JSON_MARKS` commas and brackets.

    Cost: three scans of the bytes, about 1 ms for 10 MB; nothing for small texts.
    """
    if len(data) > MAX_JSON_MARKS and sum(map(data.count, (b",", b"[", b"{"))) > MAX_JSON_MARKS:
        raise TooLargeError(
            f"more than {MAX_JSON_MARKS} commas and brackets in one request; send smaller batches"
        )


def count_values(spans: Iterable[Span]) -> int:
    """Count attributes and all values inside them.

    Cost: linear; about 50 ns for each value.
    """
    count = 0
    for span in spans:
        open_: list[_Group] = [span.attributes]
        open_.extend(each.attributes for each in (*span.events, *span.links))
        while open_:
            group = open_.pop()
            count += len(group)
            values = group if isinstance(group, tuple) else group.values()
            open_.extend(each for each in values if isinstance(each, Mapping | tuple))
    return count
