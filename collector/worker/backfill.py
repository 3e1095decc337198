"""First evaluations of what is stored without one: watched traces, records and sessions.

They come long after their time, so they are marked: a reference for what comes, and no news.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Final

from collector.split import split
from collector.store.commit import Commit
from collector.store.rows import PAST, Completeness, EvaluationRow, RecordRow
from collector.store.store import Store
from collector.store.unjudged import Unjudged, UnjudgedItem, UnjudgedQuery
from collector.worker.derive import bare_row, of_trace
from collector.worker.open_trace import JoinTimes
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.ready import Ready
from collector.worker.records import TraceView, named_by_tags
from collector.worker.reevaluate import Reevaluated, evaluations_of, judged_session, wait_for
from collector.worker.session_reader import SessionReader
from collector.worker.stored_values import parts_of_rows
from collector.worker.trace_facts import TraceFacts, read_trees
from scouter.evaluate.spans.tree import SpanTree
from scouter.replay.collected import trace_test

_PART: Final = 50
"""Traces, or records with theirs, that are in memory together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    """A first evaluation, and what is stored with it."""

    row: EvaluationRow
    trace_ids: Collection[str]
    """Traces whose spans it has seen; none if its tasks read none."""
    record: RecordRow | None = None
    """Its record, if that was derived for it."""
    letter_id: str = ""
    """Letter of its record, which goes."""

    @property
    def key(self) -> tuple[str, str]:
        """Space and uid."""
        return self.row.space, self.row.record_uid


def still_missing(store: Store, added: Sequence[Added]) -> list[Added]:
    """Those that nobody has evaluated meanwhile, and of whose trace no sender's record came.

    To be called where no commit comes before they are stored.

    Raises:
        TransientError: The store cannot be read.
    """
    if not added:
        return []
    space, alias = added[0].row.space, added[0].row.alias
    latest = store.latest_evaluations([each.key for each in added])
    derived = [each.record for each in added if each.record is not None]
    there = set(store.stored_records(space, [row.uid for row in derived]))
    traces = {row.trace_id for row in derived if row.trace_id is not None}
    sent = _sent(store, space, traces, alias)
    return [
        each
        for each in added
        if each.key not in latest
        and (
            each.record is None
            or (each.record.uid not in there and each.record.trace_id not in sent)
        )
    ]


def _sent(store: Store, space: str, traces: Iterable[str], alias: str) -> set[str | None]:
    """The traces, of some, of which there is a record for an alias."""
    return {
        row.trace_id
        for row in store.trace_records(space, traces)
        if alias == (row.alias or row.profile_ref)
    }


def commits_of(added: Sequence[Added]) -> Iterator[Commit]:
    """The rows of evaluations, each in one commit with its record."""
    records = {each.row.record_uid: each.record for each in added}
    for part in parts_of_rows([each.row for each in added]):
        own = (records[row.record_uid] for row in part)
        yield Commit(evaluations=list(part), records=[row for row in own if row is not None])


def letters_of(added: Sequence[Added]) -> list[str]:
    """The letters that go before."""
    return [each.letter_id for each in added if each.letter_id]


@dataclass(slots=True)
class _Page:
    """Results of some items."""

    added: list[Added] = field(default_factory=list[Added])
    still_open: int = 0
    """Traces and sessions that go on: they are evaluated in their time."""


