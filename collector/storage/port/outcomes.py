"""Outcomes of evaluations and of their tasks, without any text; comparisons count them."""

from typing import NamedTuple

from scouter.evaluate.outcome import Outcome
from scouter.model.struct import struct


class TaskOutcome(NamedTuple):
    """The outcome of a task for one record."""

    task_id: str
    task_type: str
    outcome: Outcome
    reason: str | None
    score: float | None
    """As `TaskRow.score`."""


@struct
class OutcomeRow:
    """The outcome of an evaluation and of its tasks."""

    record_uid: str
    record_id: str
    session_id: str
    trace_id: str | None
    outcome: Outcome
    created_ns: int
    duration_ns: int
    tasks: tuple[TaskOutcome, ...]
    """In the order of the profile."""
