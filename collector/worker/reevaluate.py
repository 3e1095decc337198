"""Stored records and sessions evaluated by another version of their profile."""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from typing import Final

from collector.split import split
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rows import Completeness, EvaluationRow, Scope
from collector.store.store import Store
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.ready import Ready
from collector.worker.records import TraceView, follows, judge
from collector.worker.session import DueSession, WholeSession, judge_session
from collector.worker.session_reader import SessionReader, StoredSession
from collector.worker.trace_facts import lost_of, read_trees
from scouter.client.models.evaluations import TaskChange
from scouter.errors import TransientError


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The next evaluation on a record or session, the one before, and what it has read."""

    before: EvaluationRow
    row: EvaluationRow
    trace_ids: Collection[str]
    """Traces whose spans it has seen; none if its tasks read none."""

    @property
    def key(self) -> tuple[str, str]:
        """Space and uid, by which the evaluation before is found."""
        return self.row.space, self.row.record_uid

    @property
    def is_new(self) -> bool:
        """False if the same version says the same again."""
        is_same_version = self.before.profile_uid == self.row.profile_uid
        return not is_same_version or _outcomes(self.before) != _outcomes(self.row)

    @property
    def changes(self) -> tuple[TaskChange, ...]:
        """Changed outcomes of the tasks that both versions have."""
        was, now = _outcomes(self.before), _outcomes(self.row)
        return tuple(
            TaskChange(task_id=task, before=was[task], after=now[task])
            for task in was
            if task in now and was[task] != now[task]
        )

    @property
    def is_moved(self) -> bool:
        """True if new or removed tasks alone gave the record or session another outcome."""
        return self.before.outcome is not self.row.outcome and not self.changes


_PART: Final = 50
"""Records whose traces are in memory together."""
_SESSION: Final = 5
"""Records that a session stands for, roughly."""
_COMMIT_S: Final = 60.0


TaskCounts = Mapping[str, Mapping[str, int]]
"""By task the number of evaluations, by the task's outcome in them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reevaluated:
    """Outcome of evaluating one page of evaluations again."""

    checked: int
    """Evaluations on records and sessions that were evaluated again."""
    stored: Collection[str]
    """Uids of the records and sessions of which a revision was stored."""
    gone: int
    """Evaluations of which neither the record, nor any of the session, is stored any more."""
    flips: Sequence[Revision]
    """Those in which a task that both versions have has another outcome now."""
    new: TaskCounts
    """Tasks that the earlier versions do not have: with nothing to compare, they flip nothing."""
    removed: TaskCounts
    """Tasks that the later version does not have, with what they were."""
    moved: int
    """Evaluations whose outcome changed by new and removed tasks alone, without a flip."""
    next_before: tuple[int, int] | None
    """Go on below this position; None at the end."""
    as_of: int
    """As of which commit the evaluations are listed; the next page is requested with it."""
    still_open: int = 0
    """Traces and sessions that may go on, which were left out."""


class _Tally:
    """Counts of a page of revisions beside the flips."""

    def __init__(self) -> None:
        self.new: dict[str, Counter[str]] = {}
        self.removed: dict[str, Counter[str]] = {}
        self.checked = self.moved = 0

    def add(self, each: Revision) -> None:
        self.checked += 1
        self.moved += each.is_moved
        was, now = _outcomes(each.before), _outcomes(each.row)
        for counts, these, others in ((self.new, now, was), (self.removed, was, now)):
            for task, outcome in these.items():
                if task not in others:
                    counts.setdefault(task, Counter())[outcome] += 1


