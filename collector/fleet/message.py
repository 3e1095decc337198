"""An item of the log as a message of Kafka, and back."""

from collections.abc import Mapping
from typing import Any, Final

from collector.log.port import Item, Kind

KIND: Final = "scouter-kind"
SPACE: Final = "scouter-space"
RECEIVED: Final = "scouter-received-ns"
SOURCE: Final = "scouter-source"
PARTS: Final = "scouter-parts"
"""Number of partitions by which it was split: a message without it was written by others."""
BEHIND: Final = "scouter-behind-ns"
PLACES: Final = "scouter-places"
_KINDS: Final = {kind.name.lower().encode(): kind for kind in Kind}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}


def headers_of(item: Item, partitions: int) -> list[tuple[str, bytes]]:
    """The headers of a message whose value is the body of an item.

    Args:
        item: The item, split.
        partitions: Number of partitions by which it was split.
    """
    headers = [
        (KIND, _NAMES[item.kind]),
        (SPACE, item.space.encode("utf-8", "replace")),
        (RECEIVED, b"%d" % item.received_ns),
        (SOURCE, item.source.encode("utf-8", "replace")),
        (PARTS, b"%d" % partitions),
    ]
    if item.behind_ns:
        headers.append((BEHIND, b"%d" % item.behind_ns))
    if item.places:
        headers.append((PLACES, ",".join(map(str, item.places)).encode()))
    return headers


def item_of(
    message: Any,  # noqa: ANN401 - untyped client
    partitions: int,
    space: str,
    now_ns: int,
) -> tuple[Item, bool]:
    """Read a message.

    Args:
        message: As the client gives it.
        partitions: Number of the topic's partitions.
        space: Space of a message that names none.
        now_ns: Time of arrival of a message that names none.

    Returns:
        The item, and whether it lies where it belongs: others may have put it anywhere. A message
        of theirs is taken for an OTLP request of traces, unless it says what it is.
    """
    found: Mapping[str, bytes] = {name: value or b"" for name, value in message.headers or ()}
    kind = _KINDS.get(found.get(KIND, b""), Kind.SPANS)
    received_ns = _number(found.get(RECEIVED, b""))
    place = f"kafka:{message.topic}:{message.partition}:{message.offset}"
    item = Item(
        kind,
        found[SPACE].decode("utf-8", "replace") if found.get(SPACE) else space,
        now_ns if received_ns is None else received_ns,
        message.value or b"",
        found[SOURCE].decode("utf-8", "replace") if SOURCE in found else place,
        _number(found.get(BEHIND, b"")) or 0,
        _numbers(found.get(PLACES, b"")),
    )
    is_ours = KIND in found and received_ns is not None and SPACE in found
    return item, is_ours and found.get(PARTS) == b"%d" % partitions


def _number(text: bytes) -> int | None:
    return int(text) if text.isdigit() and len(text) < 20 else None


def _numbers(text: bytes) -> tuple[int, ...]:
    found = [_number(each) for each in text.split(b",")] if text else []
    return tuple(each for each in found if each is not None)
