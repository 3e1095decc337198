"""Derives records from traces, and settles sessions that no sender named."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from collector.metrics import TotalName
from collector.pipeline.evaluate.commit import EvaluationWriter
from collector.pipeline.join.joined_trace import Need, Share
from collector.pipeline.join.ready import Ready
from collector.storage.port.work import WorkStore
from collector.store.rows import (
    RecordRow,
    RecordsAppended,
    SettledRecord,
    watched_uid,
)
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.records import NO_TRACE, TraceView, session_of_row
from collector.worker.session import uid_of
from collector.worker.watch import Watcher
from scouter.errors import DataError
from scouter.evaluate.spans.derived import derive_record
from scouter.evaluate.spans.session import trace_session
from scouter.model.json_value import to_json_value

Traces = Mapping[str, Mapping[str, TraceView]]
"""By space and trace id."""
Admit = Callable[[RecordRow, RegisteredProfile], None]
"""Lets the session of a record wait."""
_TAG_CHARACTERS: Final = 4096


class Deriver:
    """Makes and completes records whose traces are complete; to be used by one thread.

    Args:
        store: Takes the records.
        registry: Finds the profile of a record.
        watcher: Is told of the records that are derived.
        writer: Waits for the store.
        admit: Is told of every record whose session is settled.
        forget: Lets spans that come later select a trace again of which no record was made.
    """

    def __init__(
        self,
        store: WorkStore,
        registry: ProfileRegistry,
        watcher: Watcher,
        writer: EvaluationWriter,
        admit: Admit,
        forget: Callable[[RecordRow], None],
    ) -> None:
        self._store, self._registry, self._watcher = store, registry, watcher
        self._writer, self._admit, self._forget = writer, admit, forget
        self._aliases: set[tuple[str, str]] = set()
        """Space and alias of all derived records that the store has, or had."""

    def resume(self) -> None:
        """Learn what earlier processes derived."""
        derived = (key for key in self._store.totals() if key.name is TotalName.RECORDS_DERIVED)
        self._aliases.update((key.space, key.alias) for key in derived)

    @property
    def has_derived(self) -> bool:
        """True if there may be a derived record in the store."""
        return bool(self._aliases)

    def rivals(self, rows: Iterable[RecordRow]) -> dict[str, set[str]]:
        """The stored derived records in whose place senders' records came.

        Args:
            rows: Records that were accepted.

        Returns:
            Uids by space.

        Raises:
            TransientError: The service ends.
        """
        wanted: defaultdict[str, set[str]] = defaultdict(set)
        for row in rows if self._aliases else ():
            alias = self._alias_of(row)
            if (
                row.trace_id is not None
                and not row.is_derived
                and (row.space, alias) in self._aliases
            ):
                wanted[row.space].add(watched_uid(row.trace_id, alias))
        found = {space: self._stored(space, uids) for space, uids in wanted.items()}
        return {space: uids for space, uids in found.items() if uids}

    def accept(self, rows: Sequence[RecordRow]) -> RecordsAppended | None:
        """Store records that are derived, unless a sender's record of the trace is there.

        Returns:
            The rows that the store took; None if none was left.

        Raises:
            TransientError: The service ends.
        """
        wanted = self._without_rivals(rows)
        appended = self._append(wanted) if wanted else None
        for row in rows:
            self._watcher.done(row.space, row.uid)
        if appended is not None:
            self._aliases.update((row.space, row.alias) for row in appended.accepted)
        return appended

    def derived(
        self, part: Sequence[Ready], traces: Traces
    ) -> tuple[Sequence[Ready], Sequence[Ready]]:
        """Put accepted records in the place of those that were to be derived.

        Four kinds of records are left out: those of a trace with a sender's record, those of a
        trace that is gone, those of one without an agent (see `_is_wanted`), and those that an
        earlier process derived already.

        Args:
            part: Records of the join.
            traces: Of all of them.

        Returns:
            The records that were accepted before, and those that were derived, which have all that
            their traces tell.

        Raises:
            TransientError: The service ends.
        """
        known = [ready for ready in part if ready.share is not Share.WATCHED]
        if len(known) == len(part):
            return part, ()
        made: dict[tuple[str, str], RecordRow] = {}
        for ready in part:
            if ready.share is not Share.WATCHED:
                continue
            view = _view(ready.record, traces)
            if view.tree.unread or (view.tree.spans and self._is_wanted(ready.record, view)):
                made[ready.key] = _of_trace(ready.record, view)
            else:
                self._watcher.done(*ready.key)
                self._forget(ready.record)
        appended = self.accept(list(made.values())) if made else None
        accepted = {} if appended is None else {(r.space, r.uid): r for r in appended.accepted}
        found: list[Ready] = []
        for ready in part:
            if ready.share is Share.WATCHED and (row := accepted.get(ready.key)) is not None:
                found.append(replace(ready, record=row, share=Share.NEW, is_whole=True))
                self._settled(row)
        return known, found

    def settled(self, part: Iterable[Ready], traces: Traces) -> list[Ready]:
        """Complete accepted records by what their traces tell.

        A record that names no session gets the one that its trace names, once. A derived record
        whose trace got more spans since gets the context that these give.

        Args:
            part: With their contexts.
            traces: Of all of them.

        Raises:
            TransientError: The service ends.
        """
        found: list[Ready] = []
        changes: list[SettledRecord] = []
        settled: list[RecordRow] = []
        for ready in part:
            row = ready.record
            now = self._completed(ready, traces) if ready.need is Need.TRACE else row
            has_context = now.context != row.context
            if has_context or now.session_id != row.session_id:
                changes.append(
                    SettledRecord(
                        space=row.space, uid=row.uid, seq=row.seq, session_id=now.session_id,
                        context=now.context, has_context=has_context,
                    )
                )  # fmt: skip
                settled.append(now)
            elif row.lacks_session and ready.need is Need.TRACE and not ready.is_reopened:
                settled.append(now)
            found.append(ready if now is row else replace(ready, record=now))
        if changes:
            self._writer.insist(lambda: self._store.settle_records(changes).result())
        for row in settled:
            self._settled(row)
        return found

    def _completed(self, ready: Ready, traces: Traces) -> RecordRow:
        row = ready.record
        if row.is_derived:
            view = _view(row, traces)
            now = _of_trace(row, view) if view.tree.spans else row
            session_id = row.session_id or now.session_id
            now = replace(row, context=now.context, session_id=session_id)
        elif not row.lacks_session:
            return row
        elif ready.early is not None:
            now = replace(row, session_id=ready.early.session_id)
        else:
            now = replace(row, session_id=session_of_row(row, traces.get(row.space, {})))
        if ready.is_reopened and now.session_id != row.session_id and self._has_own_evaluation(row):
            now = replace(now, session_id=row.session_id)
        return now

    def _has_own_evaluation(self, row: RecordRow) -> bool:
        """Tell whether the record was evaluated as a session of its own; that stays so."""
        registered = self._registry.of_record(row)
        if registered is None or registered.profile.plan.session is None:
            return False
        key = row.space, uid_of(registered.uid, row.uid)
        return bool(self._writer.insist(lambda: self._store.latest_evaluations([key])))

    def _settled(self, row: RecordRow) -> None:
        registered = self._registry.of_record(row)
        if registered is not None:
            self._admit(row, registered)

    def _without_rivals(self, rows: Sequence[RecordRow]) -> list[RecordRow]:
        """Keep the records on whose trace no sender's record of the same alias is stored."""
        traces: defaultdict[str, set[str]] = defaultdict(set)
        for row in rows:
            traces[row.space].add(row.trace_id or "")
        sent: set[tuple[str, str, str]] = set()
        for space, ids in traces.items():
            stored = self._writer.insist(
                lambda space=space, ids=ids: self._store.trace_records(space, ids)
            )
            sent |= {
                (space, row.trace_id or "", self._alias_of(row))
                for row in stored
                if not row.is_derived
            }
        return [row for row in rows if (row.space, row.trace_id or "", row.alias) not in sent]

    def _append(self, rows: Sequence[RecordRow]) -> RecordsAppended:
        """Store derived records; what of one cannot be stored costs only its own context."""
        try:
            return self._writer.insist(lambda: self._store.append_records(rows).result())
        except DataError:
            if len(rows) == 1:
                bare = replace(rows[0], context=None, session_id="", tags={})
                return self._writer.insist(lambda: self._store.append_records([bare]).result())
        parts = [self._append([row]) for row in rows]
        accepted = tuple(row for part in parts for row in part.accepted)
        return RecordsAppended(seq=parts[-1].seq, accepted=accepted, duplicates=(), conflicts=())

    def _alias_of(self, row: RecordRow) -> str:
        if row.alias:
            return row.alias
        registered = self._registry.of_record(row)
        return "" if registered is None else registered.profile.alias

    def _is_wanted(self, row: RecordRow, view: TraceView) -> bool:
        """Tell whether a trace is to be judged.

        That is one of an agent, one that lacks spans, which may have been an agent's, or one that
        a filter names.
        """
        if view.tree.has_agent or view.tree.gaps.spans:
            return True
        registered = self._registry.of_record(row)
        return registered is None or registered.takes_every_trace

    def _stored(self, space: str, uids: set[str]) -> set[str]:
        return set(self._writer.insist(lambda: self._store.context_sizes(space, uids)))


def _view(row: RecordRow, traces: Traces) -> TraceView:
    return traces.get(row.space, {}).get(row.trace_id or "", NO_TRACE)


def _of_trace(row: RecordRow, view: TraceView) -> RecordRow:
    """The record with what its trace tells; of one that cannot be read it tells nothing."""
    if not view.tree.spans:
        return row
    made = derive_record(view.tree, profile=row.alias)
    return replace(
        row,
        context=to_json_value(made.context),
        session_id=trace_session(view.tree.spans),
        tags={key: text[:_TAG_CHARACTERS] for key, text in made.tag_map.items()},
        created_ns=made.created_ns,
    )
