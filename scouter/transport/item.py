"""A record on its way: a snapshot that nobody can change any more."""

import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from scouter.model.record import RecordSnapshot

if TYPE_CHECKING:
    from pydantic import JsonValue  # at run time it loads half of pydantic

_FIXED_BYTES: Final = 480
"""Fixed fields and objects of one waiting record."""
_TAG_BYTES: Final = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordItem:
    """One accepted record on its way to the collector."""

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

    @property
    def context(self) -> "JsonValue":
        """The context, read anew."""
        return json.loads(self.context_json)

    def to_wire(self) -> "dict[str, JsonValue]":
        """The JSON object of `POST /v1/records` and of the topic `scouter.records`."""
        return {**self.head(), "context": self.context}

    def head(self) -> "dict[str, JsonValue]":
        """The same without the context."""
        return {
            "uid": self.uid,
            "profile": self.profile,
            "record_id": self.record_id,
            "session_id": self.session_id,
            "trace_id": self.trace_id,
            "created_at": self.created_ns,
            "tags": dict(self.tags),
        }


def record_item(profile: str, snapshot: RecordSnapshot) -> RecordItem:
    """Name the fields of a record's snapshot.

    Args:
        profile: Uid of the profile.
        snapshot: Of a frozen record.
    """
    uid, record_id, session_id, trace_id, created_ns, context_json, tags = snapshot
    return RecordItem(
        profile=profile,
        uid=uid,
        record_id=record_id,
        session_id=session_id,
        trace_id=trace_id,
        created_ns=created_ns,
        context_json=context_json,
        tags=tags,
    )


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