class Reevaluator:
    """Judges what is stored.

    Args:
        store: Holds records, spans and evaluations.
        registry: Says which records belong to a session.
        revise: Stores revisions, see `Worker.revise`: the worker is the only one that makes some.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        revise: Callable[[Sequence[Revision]], "Future[frozenset[str]]"],
    ) -> None:
        self._store, self._revise = store, revise
        self._sessions = SessionReader(store, registry)

    def run(
        self, registered: RegisteredProfile, query: EvaluationQuery, *, now_ns: int, is_dry: bool
    ) -> Reevaluated:
        """Evaluate the records and sessions of one page of evaluations by a profile.

        A record that got another evaluation since the listing began is evaluated, too; the new
        evaluation replaces the latest one. A session without an evaluation gets none. A session
        with one stays as it is if no task of the profile is about sessions: nothing would be left
        of its evaluation.

        Args:
            registered: The profile; in a dry run, the registry need not know it.
            query: Selects the evaluations.
            now_ns: The time, nanoseconds since the epoch.
            is_dry: Change nothing.

        Raises:
            TransientError: The store cannot be read or written now.

        Cost: linear in records, tasks and spans; the data of 50 records or ten sessions is in
        memory at a time.
        """
        page = self._store.evaluations(query)
        alias = registered.profile.alias  # a query by it finds names and digests, too
        scopes = {Scope.RECORD}
        if registered.profile.plan.session is not None:
            scopes.add(Scope.SESSION)
        rows = [
            row
            for row in page.items
            if row.scope in scopes and row.alias == alias and not row.is_score
        ]
        tally = _Tally()
        flips: list[Revision] = []
        stored: set[str] = set()
        for part in split(rows, _weigh, (_PART,)):
            newest = self._newest(registered.space, part)
            made = list(self._judged(registered, newest, now_ns))
            for each in made:
                tally.add(each)
            flips += [each for each in made if each.changes]
            new = [each for each in made if each.is_new]
            if new and not is_dry:
                stored |= wait_for(self._revise(new))
        return Reevaluated(
            checked=tally.checked,
            stored=stored,
            gone=len(rows) - tally.checked,
            flips=flips,
            new=tally.new,
            removed=tally.removed,
            moved=tally.moved,
            next_before=page.next_before,
            as_of=page.as_of,
        )

    def _newest(self, space: str, part: Sequence[EvaluationRow]) -> list[EvaluationRow]:
        """The evaluations that those of the listing have become meanwhile."""
        latest = self._store.latest_evaluations([(space, row.record_uid) for row in part])
        return [latest.get((space, row.record_uid), row) for row in part]

    def _judged(
        self, registered: RegisteredProfile, part: Sequence[EvaluationRow], now_ns: int
    ) -> Iterator[Revision]:
        """Each evaluation, and the one that the profile gives."""
        seq = self._store.last_seq()  # first: what comes from now on may be seen, or not
        records = [row for row in part if row.scope is Scope.RECORD]
        if records:
            yield from self._of_records(registered, records, seq, now_ns)
        sessions = [row for row in part if row.scope is Scope.SESSION]
        if sessions:
            yield from self._of_sessions(registered, sessions, seq, now_ns)

    def _of_records(
        self, registered: RegisteredProfile, part: Sequence[EvaluationRow], seq: int, now_ns: int
    ) -> Iterator[Revision]:
        space = registered.space
        records = {
            row.uid: row for row in self._store.records_of(space, [row.record_uid for row in part])
        }
        traces: dict[str, TraceView] = {}
        is_any_derived = any(row.is_derived for row in records.values())
        if registered.profile.plan.reads_spans or is_any_derived:
            ids = {row.trace_id for row in records.values() if row.trace_id is not None}
            trees = read_trees(self._store, space, sorted(ids))
            traces = {key: TraceView.of(tree) for key, tree in trees.items()}
        known = [row for row in part if row.record_uid in records]
        items = [
            Ready(
                record=records[row.record_uid], completeness=row.completeness,
                missing_parents=row.missing_parents,
            )
            for row in known
        ]  # fmt: skip
        if not items:
            return
        earlier = {row.record_uid: row for row in known}
        evaluations = evaluations_of(items, registered, traces, seq, now_ns, earlier)
        for before, made in zip(known, evaluations, strict=True):
            after = replace(made, **follows(before, now_ns))
            read = [after.trace_id] if after.reads_spans and after.trace_id is not None else []
            yield Revision(before=before, row=after, trace_ids=read)

    def _of_sessions(
        self,
        registered: RegisteredProfile,
        part: Sequence[EvaluationRow],
        seq: int,
        now_ns: int,
    ) -> Iterator[Revision]:
        evaluations = {row.record_uid: row for row in part}
        for found in self._sessions.sessions(registered.space, {row.session_id for row in part}):
            for key, session in found.items():
                before = evaluations.get(key.uid)
                made = before and judged_session(
                    self._store, self._sessions, registered, session, before, seq=seq, now_ns=now_ns
                )
                if before is not None and made is not None:
                    yield Revision(before=before, row=made[0], trace_ids=made[1])


def evaluations_of(
    items: Sequence[Ready],
    registered: RegisteredProfile,
    traces: Mapping[str, TraceView],
    seq: int,
    now_ns: int,
    earlier: Mapping[str, EvaluationRow],
) -> list[EvaluationRow]:
    """Evaluate records in their order; derived ones outside of the sample without asking judges."""
    found: dict[str, EvaluationRow] = {}
    groups: defaultdict[bool, list[Ready]] = defaultdict(list)
    for each in items:
        groups[registered.of_record(each.record).asks].append(each)
    for group in groups.values():
        by, done = registered.of_record(group[0].record), 0
        while done < len(group):  # of very large ones some at a time
            made = judge(group[done:], by, traces, seq=seq, now_ns=now_ns, earlier=earlier)
            found |= {row.record_uid: row for row in made}
            done += len(made)
    return [found[each.record.uid] for each in items]


def judged_session(
    store: Store,
    reader: SessionReader,
    registered: RegisteredProfile,
    session: StoredSession,
    earlier: EvaluationRow | None = None,
    *,
    seq: int,
    now_ns: int,
) -> tuple[EvaluationRow, Collection[str]] | None:
    """Evaluate a session that waits for nothing.

    Args:
        store: Has its spans.
        reader: Reads them.
        registered: The profile.
        session: Its records.
        earlier: Its latest evaluation, if there is one.
        seq: Last commit of which everything is in it.
        now_ns: The time, nanoseconds since the epoch.

    Returns:
        The evaluation and the traces that were read; None if no task is about sessions.
    """
    plan = registered.profile.plan.session
    if plan is None:
        return None
    space, read = registered.space, reader.traces_of(registered, session)
    spans = reader.spans_of(space, read)
    is_quiet = earlier is None or earlier.completeness is not Completeness.DEADLINE
    whole = WholeSession(
        due=DueSession(key=session.key, is_quiet=is_quiet, waited_s=0.0),
        registered=registered,
        plan=registered.of_session(session.rows).plan.session or plan,
        records=session.rows,
        spans={} if isinstance(spans, str) else spans,
        earlier=earlier,
        lost=lost_of(store, space, read),
        too_large=spans if isinstance(spans, str) else session.too_large,
    )
    return judge_session(whole, seq=seq, now_ns=now_ns), read


def wait_for(stored: "Future[frozenset[str]]") -> frozenset[str]:
    """Wait for what the worker stores.

    Raises:
        TransientError: It was not stored, or not in time.
    """
    try:
        return stored.result(_COMMIT_S)
    except FutureTimeoutError as error:
        raise TransientError(f"no commit within {_COMMIT_S:g} s", 5) from error


def _outcomes(row: EvaluationRow) -> dict[str, str]:
    return {task.task_id: task.outcome.value for task in row.tasks}


def _weigh(row: EvaluationRow) -> tuple[int]:
    return (_SESSION if row.scope is Scope.SESSION else 1,)
