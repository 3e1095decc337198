"""Evaluations of records and sessions, and the results of their tasks."""

import datetime

from pydantic import ConfigDict, Field, JsonValue

from scouter.client.models.answer import Answer
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown


class TaskUsage(Answer):
    """Questions to a judge, with their tokens and cost; a sum is None if no answer tells it."""

    model_config = ConfigDict(from_attributes=True)

    calls: int
    cached: int = Field(
        default=0, description="Questions that a cache answered; they take nothing."
    )
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    unpriced_calls: int = Field(
        default=0, description="Calls that the cost leaves out, as it is not known."
    )


class TaskResult(Answer):
    """Outcome of one task; it is pending while a judge has yet to answer."""

    model_config = ConfigDict(from_attributes=True)

    task_id: str
    task_type: str
    outcome: Outcome
    reason: str | None = Field(default=None, description="Why, where it errored or was skipped.")
    score: float | None = Field(
        default=None,
        description="The value of its judge or metric; of an assertion 1 if it passed, 0 if it "
        "failed. Null where it was not decided, which is not 0.",
    )
    expected: JsonValue = None
    actual: JsonValue = None
    message: str
    operator: str = ""
    condition: bool = Field(default=False, description="True for a gate.")
    stage: int = 0
    usage: TaskUsage | None = Field(
        default=None, description="Tokens and cost of a judge's answers."
    )
    question: str = Field(
        default="",
        description="Digest of all that a judge task's outcome follows from but the answer.",
    )
    answer: JsonValue = Field(default=None, description="A judge's whole answer.")
    span_ids: tuple[str, ...] = Field(
        default=(), description="The first 20 of the spans that it is about, by start time."
    )
    calibration: JudgeKnown | None = Field(
        default=None,
        description="Of a judge that passed or failed it: its calibration in force at that "
        "time; null where there is none of this very judge.",
    )


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
