"""Labels of people, and their agreement."""

import datetime

from pydantic import Field, JsonValue

from scouter.client.models.answer import Answer
from scouter.evaluate.outcome import Outcome


class LabelItem(Answer):
    """Label that a person gave a record, for one task."""

    uid: str
    record_id: str = ""
    profile: str
    task_id: str
    label: bool | None
    """True if the record is good; None where an earlier label was taken back."""
    rater: str
    notes: str = ""
    at: datetime.datetime
    by: str = ""
    """Id of the token that it came with."""


class QueueResult(Answer):
    """Result of the task, for those who asked to see it."""

    outcome: Outcome
    reason: str | None = None
    score: float | None = None
    message: str = ""
    answer: JsonValue = Field(default=None, description="A judge's whole answer.")


class QueueItem(Answer):
    """A record to be labelled."""

    uid: str
    record_id: str = ""
    session_id: str = ""
    trace_id: str | None = None
    created_at: datetime.datetime
    context: JsonValue = None
    asks: str = ""
    """The question with the record's values in it."""
    result: QueueResult | None = None
    labels: tuple[LabelItem, ...] = ()
    """Labels of other people, where they were asked for."""


class LabelQueue(Answer):
    """Records to ask a person about, in order."""

    profile: str
    task_id: str
    asks: str
    """The judge's prompt, or the assertion."""
    is_judge: bool
    labelled: int
    waiting: int
    items: tuple[QueueItem, ...]


class AgreementKappa(Answer):
    """Agreement beyond chance: 1 perfect, 0 by chance alone; None where it cannot be said."""

    value: float | None = Field(description="Null where chance alone would always agree.")
    lower: float
    upper: float


class RaterPair(Answer):
    """Two people on the records that both labelled."""

    first: str
    second: str
    records: int
    agreed: int
    kappa: AgreementKappa


class JudgeAgreement(Answer):
    """A judge beside what most people say."""

    good_passed: int
    good_failed: int
    bad_passed: int
    bad_failed: int
    sensitivity: float | None = Field(description="Of good records, the share that it passes.")
    sensitivity_interval: tuple[float, float]
    specificity: float | None = Field(description="Of bad records, the share that it fails.")
    specificity_interval: tuple[float, float]
    kappa: AgreementKappa


class LabelAgreement(Answer):
    """Labels on one task, summed up."""

    profile: str
    task_id: str
    raters: dict[str, int] = Field(description="Labels by person, the busiest first.")
    records: int = Field(description="Those with a label.")
    good: int = Field(description="Records that most people pass.")
    tied: int
    pairs: tuple[RaterPair, ...] = Field(description="Those of the 20 busiest people.")
    left_out: int = Field(description="People who are in no pair, as 20 labelled more.")
    everybody: AgreementKappa = Field(description="Fleiss' kappa of all people.")
    judge: JudgeAgreement
    contested: tuple[str, ...] = Field(description="Uids of 50 records that people differ on.")
