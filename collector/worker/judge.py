"""Decides what is due: reads it from the store, derives, judges, and writes the results as rows."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, Protocol

from collector.store.commit import Commit
from collector.store.rows import Completeness, EvaluationRow, RecordRow, TraceKey
from collector.store.span_rows import TracePlace
from collector.store.work import ReadSpans
from collector.worker.begun import Begun
from collector.worker.derive import Deriver
from collector.worker.join import Join
from collector.worker.letters import letter_of_record, letter_of_unknown
from collector.worker.open_trace import Waiting
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.ready import Need, Ready
from collector.worker.records import NO_TRACE, TraceView, judge
from collector.worker.turns import Pace
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
_LATE_S: Final = 1.0
"""Judging of one part after which no further record is begun: those are read once more."""
_RESOURCE_TAGS: Final = ("service.name", "service.version", "deployment.environment.name")
"""Tags that name the process of a record whose spans nobody looked at."""


class Stored(Protocol):
    """The data that deciding reads."""

    def stored_records(self, space: str, uids: Iterable[str]) -> Mapping[str, str]:
        """The digests of stored records, by uid."""
        ...

    def records_at(self, space: str, keys: Iterable[tuple[int, str]]) -> Mapping[str, RecordRow]:
        """Whole records, by uid, of commits and uids."""
        ...

    def spans_at(self, space: str, traces: Iterable[TracePlace]) -> ReadSpans:
        """The spans of traces, by trace id."""
        ...

    def last_seq(self) -> int:
        """The last commit."""
        ...


class Due(NamedTuple):
    """A record that is judged now."""

    ready: Ready
    waiting: Waiting
    place: TracePlace | None
    """Where the spans of its trace are, if it waited for that."""


class _Group(NamedTuple):
    """Records that are judged by the same tasks."""

    profile_uid: str
    asks: bool
    is_derived: bool


class Judge:
    """Decides records of the join; to be used by one thread.

    Args:
        store: Has everything that the join knows of.
        registry: Finds the profile of a record.
        join: Gives out what is due.
        clock: Monotonic seconds.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: Stored,
        registry: ProfileRegistry,
        join: Join,
        *,
        clock: Callable[[], float],
        now_ns: Callable[[], int],
    ) -> None:
        self._store, self._registry, self._join = store, registry, join
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

    def decide(self, part: "Part", now: float) -> "Decided":
        """Read what was taken, and find out what is judged now; the rest waits on.

        Args:
            part: Of one space.
            now: The time of the join.

        Raises:
            TransientError: The store cannot be read now. Nothing was decided: give the part back.
        """
        space, join = part.space, self._join
        places = {key: join.place(key) for key in part.traces}
        waiting = [*part.without_trace, *(w for key in part.traces for w in join.waiting_of(key))]
        rows = self._store.records_at(space, [(w.seq, w.uid) for w in waiting if not w.watched_by])
        derived = [w.uid for w in waiting if w.watched_by]
        there = self._store.stored_records(space, derived)
        spans = self._store.spans_at(space, places.values()).found
        views = {trace_id: TraceView.of(SpanTree(own)) for trace_id, own in spans.items()}
        due = [
            Due(_ready(rows[w.uid], Need.NOTHING), w, None)
            for w in part.without_trace
            if w.uid in rows  # else it was erased
        ]
        for key, place in places.items():
            decision = join.decide(key, filter(is_evidence, spans.get(key[1], ())), now)
            sent = {rows[w.uid].alias for w in decision.waiting if w.uid in rows}
            for each in decision.waiting:
                if not each.watched_by:
                    row = rows.get(each.uid)
                elif each.uid in there or each.alias in sent:
                    row = None
                else:
                    view = views.get(key[1], NO_TRACE)
                    row = self._deriver.record(space, key[1], each, view)
                if row is not None:
                    why = decision.completeness, decision.missing_parents
                    due.append(Due(_ready(row, Need.TRACE, *why), each, place))
        return Decided(due, views)

    def give_back(self, part: "Part") -> None:
        """Let everything that was taken, and not decided on, have the next turn of its space."""
        for item in (*reversed(part.traces), *reversed(part.without_trace)):
            self._join.put_back(item)

    def finish(self, part: "Part", decided: "Decided", commit: Commit) -> None:
        """Judge what was decided on; what takes much longer than others did waits for a next turn.

        Args:
            part: What was taken.
            decided: What is judged of it.
            commit: Gets evaluations, derived records and letters.
        """
        began = self._clock()
        left = self.judge(decided.due, decided.views, commit, began + _LATE_S)
        for each in reversed(left):
            self._join.wait_again(each.waiting, each.place)
        done, now = len(decided.due) - len(left), self._clock()
        if decided.due:
            self._pace.took(part.space, done, now - part.began, now - began)

    def judge(
        self,
        due: Sequence[Due],
        views: Mapping[str, TraceView],
        commit: Commit,
        until: float,
    ) -> list[Due]:
        """Judge records, and write what comes of them into a commit.

        Args:
            due: The records, all of one space.
            views: Their traces, by id.
            commit: Gets evaluations, derived records and letters.
            until: The clock's time at which no further record is begun.

        Returns:
            Those that there was no time for.
        """
        groups: defaultdict[_Group, list[Due]] = defaultdict(list)
        profiles: dict[_Group, RegisteredProfile] = {}
        for each in due:
            row = each.ready.record
            registered = self._registry.of_record(row)
            if registered is None:
                why = self._registry.why_unusable(row)
                commit.letters.append(letter_of_unknown(row, why))
                continue
            registered = registered.of_record(row)
            group = _Group(registered.uid, registered.asks, row.is_derived)
            groups[group].append(each)
            profiles[group] = registered
        left: list[Due] = []
        is_first = True
        for group, items in groups.items():
            if not is_first and self._clock() >= until:
                left += items
                continue
            is_first = False
            left += self._judged(items, profiles[group], views, commit, until)
        return left

    def _judged(
        self,
        items: Sequence[Due],
        registered: RegisteredProfile,
        views: Mapping[str, TraceView],
        commit: Commit,
        until: float,
    ) -> Sequence[Due]:
        """Judge records by one profile; where the engine fails, one by one."""
        try:
            rows = judge(
                [each.ready for each in items], registered, views,
                seq=self._store.last_seq(), now_ns=self._now_ns(),
                is_late=lambda: self._clock() >= until,
            )  # fmt: skip
        except Exception as error:  # noqa: BLE001 one record must not stop the others
            if len(items) > 1:
                left: list[Due] = []
                for at, each in enumerate(items):
                    if at and self._clock() >= until:
                        left += items[at:]
                        break
                    self._judged([each], registered, views, commit, until)
                return left
            _log.exception("profile %s: the engine failed", registered.profile.alias)
            letter = letter_of_record(items[0].ready.record, "engine_fault", repr(error))
            commit.letters.append(letter)
            _derived(items, commit)
            return ()
        commit.evaluations += [
            _named(row, each.ready.record) for row, each in zip(rows, items, strict=False)
        ]
        _derived(items[: len(rows)], commit)
        return items[len(rows) :]


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


def _ready(
    row: RecordRow,
    need: Need,
    completeness: Completeness = Completeness.COMPLETE,
    missing_parents: int = 0,
) -> Ready:
    return Ready(
        record=row, need=need, completeness=completeness,
        missing_parents=missing_parents, waited_s=0.0,
    )  # fmt: skip


def _derived(items: Iterable[Due], commit: Commit) -> None:
    """Accept the records that were derived: they go with what was decided about them."""
    commit.records += [each.ready.record for each in items if each.waiting.watched_by]


def _named(row: EvaluationRow, record: RecordRow) -> EvaluationRow:
    """An evaluation with the process that the record itself names, where no span does."""
    if row.service_name or not record.tags:
        return row
    service, version, environment = (record.tags.get(name, "") for name in _RESOURCE_TAGS)
    if not (service or version or environment):
        return row
    return replace(row, service_name=service, service_version=version, environment=environment)
