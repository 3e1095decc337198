"""Outcomes of evaluations and of their tasks, without any text: what a comparison counts."""

from typing import NamedTuple

from scouter.evaluate.outcome import Outcome
from scouter.model.struct import struct


class TaskOutcome(NamedTuple):
    """How a task ended for one record."""

    task_id: str
    task_type: str
    outcome: Outcome
    reason: str | None
    score: float | None
    """As `TaskRow.score`."""


@struct
class OutcomeRow:
    """How an evaluation ended."""

    record_uid: str
    record_id: str
    session_id: str
    trace_id: str | None
    outcome: Outcome
    created_ns: int
    duration_ns: int
    tasks: tuple[TaskOutcome, ...]
