"""Counts of task outcomes per hour, kept with the results; rates are computed from them."""

from collections.abc import Iterator
from typing import Final, NamedTuple

from collector.store.rows import EvaluationRow
from scouter.evaluate.outcome import Outcome, Reason

HOUR_NS: Final = 3_600_000_000_000
GATE: Final = Reason.GATE.value
"""The reason of a task that a gate skipped."""


class RollupKey(NamedTuple):
    """Key by which task outcomes are counted: the columns of the table `rollups` in order."""

    space: str
    hour_ns: int
    """Beginning of the hour in which the evaluation was made."""
    profile_uid: str
    profile_digest: str
    profile_name: str
    alias: str
    task_id: str
    position: int
    outcome: str
    gated: bool


def rollup_keys(row: EvaluationRow) -> Iterator[RollupKey]:
    """The counts that an evaluation adds one to: one for each task that is not pending."""
    hour_ns = row.evaluated_ns // HOUR_NS * HOUR_NS
    for position, task in enumerate(row.tasks):
        if task.outcome is Outcome.PENDING:
            continue
        yield RollupKey(
            row.space, hour_ns, row.profile_uid, row.profile_digest, row.profile_name, row.alias,
            task.task_id, position, task.outcome.value,
            task.outcome is Outcome.SKIPPED and task.reason == GATE,
        )  # fmt: skip
