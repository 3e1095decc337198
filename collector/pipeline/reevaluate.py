"""Stored records judged by another version of their profile."""

from collections.abc import Iterator, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, replace
from typing import Final

from collector.metrics import NO_TASK
from collector.pipeline.joined_trace import Need
from collector.pipeline.judge import TraceView, follows, judge
from collector.pipeline.pipeline import Pipeline
from collector.pipeline.profiles import RegisteredProfile
from collector.pipeline.ready import Ready
from collector.split import split
from collector.storage.port import Store
from collector.storage.rows import EvaluationQuery, EvaluationRow, RecordRow, Scope
from scouter.errors import TransientError
from scouter.evaluate.spans.tree import SpanTree

_PART: Final = 50
"""Records whose traces are in memory together."""
_COMMIT_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskChange:
    """A task that two versions of a profile see differently."""

    task_id: str
    before: str
    """Its outcome; `none` where that version has no such task."""
    after: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Flip:
    """A record whose verdict, or the outcome of one of its tasks, is another one now."""

    before: EvaluationRow
    after: EvaluationRow
    tasks: tuple[TaskChange, ...]
    is_stored: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Reevaluated:
    """What became of one page of verdicts."""

    checked: int
    """Verdicts on records that were judged again."""
    stored: int
    """Revisions that were stored."""
    gone: int
    """Verdicts whose record is stored no more."""
    flips: tuple[Flip, ...]
    next_before: tuple[int, int] | None
    """Go on below this position; None at the end."""


class Reevaluator:
    """Judges what is stored.

    Args:
        store: Holds records, spans and verdicts.
        pipeline: Stores revisions, as it is the only one that makes some.
    """

    def __init__(self, store: Store, pipeline: Pipeline) -> None:
        self._store, self._pipeline = store, pipeline

    def run(
        self, registered: RegisteredProfile, query: EvaluationQuery, *, now_ns: int, is_dry: bool
    ) -> Reevaluated:
        """Judge the records of one page of verdicts by a profile.

        Args:
            registered: The profile.
            query: Which verdicts; those on sessions are passed over.
            now_ns: The time, nanoseconds since the epoch.
            is_dry: Change nothing.

        Raises:
            TransientError: The store cannot be read or written now.

        Cost: linear in records, tasks and spans; the traces of 50 records are in memory at a time.
        """
        page = self._store.evaluations(query)
        alias = registered.profile.alias  # a query by it finds names and digests, too
        rows = [row for row in page.items if row.scope is Scope.RECORD and row.alias == alias]
        checked = 0
        flips: list[tuple[EvaluationRow, EvaluationRow, tuple[TaskChange, ...]]] = []
        stored: set[str] = set()
        for part in split(rows, lambda _: (1,), (_PART,)):
            pairs = list(self._judged(registered, part, now_ns))
            checked += len(pairs)
            flips += [(*pair, changes) for pair in pairs if (changes := _changes(*pair))]
            new = [
                after
                for before, after in pairs
                if before.profile_uid != after.profile_uid or _changes(before, after)
            ]
            if new and not is_dry:
                try:
                    stored |= self._pipeline.revise(new).result(_COMMIT_S)
                except FutureTimeoutError as error:
                    raise TransientError(f"no commit within {_COMMIT_S:g} s", 5) from error
        return Reevaluated(
            checked=checked,
            stored=len(stored),
            gone=len(rows) - checked,
            flips=tuple(
                Flip(before=b, after=a, tasks=changes, is_stored=a.record_uid in stored)
                for b, a, changes in flips
            ),
            next_before=page.next_before,
        )

    def _judged(
        self, registered: RegisteredProfile, part: Sequence[EvaluationRow], now_ns: int
    ) -> Iterator[tuple[EvaluationRow, EvaluationRow]]:
        """Each verdict, and the one that the profile gives."""
        space = registered.space
        seq = self._store.last_seq()  # first: what comes from now on may be seen, or not
        records = {
            row.uid: row for row in self._store.records_of(space, [row.record_uid for row in part])
        }
        traces: dict[str, TraceView] = {}
        if registered.profile.plan.reads_spans:
            ids = {row.trace_id for row in records.values() if row.trace_id is not None}
            found = self._store.spans_of(space, ids)
            traces = {key: TraceView.of(SpanTree(spans)) for key, spans in found.items()}
        known = [row for row in part if row.record_uid in records]
        items = [_ready(records[row.record_uid], row) for row in known]
        if not items:
            return
        earlier = {row.record_uid: row for row in known}
        verdicts = judge(items, registered, traces, seq=seq, now_ns=now_ns, earlier=earlier)
        for before, after in zip(known, verdicts, strict=True):
            yield before, replace(after, **follows(before))


def _ready(record: RecordRow, verdict: EvaluationRow) -> Ready:
    """A record with what was known of its trace when it was judged."""
    return Ready(
        record=record,
        need=Need.NOTHING,
        spans=(),
        completeness=verdict.completeness,
        missing_parents=verdict.missing_parents,
        waited_s=0.0,
    )


def _changes(before: EvaluationRow, after: EvaluationRow) -> tuple[TaskChange, ...]:
    was = {task.task_id: task.outcome.value for task in before.tasks}
    now = {task.task_id: task.outcome.value for task in after.tasks}
    return tuple(
        TaskChange(task_id=task, before=was.get(task, NO_TASK), after=now.get(task, NO_TASK))
        for task in was | now
        if was.get(task) != now.get(task)
    )
