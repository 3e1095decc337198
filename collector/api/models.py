"""Models of the API's answers."""

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from collector.api.judge_standing import JudgeStanding
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class TaskUsage(_Answer):
    """What the questions to a judge took; a sum is null where no answer tells."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    calls: int
    cached: int = Field(description="Questions that a cache answered; they take nothing.")
    input_tokens: int | None
    output_tokens: int | None
    cost_usd: float | None
    unpriced_calls: int = Field(description="Calls that the cost leaves out, as it is not known.")


class TaskResult(_Answer):
    """How one task ended, or that it is pending: a judge has yet to answer."""

    model_config = ConfigDict(frozen=True, from_attributes=True)

    task_id: str
    task_type: str
    outcome: Outcome
    reason: str | None = Field(description="Why, where it errored or was skipped.")
    score: float | None = Field(
        description="The value of its judge or metric; of an assertion 1 if it passed, 0 if it "
        "failed. Null where it was not decided, which is not 0."
    )
    expected: JsonValue
    actual: JsonValue
    message: str
    operator: str
    condition: bool = Field(description="True for a gate.")
    stage: int
    usage: TaskUsage | None = Field(description="What a judge's answers took.")
    question: str = Field(
        default="",
        description="Digest of all that a judge task's outcome follows from but the answer.",
    )
    answer: JsonValue = Field(default=None, description="A judge's whole answer.")
    span_ids: list[str] = Field(
        default=[], description="The first 20 of the spans that it is about, by start time."
    )
    calibration: JudgeKnown | None = Field(
        default=None,
        description="Of a judge that passed or failed it: its calibration in force at that time; "
        "null where there is none of this very judge.",
    )


class Evaluation(_Answer):
    """The evaluation of one record, or of one session."""

    evaluation_id: str
    scope: str = Field(description="record or session.")
    record_id: str = Field(description="The user's name for the record; may be empty.")
    uid: str = Field(description="The record's key, or one made for the session.")
    session_id: str
    trace_id: str | None = Field(description="None for a session, which may have many.")
    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(description="Its full name, where the alias is another.")
    profile_version: str = Field(description="Digest of the profile's tasks.")
    revision: int
    outcome: Outcome
    completeness: str = Field(description="complete, quiet or deadline.")
    missing_parents: int
    service_name: str
    service_version: str
    environment: str
    tags: dict[str, str]
    created_at: str
    evaluated_at: str
    tasks: list[TaskResult]


class EvaluationPage(_Answer):
    """Evaluations, newest first."""

    items: list[Evaluation]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")


class RecordStates(_Answer):
    """Every accepted record in exactly one state; sessions have none."""

    accepted: int
    waiting: int
    evaluated: int
    skipped: int
    expired: int = Field(description="Taken out by retention.")
    dead_lettered: int
    erased: int = Field(description="Taken out because somebody wanted it so.")
    lost: int = Field(description="Gone or damaged at a start with --accept-loss.")
    duplicates: int = Field(description="Re-deliveries, beside the sum.")
    derived: int = Field(
        description="Of the accepted: made of traces that a profile watches; beside the sum."
    )
    superseded: int = Field(
        description="Of the erased: derived records in whose place a sender's came; beside the sum."
    )


class SpanStates(_Answer):
    """What became of spans."""

    accepted: int
    stored: int
    expired: int = Field(description="Stored once, taken out since by retention.")
    erased: int = Field(description="Stored once, taken out since because somebody wanted it so.")
    lost: int = Field(description="Gone or damaged at a start with --accept-loss.")
    duplicates: int
    late: int = Field(description="Of the stored: came after their trace had been judged.")
    dead_lettered: int = Field(description="Refused and put aside; never accepted.")


class EventStates(_Answer):
    """Counts of the GenAI events that came as log records."""

    accepted: int
    stored: int
    spanless: int = Field(description="Of the stored: the span that they belong to is not stored.")
    expired: int = Field(description="Stored once, taken out since by retention.")
    erased: int = Field(description="Stored once, taken out since because somebody wanted it so.")
    lost: int = Field(description="Gone or damaged at a start with --accept-loss.")
    duplicates: int
    dead_lettered: int = Field(description="Refused and put aside; never accepted.")


class ConservationSheet(_Answer):
    """Shows that nothing vanished."""

    records: RecordStates
    spans: SpanStates
    events: EventStates
    dead_letters: dict[str, int] = Field(description="Everything put aside, by reason.")
    has_uncounted_losses: bool = Field(
        description="True once something was lost and nobody knows how much: `lost` is the least."
    )


class TaskScores(_Answer):
    """The scores of one task in a few numbers."""

    mean: float | None = Field(description="Null where no result has a score.")
    sd: float | None = Field(description="Standard deviation, with n - 1; null of fewer than two.")
    n: int = Field(description="Results with a score: those that passed or failed.")
    n_error: int = Field(description="Results that errored, and so have none.")


class TaskRate(_Answer):
    """Outcomes of one task, and its pass rate with a 95 % Wilson interval."""

    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(description="Its full name, where the alias is another.")
    profile_version: str
    alias: str = Field(description="The same as `profile`.")
    task_id: str
    passed: int
    failed: int
    errored: int
    skipped: int
    total: int = Field(description="What the rate counts: all but skips without a gate.")
    pass_rate: float | None
    lower: float
    upper: float
    score: TaskScores
    judge: JudgeStanding | None = Field(
        default=None, description="What is known of the judge; null of tasks that ask none."
    )


class TaskRates(_Answer):
    """Task rates by alias, tasks in the profile's order."""

    items: list[TaskRate]


class Alert(_Answer):
    """An alert condition and the evidence for its state."""

    space: str
    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(description="Its full name, where the alias is another.")
    profile_version: str
    alias: str = Field(description="The same as `profile`.")
    state: str = Field(description="inactive, firing or resolved.")
    since: str | None = Field(description="When the state was entered.")
    condition: str = Field(description="In words.")
    pass_rate: float | None
    lower: float
    upper: float
    passed: int
    n: int = Field(description="Records and sessions that the rate is taken over.")
    window: int
    min_samples: int


class UnwatchedAlert(_Answer):
    """The alert of a profile that is registered and not active, so that it watches nothing."""

    space: str
    profile: str = Field(description="Alias of the profile.")
    profile_name: str = Field(description="Its full name, where the alias is another.")
    profile_version: str
    uid: str = Field(description="What POST /api/v1/profiles/{uid}/activate takes.")
    condition: str = Field(description="In words.")


class Alerts(_Answer):
    """All alerts, by alias."""

    items: list[Alert]
    unwatched: list[UnwatchedAlert] = Field(
        description="Those of profiles that are not active, without versions that a later one "
        "took the place of."
    )


class Health(_Answer):
    """How the service is."""

    status: str
    detail: str = ""
