"""What a transport carries for a record: a snapshot that nobody can change any more."""

import marshal
from collections.abc import Mapping
from dataclasses import dataclass

from pydantic import JsonValue

from scouter.model.record import EvalRecord


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
    context: JsonValue
    tags: Mapping[str, str]

    def to_wire(self) -> dict[str, JsonValue]:
        """The JSON object of `POST /v1/records` and of the topic `scouter.records`."""
        return {
            "uid": self.uid,
            "profile": self.profile,
            "record_id": self.record_id,
            "session_id": self.session_id,
            "trace_id": self.trace_id,
            "created_at": self.created_ns,
            "context": self.context,
            "tags": dict(self.tags),
        }


def record_item(profile: str, record: EvalRecord) -> RecordItem:
    """Take the snapshot of a frozen record.

    Args:
        profile: Uid of the profile.
        record: A record whose context is plain JSON already; it is copied, so that changes to
            the record's own tree do not reach the item.

    Cost: linear in the size of the context, in C.
    """
    return RecordItem(
        profile=profile,
        uid=record.uid,
        record_id=record.record_id,
        session_id=record.session_id,
        trace_id=record.trace_id,
        created_ns=record.created_ns,
        context=marshal.loads(marshal.dumps(record.context)),  # noqa: S302 - our own bytes
        tags=dict(record.tag_map),
    )
