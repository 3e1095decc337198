"""Records that nobody sent: which profiles watch a trace, and the record that they judge."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from collector.store.rows import RecordRow
from collector.worker.open_trace import Waiting
from collector.worker.profiles import ProfileRegistry, RegisteredProfile, Watching
from collector.worker.records import TraceView
from scouter.drift.watch import is_wanted
from scouter.evaluate.spans.derived import derive_record, derived_uid, trace_session
from scouter.model.json_value import to_json_value
from scouter.model.span import Span

_FEW_MARKS: Final = 8
"""Marks that are looked for one by one."""
_DIGEST: Final = "derived"
"""Digest of every derived record but a backfill's: whatever it is made of, it is the same one."""


def _marked(watching: Watching, spans: Sequence[Span]) -> Iterator[RegisteredProfile]:
    """The profiles that spans are marked with."""
    marked = watching.marked
    found: dict[str, RegisteredProfile] = {}
    for span in spans:
        attributes = span.attributes
        if len(marked) > _FEW_MARKS:
            keys: Iterable[str] = marked.keys() & attributes.keys()
        else:
            keys = [key for key in marked if attributes.get(key) is not None]
        for key in keys:
            if attributes.get(key) == marked[key].uid:
                found[key] = marked[key]
    yield from found.values()


_TAG_CHARACTERS: Final = 4096


class SentRecord(NamedTuple):
    """A sender's record of a trace, by the alias of its profile."""

    space: str
    trace_id: str
    alias: str


class Deriver:
    """Selects traces that profiles watch, and makes their records.

    Args:
        registry: The profiles.
    """

    def __init__(self, registry: ProfileRegistry) -> None:
        self._registry: Final = registry

    def selected(
        self, space: str, trace_id: str, spans: Sequence[Span], seq: int, known: frozenset[str]
    ) -> Iterator[tuple[str, str, str]]:
        """The profiles that spans of a trace select: alias, profile's uid, uid of the record.

        Args:
            space: Their space.
            trace_id: The trace.
            spans: Some of its spans.
            seq: The last commit with one of them; profiles that changed since do not look at them.
            known: Aliases that watch the trace already, which are left out.

        Cost: linear in spans and watching profiles; without any, a look into a table.
        """
        watching = self._registry.watching(space)
        if watching is None:
            return
        found: dict[str, RegisteredProfile] = {}
        for each in watching.active:
            alias, matches = each.profile.alias, each.matches
            if alias in known or matches is None or not each.watches(trace_id):
                continue
            if any(map(matches, spans)):
                found[alias] = each
        for each in _marked(watching, spans):
            if each.profile.alias not in known and each.watches(trace_id):
                found.setdefault(each.profile.alias, each)
        for alias, each in found.items():
            if self._registry.changed_at(each) <= seq:
                yield alias, each.uid, derived_uid(trace_id, alias)

    def bare(self, space: str, trace_id: str, profile_uid: str, now_ns: int) -> RecordRow | None:
        """The record of a trace that nobody looks at any more, without what its spans say."""
        registered = self._registry.get(space, profile_uid)
        return None if registered is None else bare_row(registered, trace_id, 0, now_ns)

    def record(
        self, space: str, trace_id: str, waiting: Waiting, view: TraceView, now_ns: int
    ) -> RecordRow | None:
        """The record of a trace; None if the trace is not to be judged.

        Args:
            space: Its space.
            trace_id: The trace.
            waiting: What is to be derived.
            view: All that is known of the trace.
            now_ns: Wall clock, for a trace of which nothing else is known.
        """
        registered = self._registry.get(space, waiting.watched_by)
        if registered is None:
            return None
        row = bare_row(registered, trace_id, waiting.seq, now_ns)
        if view.tree.unread:
            return row
        if not view.tree.spans or not is_wanted(registered.profile.watch, view.tree):
            return None
        return of_trace(row, view)

    def alias_of(self, row: RecordRow) -> str:
        """The alias of a record's profile; empty if nobody knows it."""
        if row.alias:
            return row.alias
        registered = self._registry.of_record(row)
        return "" if registered is None else registered.profile.alias


def bare_row(registered: RegisteredProfile, trace_id: str, seq: int, received_ns: int) -> RecordRow:
    """The record that is to be derived, without what only the spans tell.

    Args:
        registered: The profile that judges it.
        trace_id: Its trace.
        seq: A commit with spans of that; 0 if none counts.
        received_ns: Its time, where no span tells another one.
    """
    profile = registered.profile
    return RecordRow(
        space=registered.space, uid=derived_uid(trace_id, profile.alias), digest=_DIGEST,
        profile_ref=registered.uid, profile_uid=registered.uid, profile_name=profile.name,
        alias=profile.alias, trace_id=trace_id, created_ns=received_ns, received_ns=received_ns,
        seq=seq,
    )  # fmt: skip


def sent_records(rows: Iterable[RecordRow], deriver: Deriver) -> Collection[SentRecord]:
    """The records that senders wrote about traces: none is derived beside them."""
    return {
        SentRecord(row.space, row.trace_id, deriver.alias_of(row))
        for row in rows
        if row.trace_id is not None and not (row.is_derived or row.is_score)
    }


def of_trace(row: RecordRow, view: TraceView) -> RecordRow:
    """A derived record with what the spans of its trace tell."""
    made = derive_record(view.tree, profile=row.alias)
    return replace(
        row,
        context=to_json_value(made.context),
        session_id=trace_session(view.tree.spans),
        tags={key: text[:_TAG_CHARACTERS] for key, text in made.tag_map.items()},
        created_ns=made.created_ns,
        received_ns=made.created_ns,
    )


def by_trace(spans: Iterable[Span]) -> dict[str, list[Span]]:
    """Put spans together by their traces."""
    found: dict[str, list[Span]] = {}
    for span in spans:
        found.setdefault(span.trace_id, []).append(span)
    return found