class Backfiller:
    """Judges what is stored and has no evaluation.

    Args:
        store: Holds records, spans and evaluations.
        registry: Says which records belong to a session.
        times: Says until when something may go on.
        add: Stores evaluations, see `Worker.add`.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        times: JoinTimes,
        add: Callable[[Sequence[Added]], "Future[frozenset[str]]"],
    ) -> None:
        self._store, self._registry, self._times, self._add = store, registry, times, add
        self._sessions = SessionReader(store, registry)

    def run(
        self, registered: RegisteredProfile, query: UnjudgedQuery, *, now_ns: int, is_dry: bool
    ) -> Reevaluated:
        """Evaluate one page of what has no evaluation by a profile.

        A trace gets a record and an evaluation if the profile's `watch` selects it and no record
        of the alias is there; its shares count, as for traffic. A session gets one if it has
        records of the alias. What may still go on is left out.

        Args:
            registered: The profile; in a dry run, the registry need not know it.
            query: Says where the page begins.
            now_ns: The time, nanoseconds since the epoch.
            is_dry: Change nothing: no session is found of records that are not stored.

        Raises:
            TransientError: The store cannot be read or written now.

        Cost: that of `UnjudgedReads.unjudged`; linear in records, tasks and spans.
        """
        kind, profile = Unjudged(query.place[0]), registered.profile
        is_about = {
            Unjudged.TRACES: profile.takes_marks,
            Unjudged.RECORDS: True,
            Unjudged.SESSIONS: profile.plan.session is not None,
        }[kind]
        items = self._store.unjudged(query) if is_about else []
        make = {
            Unjudged.TRACES: self._of_traces,
            Unjudged.RECORDS: self._of_records,
            Unjudged.SESSIONS: self._of_sessions,
        }[kind]
        counts: dict[str, Counter[str]] = {}
        stored: set[str] = set()
        checked = still_open = 0
        for part in split(items, lambda item: (1,), (_PART,)):
            page = make(registered, part, now_ns)
            checked, still_open = checked + len(page.added), still_open + page.still_open
            for each in page.added:
                for task in each.row.tasks:
                    counts.setdefault(task.task_id, Counter())[task.outcome.value] += 1
            if page.added and not is_dry:
                stored |= wait_for(self._add(page.added))
        following = (kind, items[-1].at_ns + 1) if len(items) >= query.limit else (kind + 1, 0)
        return Reevaluated(
            checked=checked, stored=stored, gone=0, flips=(), new=counts, removed={}, moved=0,
            next_before=following if following[0] <= max(Unjudged) else None, as_of=0,
            still_open=still_open,
        )  # fmt: skip

    def _of_traces(
        self, registered: RegisteredProfile, part: Sequence[UnjudgedItem], now_ns: int
    ) -> _Page:
        """Derive and evaluate the records of traces that the profile selects."""
        space, alias = registered.space, registered.profile.alias
        is_selected, seq = trace_test(registered.profile), self._store.last_seq()
        trees = read_trees(self._store, space, [each.id for each in part])
        sent = _sent(self._store, space, trees, alias)
        page, ready, views = _Page(), list[Ready](), dict[str, TraceView]()
        for item in part:
            tree = trees.get(item.id)
            is_free = tree is not None and registered.watches(item.id) and item.id not in sent
            if tree is None or not is_free or not is_selected(tree):
                continue
            if self._is_open(registered, item, now_ns):
                page.still_open += 1
                continue
            view = views[item.id] = TraceView.of(tree)
            row = of_trace(bare_row(registered, item.id, 0, now_ns), view)
            ready.append(_ready(replace(row, digest=PAST), tree))
        rows = evaluations_of(ready, registered, views, seq, now_ns, {})
        for each, row in zip(ready, rows, strict=True):
            page.added.append(
                Added(row=_past(row), record=each.record, trace_ids=[row.trace_id or ""])
            )
        return page

    def _is_open(self, registered: RegisteredProfile, item: UnjudgedItem, now_ns: int) -> bool:
        """Tell whether a trace may go on, or is evaluated anyway as the profile watched it."""
        is_watched = registered.is_active and self._registry.changed_at(registered) <= item.seq
        wait_s = self._times.deadline_s if is_watched else self._times.quiet_s
        return item.received_ns > now_ns - int(wait_s * 1e9)

    def _of_records(
        self, registered: RegisteredProfile, part: Sequence[UnjudgedItem], now_ns: int
    ) -> _Page:
        """Evaluate records that were put aside as nobody knew their profile."""
        seq, space = self._store.last_seq(), registered.space
        rows = self._store.records_of(space, [each.id for each in part])
        ids = {row.trace_id for row in rows if row.trace_id} if registered.plan.reads_spans else ()
        trees = read_trees(self._store, space, sorted(ids))
        views = {trace_id: TraceView.of(tree) for trace_id, tree in trees.items()}
        ready = [_ready(row, trees.get(row.trace_id or "")) for row in rows]
        letters = {each.id: each.letter_id for each in part}
        made = evaluations_of(ready, registered, views, seq, now_ns, {})
        return _Page(
            [
                Added(
                    row=_past(row), letter_id=letters[row.record_uid],
                    trace_ids=[row.trace_id] if row.reads_spans and row.trace_id else [],
                )
                for row in made
            ]
        )  # fmt: skip

    def _of_sessions(
        self, registered: RegisteredProfile, part: Sequence[UnjudgedItem], now_ns: int
    ) -> _Page:
        """Evaluate sessions with records of the profile's alias."""
        page, seq = _Page(), self._store.last_seq()
        newest = {each.id: each.received_ns for each in part}
        for found in self._sessions.sessions(registered.space, newest):
            known = self._sessions.evaluations(found)
            for key, session in found.items():
                own = self._registry.get(key.space, key.profile_uid)
                is_of = own is not None and own.profile.alias == registered.profile.alias
                if own is None or not is_of or key in known:
                    continue
                is_awaited = own.profile.plan.session is not None
                wait_s = self._times.session_deadline_s if is_awaited else self._times.quiet_s
                if newest[key.session_id] > now_ns - int(wait_s * 1e9):
                    page.still_open += 1
                    continue
                made = judged_session(
                    self._store, self._sessions, registered, session, seq=seq, now_ns=now_ns
                )
                if made is not None:
                    row, read = made
                    page.added.append(Added(row=_past(row), trace_ids=read))
        return page


def _past(row: EvaluationRow) -> EvaluationRow:
    """An evaluation as one of the time of its record."""
    return replace(named_by_tags(row), is_backfill=True, evaluated_ns=row.created_ns)


def _ready(row: RecordRow, tree: SpanTree | None) -> Ready:
    """A record with how complete its trace is."""
    if tree is None:
        return Ready(record=row)
    facts = TraceFacts()
    for span in tree.spans:
        facts.add(span)
    completeness = Completeness.COMPLETE if facts.is_complete else Completeness.QUIET
    return Ready(record=row, completeness=completeness, missing_parents=facts.missing_parents)
