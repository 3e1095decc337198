"""Labels of people, and their agreement."""

import datetime

from pydantic import JsonValue

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
    answer: JsonValue = None


class QueueItem(Answer):
    """A record to be labelled."""

    uid: str
    record_id: str = ""
    session_id: str = ""
    trace_id: str | None = None
    created_at: datetime.datetime
    context: JsonValue = None
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

    value: float | None
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
    sensitivity: float | None
    sensitivity_interval: tuple[float, float]
    specificity: float | None
    specificity_interval: tuple[float, float]
    kappa: AgreementKappa


class LabelAgreement(Answer):
    """Labels on one task, summed up."""

    profile: str
    task_id: str
    raters: dict[str, int]
    records: int
    good: int
    tied: int
    pairs: tuple[RaterPair, ...]
    """Those of the 20 busiest people."""
    left_out: int
    """People who are in no pair, as 20 labelled more."""
    everybody: AgreementKappa
    """Fleiss' kappa."""
    judge: JudgeAgreement
    contested: tuple[str, ...]
