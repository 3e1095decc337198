"""One side of a comparison: records of a version or a period, or those of an offline run."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from collector.comparing.runs import read_body, stored_summary
from collector.items.times import format_time
from collector.problem import ProblemError
from collector.store.evaluation_queries import EvaluationQuery, OutcomeRow, TaskOutcome
from collector.store.store import Store
from scouter.evaluate.api.records import EvalResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.record_result import RecordResult, record_outcome
from scouter.evaluate.results.task_result import EvalTaskResult, TaskSpec
from scouter.model.score import is_score_uid

MOST: Final = 10_000
"""Records of a side; of more, the newest are compared."""
_QUIET_NS: Final = 24 * 3600 * 10**9
"""Time without a new record after which a live side counts as closed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Records that make a side: those of a run, or live ones by filter."""

    run_id: str | None = None
    version: str | None = None
    since_ns: int | None = None
    until_ns: int | None = None
    environment: str | None = None
    limit: int = MOST
    now_ns: int = 0
    """Time of the look: says whether the side still takes traffic."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """The records of a side."""

    label: str
    """For people."""
    results: EvalResults
    """Records of one profile; a live record without an id of its own has its uid for one."""
    run: ScenarioEvalResults | None = None
    """The whole run, where it is one."""
    is_bare: bool = False
    """True of a run without scenarios."""
    is_cut: bool = False
    """True if there are more records, which are older."""
    is_open: bool = False
    """True if a record may still come to it: a live side without an end whose newest record is
    less than a day old."""
    tags: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Of live records, by uid."""

    @property
    def tasks(self) -> set[str]:
        """Ids of all tasks that a record has."""
        return {task.task_id for record in self.results.records for task in record.tasks}


def read_side(
    store: Store, space: str, profile: str, wanted: Wanted, *, is_whole: bool = False
) -> Side:
    """Read a side.

    Args:
        store: Holds evaluations and runs.
        space: Space of the records.
        profile: Alias; of a run with one profile, empty will do.
        wanted: Selects the records.
        is_whole: True where the other side is a run, too: then all profiles are compared.

    Raises:
        ProblemError: 404, there is no such run, or it has nothing of this profile.
    """
    return (
        _live(store, space, profile, wanted)
        if wanted.run_id is None
        else _offline(store, space, profile, wanted.run_id, is_whole=is_whole)
    )


def _offline(store: Store, space: str, profile: str, run_id: str, *, is_whole: bool) -> Side:
    row = store.run(space, run_id)
    if row is None:
        raise ProblemError(404, f"no run {run_id!r} is stored; see GET /api/v1/runs")
    saved = read_body(row.name, row.body)
    parts = saved.results.dataset_results
    if saved.is_bare:
        [records] = parts.values()
    elif is_whole:
        records = EvalResults(())
    elif profile in parts:
        records = parts[profile]
    elif not profile and len(parts) < 2:
        records = next(iter(parts.values()), EvalResults(()))
    else:
        has = ", ".join(parts) or "none"
        why = f"has no records of the profile {profile!r}" if profile else "has several profiles"
        raise ProblemError(404, f"the run {row.name!r} {why}; its profiles are: {has}")
    summary = stored_summary(row)
    when = format_time(summary.ended_ns or row.added_ns)[:16].replace("T", " ")
    return Side(
        label=f"run {row.name!r} of {when}",
        results=records,
        run=saved.results,
        is_bare=saved.is_bare,
    )


def _live(store: Store, space: str, profile: str, wanted: Wanted) -> Side:
    rows = store.outcomes(
        EvaluationQuery(
            space=space,
            profile=profile,
            service_version=wanted.version,
            environment=wanted.environment,
            since_ns=wanted.since_ns,
            until_ns=wanted.until_ns,
            limit=wanted.limit + 1,
        )
    )
    known: dict[TaskOutcome, EvalTaskResult] = {}
    found = [_record(row, known) for row in rows[: wanted.limit]]
    is_cut = len(rows) > wanted.limit
    newest_ns = max((each.created_ns for each in found), default=0)
    has_end = wanted.until_ns is not None and wanted.until_ns <= wanted.now_ns
    return Side(
        label=_label(wanted),
        results=EvalResults(found),
        is_cut=is_cut,
        is_open=bool(found) and not has_end and wanted.now_ns - newest_ns < _QUIET_NS,
        tags={row.record_uid: row.tags for row in rows[: wanted.limit] if row.tags},
    )


def _label(wanted: Wanted) -> str:
    """A live side in words: `version 1.4, since 2026-01-02 03:04`."""
    parts = [f"version {wanted.version}" if wanted.version else "all versions"]
    if wanted.environment:
        parts.append(wanted.environment)
    for word, at_ns in (("since", wanted.since_ns), ("until", wanted.until_ns)):
        if at_ns is not None:
            parts.append(f"{word} {format_time(at_ns)[:16].replace('T', ' ')}")
    return ", ".join(parts)


def _record(row: OutcomeRow, known: dict[TaskOutcome, EvalTaskResult]) -> RecordResult:
    """An evaluation as the engine's comparison reads it, without values and messages.

    A record without an id is not to be taken for another one without: its uid is its id. So is a
    session's, whose evaluation counts as one of its conversation. A score from outside is a result
    of its task, and of no whole record; those of one trace belong together as those of a
    conversation do.
    """
    is_score = is_score_uid(row.record_uid)
    return RecordResult(
        row.record_uid,
        row.record_uid if is_score else row.record_id or row.record_uid,
        row.session_id or (row.trace_id or "" if is_score else ""),
        row.trace_id,
        Outcome.SKIPPED if is_score else row.outcome,
        tuple([_task(task, known) for task in row.tasks]),
        row.created_ns,
        row.duration_ns,
    )


def _task(task: TaskOutcome, known: dict[TaskOutcome, EvalTaskResult]) -> EvalTaskResult:
    """A result; those that say the same are one."""
    found = known.get(task)
    if found is None:
        spec = TaskSpec(task_id=task.task_id, task_type=task.task_type, operator="")
        reason = None if task.reason is None else Reason(task.reason)
        result = EvalTaskResult(spec, task.outcome, reason, None, None, "")
        found = known[task] = result.scored(task.score)
    return found


# --- both sides together -------------------------------------------------------------------


def with_tasks(results: EvalResults, tasks: Collection[str]) -> EvalResults:
    """The records with some of their tasks only; those without any are left out."""
    return EvalResults(list(_with_tasks(results.records, tasks)))


def _with_tasks(records: Iterable[RecordResult], tasks: Collection[str]) -> Iterator[RecordResult]:
    for each in records:
        left = tuple([task for task in each.tasks if task.task_id in tasks])
        if left and len(left) == len(each.tasks):
            yield each
        elif left:
            yield RecordResult(
                each.record_uid,
                each.record_id,
                each.session_id,
                each.trace_id,
                record_outcome(left),
                left,
                each.created_ns,
                each.duration_ns,
            )


def shared_ids(before: EvalResults, after: EvalResults) -> Counter[str]:
    """Number of records that both sides have, by id."""
    counts = (
        Counter(each.record_id for each in side.records if each.record_id)
        for side in (before, after)
    )
    first, second = counts
    return first & second


def first_of(results: EvalResults, shared: Counter[str]) -> EvalResults:
    """As many records of each id as both sides have, in their order."""
    left = Counter(shared)
    found: list[RecordResult] = []
    for each in results.records:
        if left[each.record_id] > 0:
            left[each.record_id] -= 1
            found.append(each)
    return EvalResults(found)
