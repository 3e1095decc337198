"""Evaluations of records and sessions, and the results of their tasks."""

import datetime

from pydantic import Field, JsonValue

from scouter.client.models.answer import Answer
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown


class TaskUsage(Answer):
    """Questions to a judge, with their tokens and cost; a sum is None if no answer tells it."""

    calls: int
    cached: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    unpriced_calls: int = 0
    """Calls whose cost is not known, and which `cost_usd` leaves out."""


class TaskResult(Answer):
    """Outcome of one task; it is pending while a judge has yet to answer."""

    task_id: str
    task_type: str
    outcome: Outcome
    reason: str | None = None
    """Why, where it errored or was skipped."""
    score: float | None = None
    """The number beside the outcome; None where the task was not decided, which is not 0."""
    expected: JsonValue = None
    actual: JsonValue = None
    message: str
    operator: str = ""
    condition: bool = False
    """True for a gate."""
    stage: int = 0
    usage: TaskUsage | None = None
    """Calls, tokens and cost of the answers of the task's judge."""
    question: str = ""
    """Digest of all that a judge task's outcome follows from but the answer."""
    answer: JsonValue = None
    """A judge's whole answer."""
    span_ids: tuple[str, ...] = ()
    """The first 20 of the spans that it is about, by start time; a session's are of its traces."""
    calibration: JudgeKnown | None = None
    """Calibration of the judge that decided the task, the one in force at that time."""


class Evaluation(Answer):
    """The evaluation of one record, or of one session."""

    evaluation_id: str
    scope: str
    """`record` or `session`."""
    record_id: str
    """The user's name for the record; may be empty."""
    uid: str
    """The record's key, or one made for the session."""
    session_id: str = ""
    trace_id: str | None = None
    """None for a session, which may have many."""
    profile: str
    """Alias of the profile."""
    profile_name: str = ""
    """Its full name, where the alias is another."""
    profile_version: str
    """Digest of the profile's tasks."""
    revision: int
    outcome: Outcome
    completeness: str
    missing_parents: int = 0
    service_name: str = ""
    service_version: str = ""
    environment: str = ""
    tags: dict[str, str] = Field(default_factory=dict)
    created_at: datetime.datetime
    evaluated_at: datetime.datetime
    tasks: tuple[TaskResult, ...]
