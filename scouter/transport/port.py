"""The port between the SDK and whatever carries its records and spans away."""

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from scouter.errors import DataError
from scouter.model.json_value import plain_text
from scouter.model.record import RecordSnapshot
from scouter.transport.drops import NONE_DROPPED, Dropped

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan


_FIXED_BYTES: Final = 480
"""Fixed fields and objects of one waiting record."""
_TAG_BYTES: Final = 120


@dataclass(frozen=True, slots=True)
class RecordItem:
    """One accepted record on its way to the collector: `RecordItem(profile, *snapshot)`.

    A snapshot that nobody can change any more.
    """

    profile: str
    """Uid of the profile that judges it."""
    uid: str
    record_id: str
    session_id: str
    trace_id: str | None
    created_ns: int
    context_json: bytes
    """The context, written when the record was inserted: JSON in UTF-8."""
    tags: Mapping[str, str]


def text_bytes(text: str) -> int:
    """Estimate the bytes of a text: no fewer than in memory or, as UTF-8, on the wire.

    A character takes 1, 2 or 4 bytes in memory and up to one more as UTF-8, but for those of 4.
    """
    return len(text) if text.isascii() else sys.getsizeof(text) + len(text)


def estimate_bytes(snapshot: RecordSnapshot) -> int:
    """Estimate the room that a snapshot takes: its texts and a fixed part for the objects."""
    _, record_id, session_id, _, _, context_json, tags = snapshot
    size = _FIXED_BYTES + len(context_json) + text_bytes(record_id) + text_bytes(session_id)
    if tags:
        size += sum(text_bytes(key) + text_bytes(tags[key]) + _TAG_BYTES for key in tags)
    return size


NOTHING_WRITTEN: Final = "nothing of the batch can be written"
"""Said of a batch that no request is sent for; so none reports drops."""
_HEAD: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_UNENCODABLE: Final = (ValueError, TypeError)
"""Errors of `json`: for an id that is not text, or an integer with too many digits to write."""


def encode_record(item: RecordItem) -> bytes | None:
    """Write a record as one JSON object; None if that cannot be done."""
    try:
        return _written(item)
    except _UNENCODABLE:
        return None


def encode_records(items: Sequence[RecordItem]) -> tuple[bytes, int]:
    """Write records as the body of `POST /v1/records`.

    Args:
        items: The records.

    Returns:
        The body, and how many records could not be written and are not in it.

    Raises:
        DataError: None can be written.
    """
    texts = [text for item in items if (text := encode_record(item)) is not None]
    if not texts:
        raise DataError(NOTHING_WRITTEN)
    return b'{"records":[' + b",".join(texts) + b"]}", len(items) - len(texts)


def _written(item: RecordItem) -> bytes:
    # A lone surrogate has no UTF-8 form; U+FFFD in its place loses nothing else.
    head = {
        "uid": item.uid,
        "profile": item.profile,
        "record_id": item.record_id,
        "session_id": item.session_id,
        "trace_id": item.trace_id,
        "created_at": item.created_ns,
        "tags": dict(item.tags),
    }
    text = plain_text(_HEAD.encode(head)).encode()
    return text[:-1] + b',"context":' + item.context_json + b"}"


class TooLargeError(DataError):
    """The far side refuses a batch by its size; it may take parts of it."""


class Transport(Protocol):
    """One open way to the far side, used by one thread at a time.

    A send returns when the far side has taken the whole batch for good, and got the report of
    what was dropped; sending the same batch again after an error is harmless, as the collector
    knows records by uid and spans by id.

    Raises (all sends):
        TransientError: Try the same batch again later.
        DataError: The far side will never take this batch, or nothing of it can be written.
        ConfigError: The transport itself can never work as configured.
    """

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records, and say what was dropped; returns how many were refused for good."""
        ...

    def send_spans(self, spans: Sequence["ReadableSpan"], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver finished spans, and say what was dropped; returns how many were refused."""
        ...

    def close(self) -> None:
        """Give up connections; nothing may be sent afterwards."""
        ...


class RemoteTransport(Transport, Protocol):
    """A transport that also takes spans that were written before, such as those on disk."""

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans written as one `ExportTraceServiceRequest`; returns as `send_spans`.

        Args:
            data: The request.
            count: Number of its spans, at least 1.
            dropped: Counts of dropped items.
        """
        ...


class MockTransport:
    """Counts and drops."""

    def __init__(self) -> None:
        self.records = 0
        self.spans = 0

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Count the records; refuses none."""
        self.records += len(items)
        return 0

    def send_spans(self, spans: Sequence["ReadableSpan"], dropped: Dropped = NONE_DROPPED) -> int:
        """Count the spans; refuses none."""
        self.spans += len(spans)
        return 0

    def close(self) -> None:
        """Nothing is open."""
