"""Sessions: all records of one conversation as one thing to judge."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from operator import attrgetter
from typing import Final, TypeAlias

from scouter.evaluate.results.record_result import RecordResult, SessionResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.record import EvalRecord
from scouter.model.span import Span

SessionKey: TypeAlias = tuple[str, int]
"""Session id and, in a replay, the attempt; what tells sessions of one evaluation apart."""

_PREFIX: Final = "session:"
_in_order: Final[Callable[[EvalRecord], tuple[int, str]]] = attrgetter("created_ns", "uid")


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One session as session-scoped tasks see it."""

    record: EvalRecord
    """Stands for the session; its context is `{session_id, records: [{record_id, tags,
    context}]}`, the records by the time when they were made, then by uid."""
    trace_ids: tuple[str, ...]
    """Traces of its records, each once."""

    def tree(self, spans: Mapping[str, Iterable[Span]], lost: str = "") -> SpanTree:
        """Put the spans of all its traces together.

        Args:
            spans: By trace id; a trace that is not here has none.
            lost: As of `SpanTree`.
        """
        every = (span for trace_id in self.trace_ids for span in spans.get(trace_id, ()))
        return SpanTree(every, lost=lost)


def session_uid(*parts: object) -> str:
    """Make the key that a session has among records.

    Args:
        parts: Values that together belong to no other session.

    Returns:
        `session:` and 32 hex digits; the collector takes no record with such a uid.
    """
    return _PREFIX + blake2b(repr(parts).encode("utf-8", "replace"), digest_size=16).hexdigest()


def is_session_uid(uid: str) -> bool:
    """Tell whether a uid has the form that is reserved for sessions."""
    rest = uid.removeprefix(_PREFIX)
    return rest != uid and len(rest) == 32 and set(rest) <= set("0123456789abcdef")


def session_of(
    records: Iterable[EvalRecord], session_id: str, *, uid: str, name: str = ""
) -> Session:
    """Put the records of one session together.

    Args:
        records: At least one, in any order; their contexts are not copied.
        session_id: Value that tasks read as `session_id`.
        uid: From `session_uid`.
        name: The `record_id` of the session's result.
    """
    ordered = sorted(records, key=_in_order)
    context = {
        "session_id": session_id,
        "records": [
            {"record_id": each.record_id, "tags": dict(each.tag_map), "context": each.context}
            for each in ordered
        ],
    }
    record = EvalRecord(
        context, id=name, session_id=session_id, uid=uid, created_ns=ordered[0].created_ns
    )
    traces = dict.fromkeys(each.trace_id for each in ordered if each.trace_id is not None)
    return Session(record=record, trace_ids=tuple(traces))


def sessions_of(
    records: Sequence[EvalRecord], keys: Sequence[SessionKey] | None = None
) -> list[Session]:
    """Group records by their session.

    Args:
        records: Of one profile.
        keys: The session of each record; by default its `session_id`, or its uid where that is
            empty.

    Returns:
        The sessions in the order in which the first of their records is given.

    Cost: linear in records, and n log n inside a session.
    """
    found: dict[SessionKey, list[EvalRecord]] = {}
    for record, key in zip(records, keys or map(_key_of, records), strict=True):
        found.setdefault(key, []).append(record)
    return [
        session_of(
            items,
            key[0],
            uid=session_uid(*key),
            # A scenario stands beside the name already.
            name="session" if keys else f"session {key[0]}",
        )
        for key, items in found.items()
    ]


def _key_of(record: EvalRecord) -> SessionKey:
    return record.session_id or record.uid, 0


def session_results(judged: Iterable[RecordResult]) -> list[SessionResult]:
    """Say of the results of sessions' records that they are results of sessions."""
    return [
        SessionResult(
            each.record_uid, each.record_id, each.session_id, each.trace_id, each.outcome,
            each.tasks, each.created_ns, each.duration_ns,
        )
        for each in judged
    ]  # fmt: skip
