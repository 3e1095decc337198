"""EvalRecord: what an agent says about one piece of its work, to be evaluated by a profile."""

import datetime
import json
import time
from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final, Self, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.model.ids import is_trace_id, uuid7
from scouter.model.json_value import to_json_bytes, to_json_value
from scouter.model.pair import pair_of, pair_text
from scouter.model.short_text import given_text, short_text, stored_tags, tag_text


class EntityType(Enum):
    """The subject of a record.

    The original says `GenAI` in its published version and `Agent` later. Here and in the kinds
    below both names are members, and the same.
    """

    Agent = "Agent"
    GenAI = "Agent"


class RecordType(Enum):
    """The kind of a sent item."""

    AgentEval = "AgentEval"
    GenAIEval = "AgentEval"
    Trace = "Trace"


class DriftType(Enum):
    """The kind of thing that a profile watches."""

    Agent = "Agent"
    GenAI = "Agent"

    @property
    def to_string(self) -> str:
        """The name as text."""
        return self.value

    @staticmethod
    def from_value(value: str) -> "DriftType | None":
        """Find a member by any of its names, whatever their case; None for an unknown name."""
        wanted = value.casefold()
        for name, member in DriftType.__members__.items():
            if name.casefold() == wanted:
                return member
        return None


RecordSnapshot = tuple[str, str, str, str | None, int, bytes, Mapping[str, str]]
"""Uid, id, session, trace, time in nanoseconds, context as JSON in UTF-8, tags."""


_NO_TAGS: Final[Mapping[str, str]] = MappingProxyType({})
_UNREAD: Final = ...
"""Stands for the tree of a frozen context that nobody has read."""
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _id(field: str, value: object) -> str:
    return short_text(value if type(value) is str else given_text(field, value))


def checked_trace_id(value: str) -> str:
    """A trace id in the one form that records have it in, 32 lower-case hex digits.

    Raises:
        DataError: It is none.
    """
    text = given_text("trace_id", value).lower()
    if not is_trace_id(text):
        raise DataError(f"trace_id {text!r}: expected 32 hex digits, not all zero")
    return text


def _tag_pairs(tags: Mapping[str, str] | Iterable[str] | None) -> Iterable[tuple[str, str]]:
    """Tags given as a mapping, or as the `key=value` texts that `EvalRecord.tags` shows."""
    if not tags:
        return ()
    if isinstance(tags, Mapping):
        return cast("Mapping[str, str]", tags).items()
    if isinstance(tags, str) or not hasattr(tags, "__iter__"):
        raise DataError(f"tags {tags!r}: expected a mapping, or a list of 'key=value' texts")
    return [_tag_pair(tag) for tag in tags]


def _tag_pair(tag: object) -> tuple[str, str]:
    key, sign, value = pair_of(given_text("a tag", tag))
    if not sign or not key:
        raise DataError(f"tag {tag!r}: expected text of the form 'key=value'")
    return key, value


