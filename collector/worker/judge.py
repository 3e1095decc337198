"""Judges records that are due, and writes the results as rows of a commit."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from collector.store.commit import Commit, RecordId
from collector.store.rows import EvaluationRow, RecordRow, SettledRecord
from collector.store.span_rows import TracePlace
from collector.store.store import Store
from collector.worker.late import LateSpans
from collector.worker.letters import letter_of_record, letter_of_unknown
from collector.worker.open_trace import Waiting
from collector.worker.profiles import ProfileRegistry, RegisteredProfile
from collector.worker.ready import Ready, Rerun, rerun_all, rerun_of
from collector.worker.records import TraceView, judge, judge_again, named_by_tags
from collector.worker.stored_values import MOST_TOGETHER, size_of

_log: Final = logging.getLogger(__name__)


class Due(NamedTuple):
    """A record that is judged now."""

    ready: Ready
    waiting: Waiting
    place: TracePlace | None
    """Place of the spans of its trace, if it waited for that."""
    earlier: EvaluationRow | None = None
    """Its evaluation, which has not seen all spans; None for the first one."""
    settled: SettledRecord | None = None
    """Values that its trace has given since it was accepted."""
    has_session: bool = False
    """True if its session is known only now."""


@dataclass(slots=True)
class Results:
    """Decisions of one commit."""

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
    is_score: bool
    is_again: bool


class Judge:
    """Judges records; to be used by one thread.

    Args:
        store: Says which spans evaluations have seen.
        registry: Finds the profile of a record.
        late: Is notified of the traces that evaluations read.
        clock: Monotonic seconds.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: Store,
        registry: ProfileRegistry,
        late: LateSpans,
        *,
        clock: Callable[[], float],
        now_ns: Callable[[], int],
    ) -> None:
        self._store, self._registry, self._late = store, registry, late
        self._reruns: Final[dict[tuple[str, str, bool, bool], Rerun]] = {}
        self._clock, self._now_ns = clock, now_ns

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
            until: The clock's time at which no further record is started.

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
            group = _Group(registered.uid, registered.asks, row.is_derived, row.is_score, is_again)
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
            results.commit.evaluations.append(named_by_tags(row))
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
        """Write what goes with a decision: derived records, and what traces say of others."""
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


def due_now(row: RecordRow) -> Due:
    """A record that is judged as it comes."""
    return Due(Ready(record=row), Waiting(space=row.space, uid=row.uid, seq=0, arrived=0.0), None)
