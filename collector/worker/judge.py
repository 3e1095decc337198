"""Decides what is due: reads it from the store, derives, judges, and writes the results as rows."""

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from collector.store.bodies import trace_hash
from collector.store.commit import Commit, RecordId
from collector.store.limits import MOST_SPAN_BYTES, MOST_SPANS
from collector.store.rows import Completeness, EvaluationRow, RecordRow, SettledRecord, TraceKey
from collector.store.span_rows import TracePlace
from collector.store.store import Store
from collector.worker.begun import Begun
from collector.worker.derive import Deriver, of_trace
from collector.worker.join import Join
from collector.worker.kept_values import MOST_TOGETHER, size_of
from collector.worker.late import LateSpans
from collector.worker.letters import letter_of_record, letter_of_unknown
from collector.worker.open_trace import Waiting
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.ready import Need, Ready
from collector.worker.records import NO_TRACE, TraceView, judge, judge_again
from collector.worker.rerun import Rerun, rerun_all, rerun_of
from collector.worker.session import uid_of
from collector.worker.trees import lost_of, unread_tree
from collector.worker.turns import Pace
from scouter.evaluate.spans.session import trace_session
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.log_event import is_evidence

_log: Final = logging.getLogger(__name__)
_PART_S: Final = 0.4
"""Aim for what is decided together: whatever is read and derived is judged, too."""
_FEW: Final = 4
_MOST: Final = 1_000
"""Records that are decided together; see `Pace`."""
_CAREFUL: Final = 50
"""The same while one of them may end the process: so many are judged alone after that."""
CONTEXT_BYTES: Final = 16 * 2**20
_SPANS: Final = 2_000
_SPAN_BYTES: Final = 32 * 2**20
"""Contexts, spans and their bytes that are read together, whatever their number."""
_AGAIN: Final = 100
"""Records that are judged again together."""
_TOO_LARGE: Final = (
    f"more than {MOST_SPANS:,} spans, or {MOST_SPAN_BYTES // 2**20} MiB of them, are not read at "
    "once"
)
_LATE_S: Final = 1.0
"""Judging of one part after which no further record is begun: those are read once more."""
_RESOURCE_TAGS: Final = ("service.name", "service.version", "deployment.environment.name")
"""Tags that name the process of a record whose spans nobody looked at."""


class SentRecord(NamedTuple):
    """A sender's record of a trace, by the alias of its profile."""

    space: str
    trace_id: str
    alias: str


class Due(NamedTuple):
    """A record that is judged now."""

    ready: Ready
    waiting: Waiting
    place: TracePlace | None
    """Where the spans of its trace are, if it waited for that."""
    earlier: EvaluationRow | None = None
    """Its evaluation, which has not seen all spans; None for the first one."""
    settled: SettledRecord | None = None
    """What its trace has told of it since it was accepted."""
    has_session: bool = False
    """True if its session is known only now."""


@dataclass(slots=True)
class Results:
    """What is decided for one commit."""

    commit: Commit
    ready_at: float
    """The clock's time at which that began."""
    waits_s: dict[RecordId, float] = field(default_factory=dict[RecordId, float])
    """By record or session the seconds that it had waited."""
    sessions: list[RecordRow] = field(default_factory=list[RecordRow])
    """Records whose sessions are known once they are stored."""
    size: int = 0
    """About how many characters the values of evaluations have."""

    @property
    def is_full(self) -> bool:
        """True if more would not fit into the memory of the store."""
        return self.size >= MOST_TOGETHER


class _Group(NamedTuple):
    """Records that are judged by the same tasks."""

    profile_uid: str
    asks: bool
    is_derived: bool
    is_again: bool