class EvalRecord:
    """One thing to evaluate: a context for the tasks to read, and how to find its trace.

    Until it is inserted into a queue a record can be changed; inserting takes a snapshot of the
    context (by the rule of `to_json_value`) and freezes it. Ids and tags are taken in the form in
    which they are stored (`short_text`).

    Args:
        context: Anything with a JSON form, usually a dict; `{}` if not given.
        id: The user's own name for the record; may be empty and may repeat. `record_id` is
            another word for it.
        session_id: Conversation that the record belongs to; by default a session of its own.
        trace_id: 32 hex digits; by default the queue stamps the active span's.
        tags: Text pairs that results can be filtered by, as a mapping or as `key=value` texts.

    Raises:
        DataError: The trace id is not 32 hex digits; an id or a tag is neither text nor a number
            or uuid; a tag's text has no `=`; `id` and `record_id` differ.

    Cost: construction does not look into the context.
    """

    __slots__ = ("_context", "_frozen", "_json", "_made_session", "_tags", "_trace_id",
                 "created_ns", "record_id", "session_id", "uid")  # fmt: skip

    def __init__(
        self,
        context: object = None,
        id: str | None = None,
        session_id: str | None = None,
        trace_id: str | None = None,
        *,
        record_id: str | None = None,
        tags: Mapping[str, str] | Iterable[str] | None = None,
        uid: str | None = None,
        created_ns: int | None = None,
    ) -> None:
        now_ns = time.time_ns() if created_ns is None else created_ns
        self.uid: str = uuid7(now_ns) if uid is None else _id("uid", uid)
        """Key of the record inside its space, made with it."""
        self.created_ns: int = now_ns
        if id is not None and record_id is not None and id != record_id:
            raise DataError(f"id {id!r} and record_id {record_id!r} are two words for one thing")
        name = record_id if id is None else id
        self.record_id: str = "" if name is None else _id("id", name)
        self._made_session: str | None = uuid7(now_ns) if session_id is None else None
        self.session_id: str = self._made_session or _id("session_id", session_id)
        self._context: object = {} if context is None else context
        self._tags: dict[str, str] = {}
        for key, value in _tag_pairs(tags):
            self.add_tag(key, value)
        self._trace_id: str | None = None
        self._frozen = False
        self._json = b""
        if trace_id is not None:
            self.trace_id = trace_id

    @classmethod
    def of_snapshot(cls, snapshot: RecordSnapshot) -> Self:
        """The frozen record that a snapshot was taken of."""
        uid, name, session, trace_id, created_ns, text, tags = snapshot
        record = cls(None, name, session, trace_id, tags=tags, uid=uid, created_ns=created_ns)
        record._json, record._context, record._frozen = text, _UNREAD, True
        return record

    @property
    def context(self) -> JsonValue:
        """The value that tasks read. After `freeze` a plain JSON tree of the record's own."""
        if self._frozen and self._context is _UNREAD:
            self._context = json.loads(self._json)
        return self._context  # type: ignore[return-value]

    @property
    def trace_id(self) -> str | None:
        """Trace that the record belongs to, 32 lower-case hex digits, or None."""
        return self._trace_id

    @trace_id.setter
    def trace_id(self, value: str | None) -> None:
        self._trace_id = None if value is None else checked_trace_id(value)

    @property
    def tags(self) -> list[str]:
        """The tags as `key=value` texts."""
        return [pair_text(key, value) for key, value in self._tags.items()]

    @property
    def tag_map(self) -> Mapping[str, str]:
        """The tags by key."""
        return self._tags

    @property
    def created_at(self) -> datetime.datetime:
        """Time at which the record was made, in UTC, to the microsecond."""
        return _EPOCH + datetime.timedelta(microseconds=self.created_ns // 1000)

    @property
    def entity_type(self) -> EntityType:
        """The subject of the record: here always an agent."""
        return EntityType.Agent

    def get_record_type(self) -> RecordType:
        """Tell what kind of item the record is to a queue."""
        return RecordType.AgentEval

    @property
    def names_session(self) -> bool:
        """False while the session is the record's own, as nobody named one."""
        return self.session_id != self._made_session

    @property
    def is_frozen(self) -> bool:
        """True once a queue has taken the record."""
        return self._frozen

    def add_tag(self, key: str, value: str) -> None:
        """Attach a text pair; the same key again replaces it."""
        self._tags[_id("a tag's key", key)] = tag_text(given_text("a tag's value", value))

    def update_context_field(self, key: str, value: object) -> None:
        """Set one field of a dict context.

        Raises:
            DataError: The context is not a dict, or the record was inserted already.
        """
        if self._frozen:
            raise DataError(f"record {self.uid} was inserted; its context can no longer change")
        if not isinstance(self._context, dict):
            raise DataError(f"the context is a {type(self._context).__name__}, it has no fields")
        self._context[key] = value

    def freeze(self, trace_id: str | None = None) -> RecordSnapshot:
        """Replace the context by its JSON text, read when it is used; again does nothing.

        Args:
            trace_id: 32 lower-case hex digits, which a record gets that has none.

        Returns:
            A copy of the record's fields, which later changes do not reach.

        Raises:
            DataError: The context holds something without a JSON form, or an id that was set is
                no text; names the place.
        """
        if not self._frozen:
            if self.record_id != "":
                self.record_id = _id("record_id", self.record_id)
            if self.session_id is not self._made_session:
                self.session_id = _id("session_id", self.session_id)
            if self._trace_id is None:
                self._trace_id = trace_id
            self._json = to_json_bytes(self._context)
            self._context = _UNREAD
            self._frozen = True
        return (
            self.uid,
            self.record_id,
            self.session_id,
            self._trace_id,
            self.created_ns,
            self._json,
            stored_tags(self._tags.copy()) if self._tags else _NO_TAGS,
        )

    def model_dump_json(self) -> str:
        """Write the record as one JSON object, as the collector's API takes it.

        Raises:
            DataError: The context holds something without a JSON form; names the place.
        """
        fields = {
            "uid": self.uid,
            "record_id": self.record_id,
            "session_id": self.session_id,
            "trace_id": self._trace_id,
            "created_at": self.created_at.isoformat(),
            "context": to_json_value(self.context),
            "tags": dict(self._tags),
        }
        return json.dumps(fields, ensure_ascii=False)

    def __repr__(self) -> str:
        name = f"id={self.record_id!r}, " if self.record_id else ""
        return f"EvalRecord({name}uid={self.uid!r}, trace_id={self._trace_id!r})"


def without_session(snapshot: RecordSnapshot) -> RecordSnapshot:
    """Make a copy without the session, for a record whose session only its trace may name."""
    uid, name, _, trace_id, created_ns, text, tags = snapshot
    return uid, name, "", trace_id, created_ns, text, tags
