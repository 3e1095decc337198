"""Parts of what is due: taken out of the join, read from the store, derived, and judged."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from collector.split import split
from collector.store.bodies import trace_hash
from collector.store.letters import DeadLetter
from collector.store.reads import MOST_SPAN_BYTES, MOST_SPANS, NoMemoryError
from collector.store.rows import EvaluationRow, RecordRow, SettledRecord, TraceKey
from collector.store.span_rows import TracePlace
from collector.store.store import Store
from collector.store.work import ReadSpans
from collector.worker.derive import Deriver, SentRecord, of_trace, sent_records
from collector.worker.join import Join
from collector.worker.judge import Due, Judge, Results
from collector.worker.letters import letter_of_record
from collector.worker.open_trace import Waiting
from collector.worker.profiles import ProfileRegistry
from collector.worker.ready import Ready
from collector.worker.records import NO_TRACE, TraceView
from collector.worker.recover import Starts
from collector.worker.scores import about
from collector.worker.trace_facts import lost_of, unread_tree
from collector.worker.turns import Pace
from scouter.evaluate.engine.sessions import session_uid
from scouter.evaluate.spans.derived import trace_session
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
_LATE_S: Final = 1.0
"""Judging of one part after which no further record is started: those are read once more."""
_TOO_LARGE: Final = (
    f"more than {MOST_SPANS:,} spans, or {MOST_SPAN_BYTES // 2**20} MiB of them, are not read at "
    "once"
)
_NO_MEMORY: Final = "there is not enough memory to read it; raise memory_limit"
_UNREADABLE: Final = (
    "limit",
    "there is not enough memory to read its context; raise memory_limit, then replay the record",
)


class Decided(NamedTuple):
    """Records that are judged now, and their traces by id."""

    due: list[Due]
    views: Mapping[str, TraceView]
    letters: list[DeadLetter]
    """Of records that cannot be judged."""
    derived: list[RecordRow]
    """Those of them that no store has yet."""

    @property
    def uids(self) -> list[str]:
        """Uids of all these records."""
        return [*(each.ready.record.uid for each in self.due), *(each.uid for each in self.letters)]


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

    def __len__(self) -> int:
        return len(self.traces) + len(self.without_trace)


class _Records(NamedTuple):
    """Records that wait, as the store has them."""

    rows: Mapping[str, RecordRow]
    """By uid."""
    waiting: Collection[str]
    """Uids of those for which there is no room now."""
    unreadable: Collection[str]
    """Uids of those whose contexts cannot be read: they are without."""
    earlier: Mapping[tuple[str, str], EvaluationRow]
    """Evaluations that have not seen all spans, by space and uid."""
    own_sessions: Collection[str]
    """Uids of those that were evaluated as sessions of their own."""


class _Traces(NamedTuple):
    """Traces that are due, as the store has them."""

    places: Mapping[TraceKey, TracePlace]
    """Those that were read."""
    spans: ReadSpans
    views: Mapping[str, TraceView]
    """By trace id."""
    superseded: Collection[str]
    """Uids of records that are not derived, as they are there, or senders' in their place."""