class Judge:
    """Decides records of the join; to be used by one thread.

    Args:
        store: Has everything that the join knows of.
        registry: Finds the profile of a record.
        join: Gives out what is due.
        late: Is told of the traces that evaluations read.
        clock: Monotonic seconds.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        join: Join,
        late: LateSpans,
        *,
        clock: Callable[[], float],
        now_ns: Callable[[], int],
    ) -> None:
        self._store, self._registry, self._join, self._late = store, registry, join, late
        self._reruns: Final[dict[tuple[str, str, bool, bool], Rerun]] = {}
        self._clock, self._now_ns = clock, now_ns
        self._deriver: Final = Deriver(registry)
        self._pace: Final = Pace(_PART_S, _FEW, _MOST)

    def take(self, space: str, begun: Begun) -> "Part":
        """Take out what one turn of a space decides.

        Args:
            space: The space.
            begun: Says what is judged alone, and whether care is needed.
        """
        part = Part(space, self._clock())
        most = min(self._pace.of(space), _CAREFUL if begun.is_careful else _MOST)
        while len(part.uids) < most and (item := self._join.take(space)) is not None:
            waiting = [item] if isinstance(item, Waiting) else self._join.waiting_of(item)
            part.is_alone = any(begun.is_alone(space, each.uid) for each in waiting)
            if part.is_alone and part.uids:
                part.is_alone = False
                self._join.put_back(item)
                break
            if isinstance(item, Waiting):
                part.without_trace.append(item)
            else:
                part.traces.append(item)
            part.uids.extend(each.uid for each in waiting)
            if part.is_alone:
                break
        return part

    def decide(self, part: "Part", now: float, arriving: Collection[SentRecord]) -> "Decided":
        """Read what was taken, and find out what is judged now; the rest waits on.

        Args:
            part: Of one space.
            now: The time of the join.
            arriving: Senders' records of the commit that is being made.

        Raises:
            TransientError: The store cannot be read now. Nothing was decided: give the part back.
        """
        space, join, store = part.space, self._join, self._store
        places = {key: join.place(key) for key in part.traces}
        spans = store.spans_at(space, places.values(), _SPANS, _SPAN_BYTES)
        traces = [key for key in part.traces if key[1] not in spans.left]
        waiting = [*part.without_trace, *(w for key in traces for w in join.waiting_of(key))]
        rows, unread = self._records(space, waiting)
        again = [(space, w.uid) for w in waiting if w.is_again and w.uid in rows]
        earlier = store.latest_evaluations(again)
        watched = {key[1]: [w for w in join.waiting_of(key) if w.watched_by] for key in traces}
        there = store.stored_records(space, [w.uid for own in watched.values() for w in own])
        sent = self._sent(space, [trace_id for trace_id, own in watched.items() if own])
        lost = lost_of(store, space, [key[1] for key in traces]) if traces else {}
        views = {
            trace_id: TraceView.of(SpanTree(own, lost=lost.get(trace_id, "")))
            for trace_id, own in spans.found.items()
        }
        views |= dict.fromkeys(spans.too_large, TraceView.of(unread_tree(_TOO_LARGE)))
        for trace_id, why in lost.items():
            views.setdefault(trace_id, TraceView.of(SpanTree(lost=why)))
        # Nothing fails from here on: what is taken out of the join is decided.
        due = [
            Due(_ready(rows[w.uid], Need.NOTHING, waited_s=now - w.arrived), w, None)
            for w in part.without_trace
            if w.uid in rows  # else it was erased
        ]
        for waited in part.without_trace:
            if waited.uid in unread:
                join.wait_again(waited, None)
        now_ns = self._now_ns()
        for key in traces:
            trace_id, place = key[1], places[key]
            decision = join.decide(key, filter(is_evidence, spans.found.get(trace_id, ())), now)
            view = views.get(trace_id, NO_TRACE)
            for each in decision.waiting:
                if each.uid in unread:
                    join.wait_again(each, place)
                    continue
                row = rows.get(each.uid)
                before = earlier.get((space, each.uid))
                if each.watched_by:
                    rival = SentRecord(space, trace_id, each.alias)
                    row = None
                    if each.uid not in there and rival not in sent and rival not in arriving:
                        row = self._deriver.record(space, trace_id, each, view, now_ns)
                elif each.is_again and before is None:  # it was erased
                    row = None
                if row is not None:
                    why = decision.completeness, decision.missing_parents
                    due.append(self._due(row, each, place, view, before, why, now - each.arrived))
        for key in reversed([key for key in part.traces if key[1] in spans.left]):
            join.put_back(key)
        return Decided(due, views)

    def _records(
        self, space: str, waiting: Sequence[Waiting]
    ) -> tuple[dict[str, RecordRow], Collection[str]]:
        """Records that wait, by uid, and the uids of those for which there is no room now."""
        again = [w.uid for w in waiting if w.is_again]
        keys = [(w.seq, w.uid) for w in waiting if not w.watched_by and not w.is_again]
        fit = self._store.fitting(space, keys, CONTEXT_BYTES)
        rows = self._store.records_at(space, fit)
        if again:
            found = self._store.records_of(space, again[:_AGAIN])
            rows.update((row.uid, row) for row in found)
        fitting = {uid for _, uid in fit}
        return rows, {*(uid for _, uid in keys if uid not in fitting), *again[_AGAIN:]}

    def _sent(self, space: str, trace_ids: Sequence[str]) -> Collection[SentRecord]:
        """The stored records of senders on some traces."""
        maybe = set(self._store.maybe_recorded([trace_hash(each) for each in trace_ids]))
        wanted = [each for each in trace_ids if trace_hash(each) in maybe]
        rows = self._store.trace_records(space, wanted) if wanted else []
        return sent_records(rows, self._deriver)

    def _due(
        self,
        row: RecordRow,
        waiting: Waiting,
        place: TracePlace,
        view: TraceView,
        before: EvaluationRow | None,
        why: tuple[Completeness, int],
        waited_s: float,
    ) -> Due:
        """A record that waited for its trace, with what that tells of it."""
        now = row
        if row.is_derived:
            if waiting.is_again and view.tree.spans:
                made = of_trace(row, view)
                session_id = row.session_id or made.session_id
                now = replace(row, context=made.context, session_id=session_id)
        elif row.lacks_session:
            now = replace(row, session_id=trace_session(view.tree.spans))
        is_own = waiting.is_again and now.session_id != row.session_id
        if is_own and self._has_own_evaluation(row):
            now = replace(now, session_id=row.session_id)
        has_context = now.context != row.context
        settled = None
        if has_context or now.session_id != row.session_id:
            settled = SettledRecord(
                space=row.space, uid=row.uid, seq=row.seq, session_id=now.session_id,
                context=now.context, has_context=has_context,
            )  # fmt: skip
        has_session = settled is not None or bool(waiting.watched_by)
        has_session |= row.lacks_session and not waiting.is_again
        ready = _ready(now, Need.TRACE, *why, waited_s=waited_s)
        return Due(ready, waiting, place, before, settled, has_session)

    def _has_own_evaluation(self, row: RecordRow) -> bool:
        """Tell whether a record was evaluated as a session of its own; that stays so."""
        registered = self._registry.of_record(row)
        if registered is None or registered.profile.plan.session is None:
            return False
        key = row.space, uid_of(registered.uid, row.uid)
        return bool(self._store.latest_evaluations([key]))

    def give_back(self, part: "Part") -> None:
        """Let everything that was taken, and not decided on, have the next turn of its space."""
        for item in (*reversed(part.traces), *reversed(part.without_trace)):
            self._join.put_back(item)

    def finish(self, part: "Part", decided: "Decided", results: Results) -> None:
        """Judge what was decided on; what takes much longer than others did waits for a next turn.

        Args:
            part: What was taken.
            decided: What is judged of it.
            results: Gets evaluations, derived records and letters.
        """
        began = self._clock()
        left = self.judge(decided.due, decided.views, results, began + _LATE_S)
        for each in reversed(left):
            self._join.wait_again(each.waiting, each.place)
        done, now = len(decided.due) - len(left), self._clock()
        if decided.due:
            self._pace.took(part.space, done, now - part.began, now - began)

    def judge(
        self,
        due: Sequence[Due],
        views: Mapping[str, TraceView],
        results: Results,
        until: float,
    ) -> list[Due]:
        """Judge records, and write what comes of them into a commit.

        Args:
            due: The records, all of one space.
            views: Their traces, by id.
            results: Gets evaluations, derived records and letters.
            until: The clock's time at which no further record is begun.

        Returns:
            Those that there was no time for.
        """
        groups: defaultdict[_Group, list[Due]] = defaultdict(list)
        profiles: dict[_Group, RegisteredProfile] = {}
        for each in due:
            row = each.ready.record
            registered = self._judge_of(each)
            if registered is None:
                self._without_profile(each, results)
                continue
            registered = registered.of_record(row)
            is_again = each.earlier is not None
            group = _Group(registered.uid, registered.asks, row.is_derived, is_again)
            groups[group].append(each)
            profiles[group] = registered
        left: list[Due] = []
        is_first = True
        for group, items in groups.items():
            if not is_first and (results.is_full or self._clock() >= until):
                left += items
                continue
            is_first = False
            left += self._judged(items, profiles[group], views, results, until)
        return left

    def _judge_of(self, due: Due) -> RegisteredProfile | None:
        """The profile that judges a record; again, the one that did so last."""
        if due.earlier is not None:
            return self._registry.get(due.ready.record.space, due.earlier.profile_uid)
        return self._registry.of_record(due.ready.record)

    def _without_profile(self, due: Due, results: Results) -> None:
        row = due.ready.record
        if due.earlier is None:
            why = self._registry.why_unusable(row)
            results.commit.letters.append(letter_of_unknown(row, why))
            return
        _log.warning(
            "spans came behind the result on record %.100s, which stands: its profile cannot be "
            "used any more", row.uid,
        )  # fmt: skip

    def _judged(
        self,
        items: Sequence[Due],
        registered: RegisteredProfile,
        views: Mapping[str, TraceView],
        results: Results,
        until: float,
    ) -> Sequence[Due]:
        """Judge records by one profile; where the engine fails, one by one."""
        try:
            rows = self._rows(items, registered, views, lambda: self._clock() >= until)
        except Exception as error:  # noqa: BLE001 one record must not stop the others
            if len(items) > 1:
                left: list[Due] = []
                for at, each in enumerate(items):
                    if at and (results.is_full or self._clock() >= until):
                        left += items[at:]
                        break
                    self._judged([each], registered, views, results, until)
                return left
            _log.exception("profile %s: the engine failed", registered.profile.alias)
            if items[0].earlier is None:  # else the evaluation that is there stays
                letter = letter_of_record(items[0].ready.record, "engine_fault", repr(error))
                results.commit.letters.append(letter)
                self._write(items, results)
            return ()
        for row, each in zip(rows, items, strict=False):
            results.commit.evaluations.append(_named(row, each.ready.record))
            results.waits_s[RecordId(row.space, row.record_uid)] = each.ready.waited_s
            results.size += size_of(row.tasks)
        self._write(items[: len(rows)], results)
        return items[len(rows) :]

    def _rows(
        self,
        items: Sequence[Due],
        registered: RegisteredProfile,
        views: Mapping[str, TraceView],
        is_late: Callable[[], bool],
    ) -> list[EvaluationRow]:
        seq, now_ns = self._store.last_seq(), self._now_ns()
        pairs = [(each.ready, each.earlier) for each in items if each.earlier is not None]
        if not pairs:
            ready = [each.ready for each in items]
            return judge(ready, registered, views, seq=seq, now_ns=now_ns, is_late=is_late)
        rerun = self._rerun(registered, is_derived=items[0].ready.record.is_derived)
        return judge_again(pairs, registered, rerun, views, seq=seq, now_ns=now_ns, is_late=is_late)

    def _rerun(self, registered: RegisteredProfile, *, is_derived: bool) -> Rerun:
        key = (registered.space, registered.uid, registered.asks, is_derived)
        found = self._reruns.get(key)
        if found is None:
            # Spans can change the whole context of a derived record.
            make = rerun_all if is_derived else rerun_of
            found = self._reruns[key] = make(registered.plan)
        return found

    def _write(self, items: Iterable[Due], results: Results) -> None:
        """Write what goes with a decision: derived records, and what traces told of others."""
        for each in items:
            row = each.ready.record
            if each.waiting.watched_by:
                results.commit.records.append(row)
            if each.settled is not None:
                results.commit.settled.append(each.settled)
            if each.has_session:
                results.sessions.append(row)
            if each.place is not None:
                self._late.judged([each.place.trace_id])


class Decided(NamedTuple):
    """Records that are judged now, and their traces by id."""

    due: Sequence[Due]
    views: Mapping[str, TraceView]


class Part:
    """The records that one turn of a space decides."""

    def __init__(self, space: str, began: float) -> None:
        self.space: Final = space
        self.began: Final = began
        self.traces: Final[list[TraceKey]] = []
        self.without_trace: Final[list[Waiting]] = []
        self.uids: Final[list[str]] = []
        """Of all records, those included that are to be derived."""
        self.is_alone = False
        """True if an earlier process may have ended by what is in here."""


def due_now(row: RecordRow) -> Due:
    """A record that is judged as it comes."""
    return Due(
        _ready(row, Need.NOTHING), Waiting(space=row.space, uid=row.uid, seq=0, arrived=0.0), None
    )


def need_of(row: RecordRow, registered: RegisteredProfile | None) -> Need:
    """The thing that a record waits for.

    Args:
        row: The record.
        registered: Its profile.
    """
    if registered is None:
        return Need.PROFILE
    plan = registered.profile.plan
    reads = plan.reads_spans or row.is_derived or (row.lacks_session and plan.session is not None)
    return Need.TRACE if reads and row.trace_id is not None else Need.NOTHING


def sent_records(rows: Iterable[RecordRow], deriver: Deriver) -> Collection[SentRecord]:
    """The records that senders wrote about traces: none is derived beside them."""
    return {
        SentRecord(row.space, row.trace_id, deriver.alias_of(row))
        for row in rows
        if row.trace_id is not None and not row.is_derived
    }


def _ready(
    row: RecordRow,
    need: Need,
    completeness: Completeness = Completeness.COMPLETE,
    missing_parents: int = 0,
    waited_s: float = 0.0,
) -> Ready:
    return Ready(
        record=row, need=need, completeness=completeness, missing_parents=missing_parents,
        waited_s=max(0.0, waited_s),
    )  # fmt: skip


def _named(row: EvaluationRow, record: RecordRow) -> EvaluationRow:
    """An evaluation with the process that the record itself names, where no span does."""
    if row.service_name or not record.tags:
        return row
    service, version, environment = (record.tags.get(name, "") for name in _RESOURCE_TAGS)
    if not (service or version or environment):
        return row
    return replace(row, service_name=service, service_version=version, environment=environment)
