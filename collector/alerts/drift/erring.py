"""Tasks of which most results err: a judge that never answered, or a path that is never there.

The detectors tell of errors that rise. They learn what is usual first, so that errors that were
there from the first record on are usual to them.
"""

from collections.abc import Iterator
from typing import Final

from collector.alerts.drift.explain import error_of
from collector.alerts.drift.grown import FEWEST
from collector.alerts.drift.trouble import Finding, Trouble
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.rates import TaskCounts, TaskQuery
from collector.store.rows import EvaluationRow
from collector.store.store import Store
from scouter.evaluate.outcome import Outcome, Reason

MOST: Final = 0.5
"""Of the results of a task, those that may err."""


def erring(
    store: Store, space: str, since_ns: int, now_ns: int, *, is_incomplete_told: bool = False
) -> Iterator[Finding]:
    """Find the profiles of a space with a task of which half of the results erred, and ten.

    Args:
        store: Has the results.
        space: Of the profiles.
        since_ns: Results from then on.
        now_ns: Time of the look.
        is_incomplete_told: Traces that lack spans are told of; errors for want of them have the
            same cause, and are left out.

    Returns:
        One finding for each alias: the task that erred most.

    Raises:
        TransientError: The store cannot be read now.
    """
    worst: dict[str, TaskCounts] = {}
    for each in store.task_counts(TaskQuery(space=space, since_ns=since_ns)):
        whole = each.passed + each.failed + each.errored
        if each.errored < FEWEST or each.errored < MOST * whole:
            continue
        if each.alias not in worst or each.errored > worst[each.alias].errored:
            worst[each.alias] = each
    for alias, counts in sorted(worst.items()):
        row = _example(store, space, counts)
        reason = "" if row is None else error_of(row, counts.task_id)
        if is_incomplete_told and reason == Reason.INCOMPLETE:
            continue
        yield Finding(
            space=space, trouble=Trouble.ERRORED, subject=alias, since_ns=now_ns,
            message=_message(counts, reason, row),
        )  # fmt: skip


def _example(store: Store, space: str, counts: TaskCounts) -> EvaluationRow | None:
    query = EvaluationQuery(
        space=space, profile=counts.profile_uid, task_id=counts.task_id,
        task_outcome=Outcome.ERRORED, limit=1,
    )  # fmt: skip
    return next(iter(store.evaluations(query).items), None)


def _message(counts: TaskCounts, reason: str, row: EvaluationRow | None) -> str:
    whole = counts.passed + counts.failed + counts.errored
    what = f"{counts.errored:,} of {whole:,} results of task {counts.task_id!r}"
    said = f"{what} erred within an hour"
    if row is None:  # erased meanwhile
        return said
    return f"{said} ({reason}); scouter results record {row.record_uid} says why"