class Parts:
    """Takes what is due out of the join, some at a time; to be used by one thread.

    Args:
        store: Has everything that the join knows of.
        registry: Finds the profile of a record.
        join: Gives out what is due.
        judge: Judges it.
        deriver: Makes records of traces.
        clock: Monotonic seconds.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        join: Join,
        judge: Judge,
        deriver: Deriver,
        *,
        clock: Callable[[], float],
        now_ns: Callable[[], int],
    ) -> None:
        self._store, self._registry, self._join, self._judge = store, registry, join, judge
        self._clock, self._now_ns = clock, now_ns
        self._deriver: Final = deriver
        self._pace: Final = Pace(_PART_S, _FEW, _MOST)

    def take(self, space: str, starts: Starts) -> Part:
        """Take out what one turn of a space decides.

        Args:
            space: The space.
            starts: Says what is judged alone, and whether care is needed.
        """
        part = Part(space, self._clock())
        most = min(self._pace.of(space), _CAREFUL if starts.is_careful else _MOST)
        while len(part.uids) < most and (item := self._join.take(space)) is not None:
            waiting = [item] if isinstance(item, Waiting) else self._join.waiting_of(item)
            part.is_alone = any(starts.is_alone(space, each.uid) for each in waiting)
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

    def decide(self, part: Part, now: float, arriving: Collection[SentRecord]) -> Decided:
        """Read what was taken, and find out what is judged now; the rest waits on.

        Args:
            part: Of one space.
            now: The time of the join.
            arriving: Senders' records of the commit that is being made.

        Raises:
            TransientError: The store cannot be read now. Nothing was decided: give the part back.
        """
        space = part.space
        try:
            gives_up = self._pace.gives_up(space)
            traces = self._traces(part, arriving, gives_up=gives_up)
            waiting = [w for key in traces.places for w in self._join.waiting_of(key)]
            records = self._records(space, [*part.without_trace, *waiting], gives_up=gives_up)
        except NoMemoryError:
            self._pace.no_memory(space, len(part))
            raise
        # Nothing fails from here on: what is taken out of the join is decided.
        self._pace.was_read(space)
        due: list[Due] = []
        letters: list[DeadLetter] = []
        for each in reversed(part.without_trace):
            if each.uid in records.waiting:
                self._join.wait_again(each, None)
        for each in part.without_trace:
            row = records.rows.get(each.uid)
            if each.uid in records.unreadable and row is not None:
                letters.append(letter_of_record(row, *_UNREADABLE))
            elif row is not None:  # else it was erased
                ready = Ready(record=row, waited_s=max(0.0, now - each.arrived))
                due.append(Due(ready, each, None))
        found = Decided(due, traces.views, letters, [])
        for key in traces.places:
            self._decide(key, traces, records, now, found)
        for key in reversed([key for key in part.traces if key not in traces.places]):
            self._join.put_back(key)
        return found

    def _decide(
        self, key: TraceKey, traces: _Traces, records: _Records, now: float, found: Decided
    ) -> None:
        """Find out which records of a trace are judged now."""
        space, trace_id = key
        place, view = traces.places[key], traces.views.get(trace_id, NO_TRACE)
        spans = filter(is_evidence, traces.spans.found.get(trace_id, ()))
        decision = self._join.decide(key, spans, now)
        for each in decision.waiting:
            if each.uid in records.waiting:
                self._join.wait_again(each, place)
                continue
            row = None if each.watched_by else records.rows.get(each.uid)
            before = records.earlier.get((space, each.uid))
            if row is not None and each.uid in records.unreadable:
                found.letters.append(letter_of_record(row, *_UNREADABLE))
                continue
            try:
                if each.watched_by and each.uid not in traces.superseded:
                    row = self._deriver.record(space, trace_id, each, view, self._now_ns())
                if row is None or (each.is_again and before is None):  # erased, or not wanted
                    continue
                settled = _settled(row, each, view, is_own=each.uid in records.own_sessions)
            except Exception as error:  # noqa: BLE001 one trace must not stop the others
                _log.exception("trace %s: the engine failed", trace_id)
                if before is None:  # else the evaluation that is there stays
                    self._put_aside(key, each, row, repr(error), found)
                continue
            ready = Ready(
                record=settled, completeness=decision.completeness,
                missing_parents=decision.missing_parents, waited_s=max(0.0, now - each.arrived),
            )  # fmt: skip
            found.due.append(_due(row, ready, each, place, before))

    def _put_aside(
        self, key: TraceKey, waiting: Waiting, row: RecordRow | None, why: str, found: Decided
    ) -> None:
        """Put a record aside of which the engine cannot tell what its trace has to do with it."""
        if row is None:
            row = self._deriver.bare(*key, waiting.watched_by, self._now_ns())
        if row is not None:
            found.letters.append(letter_of_record(row, "engine_fault", why))
            if waiting.watched_by:
                found.derived.append(row)

    def _traces(self, part: Part, arriving: Collection[SentRecord], *, gives_up: bool) -> _Traces:
        """Read the traces of a part, as far as they fit into memory together."""
        space, store, join = part.space, self._store, self._join
        places = {key: join.place(key) for key in part.traces}
        spans, why_unread = self._spans(space, list(places.values()), gives_up=gives_up)
        places = {key: place for key, place in places.items() if key[1] not in spans.left}
        watched = {key[1]: [w for w in join.waiting_of(key) if w.watched_by] for key in places}
        superseded = set(
            store.stored_records(space, [w.uid for each in watched.values() for w in each])
        )
        sent = {*self._sent(space, [trace_id for trace_id, each in watched.items() if each])}
        sent.update(arriving)
        superseded.update(
            w.uid
            for trace_id, each in watched.items()
            for w in each
            if SentRecord(space, trace_id, w.alias) in sent
        )
        lost = lost_of(store, space, [key[1] for key in places])
        views = {
            trace_id: TraceView.of(SpanTree(each, lost=lost.get(trace_id, "")))
            for trace_id, each in spans.found.items()
        }
        views |= dict.fromkeys(spans.too_large, TraceView.of(unread_tree(why_unread)))
        for trace_id, why in lost.items():
            views.setdefault(trace_id, TraceView.of(SpanTree(lost=why)))
        return _Traces(places, spans, views, superseded)

    def _spans(
        self, space: str, places: Sequence[TracePlace], *, gives_up: bool
    ) -> tuple[ReadSpans, str]:
        """Spans of traces, and why some of these are too large to be read."""
        try:
            return self._store.spans_at(space, places, _SPANS, _SPAN_BYTES), _TOO_LARGE
        except NoMemoryError:
            if not gives_up:
                raise
            return ReadSpans({}, set(), {each.trace_id for each in places}), _NO_MEMORY

    def _records(self, space: str, waiting: Sequence[Waiting], *, gives_up: bool) -> _Records:
        """Read the records that wait, as far as they fit into memory together."""
        store = self._store
        most_bytes = 0 if self._pace.is_short(space) else CONTEXT_BYTES
        keys = [(w.seq, w.uid) for w in waiting if not w.watched_by and not w.is_again]
        fit = store.fitting(space, keys, most_bytes)
        left = {uid for _, uid in keys} - {uid for _, uid in fit}
        unreadable: set[str] = set()
        try:
            rows = store.records_at(space, fit)
        except NoMemoryError:
            if not gives_up:
                raise
            rows = store.records_at(space, fit, has_contexts=False)
            unreadable = set(rows)
        again = [w.uid for w in waiting if w.is_again]
        if not again:
            return _Records(rows, left, unreadable, {}, ())
        sizes = store.context_sizes(space, again[:_AGAIN])
        some = next(split(again[:_AGAIN], lambda uid: (sizes.get(uid, 0),), (most_bytes,)))
        try:
            found = {row.uid: row for row in store.records_of(space, some)}
        except NoMemoryError:
            if not gives_up:
                raise
            found = {}
            _log.warning(
                "spans came behind %d results, which stand: there is not enough memory to read the "
                "contexts of their records; raise memory_limit", len(some),
            )  # fmt: skip
        left |= set(again) - set(some)
        earlier = store.latest_evaluations([(space, uid) for uid in found])
        own = self._own_sessions(found.values())
        return _Records({**rows, **found}, left, unreadable, earlier, own)

    def _sent(self, space: str, trace_ids: Sequence[str]) -> Collection[SentRecord]:
        """The stored records of senders on some traces."""
        maybe = set(self._store.maybe("recorded", [trace_hash(each) for each in trace_ids]))
        wanted = [each for each in trace_ids if trace_hash(each) in maybe]
        rows = self._store.trace_records(space, wanted) if wanted else []
        return sent_records(rows, self._deriver)

    def _own_sessions(self, rows: Iterable[RecordRow]) -> Collection[str]:
        """Uids of those records that were evaluated as sessions of their own."""
        keys: dict[tuple[str, str], str] = {}
        for row in rows:
            registered = self._registry.of_record(row)
            if registered is not None and registered.profile.plan.session is not None:
                keys[row.space, session_uid(registered.uid, row.uid)] = row.uid
        return {keys[key] for key in self._store.latest_evaluations(list(keys))} if keys else ()

    def give_back(self, part: Part) -> None:
        """Let everything that was taken, and not decided on, have the next turn of its space."""
        for item in (*reversed(part.traces), *reversed(part.without_trace)):
            self._join.put_back(item)

    def finish(self, part: Part, decided: Decided, results: Results) -> None:
        """Judge what was decided on; what takes much longer than others did waits for a next turn.

        Args:
            part: What was taken.
            decided: What is judged of it.
            results: Gets evaluations, derived records and letters.
        """
        began = self._clock()
        results.commit.letters += decided.letters
        results.commit.records += decided.derived
        left = self._judge.judge(decided.due, decided.views, results, began + _LATE_S)
        for each in reversed(left):
            self._join.wait_again(each.waiting, each.place)
        done, now = len(decided.due) - len(left), self._clock()
        if decided.due:
            self._pace.took(part.space, done, now - part.began, now - began)


def _settled(row: RecordRow, waiting: Waiting, view: TraceView, *, is_own: bool) -> RecordRow:
    """A record that waited for its trace, with what that says of it.

    Args:
        row: As it is stored.
        waiting: Says why it waited.
        view: Its trace.
        is_own: True if it was evaluated as a session of its own; that stays so.
    """
    now = row
    if row.is_score:
        now = about(row, view.tree)
    elif row.is_derived:
        if waiting.is_again and view.tree.spans:
            made = of_trace(row, view)
            session_id = row.session_id or made.session_id
            now = replace(row, context=made.context, session_id=session_id)
    elif row.lacks_session:
        now = replace(row, session_id=trace_session(view.tree.spans))
    return replace(now, session_id=row.session_id) if is_own else now


def _due(
    row: RecordRow, ready: Ready, waiting: Waiting, place: TracePlace, before: EvaluationRow | None
) -> Due:
    """A record that waited for its trace, with what of it is to be stored anew."""
    now = ready.record
    has_context = now.context != row.context
    settled = None
    if has_context or now.session_id != row.session_id:
        settled = SettledRecord(
            space=row.space, uid=row.uid, seq=row.seq, session_id=now.session_id,
            context=now.context, has_context=has_context,
        )  # fmt: skip
    has_session = settled is not None or bool(waiting.watched_by)
    has_session |= row.lacks_session and not waiting.is_again
    return Due(ready, waiting, place, before, settled, has_session)
