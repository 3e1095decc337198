"""Labels of people, and their agreement."""

import datetime

from pydantic import Field, JsonValue

from scouter.client.models.answer import Answer
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown


class LabelTask(Answer):
    """A task of an active profile, and the labels on it."""

    profile: str
    task_id: str
    asks: str = Field(
        default="",
        description="The task's description; without one its condition, or the judge's prompt.",
    )
    is_judge: bool
    is_readable: bool = Field(
        default=True, description="False if it looks at spans, which a record does not show."
    )
    records: int = Field(description="Those with a label.")
    raters: int = Field(description="People who gave one.")
    calibration: JudgeKnown | None = Field(
        default=None, description="The latest one of this very judge; null without any."
    )


class LabelTasks(Answer):
    """Tasks that people can label, by alias, in the order of the profile."""

    items: tuple[LabelTask, ...]


class LabelItem(Answer):
    """Label that a person gave a record, for one task."""

    uid: str
    record_id: str = ""
    profile: str
    task_id: str
    label: bool | None
    """True if the record is good; None where an earlier label was taken back."""
    score: float | None = None
    """The person's number, where they gave one; `label` says whether the task passed with it."""
    rater: str
    notes: str = ""
    at: datetime.datetime
    by: str = ""
    """Id of the token that it came with."""
    is_blind: bool | None = None
    """False where the person had seen the outcome or other labels; None where nobody said."""
    order: str | None = None
    """Order of the queue that the record came from; None if from none."""
    stratum: str | None = None
    """Records that it was drawn from: `passed` or `failed` by the task, or `all`."""
    size: int | None = None
    """Number of records in the stratum when the label was given."""


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
    own: LabelItem | None = None
    """The person's own, of a record that was named."""


class LabelScale(Answer):
    """The scale on which people score records, as the judge does."""

    least: float
    most: float
    steps: tuple[float, ...] = Field(
        description="Numbers to choose from; empty where any number between the ends will do."
    )


class LabelPlan(Answer):
    """Labels of records that were drawn at random, and what more of them would tell."""

    passed: int = Field(description="Labelled records that the task passed.")
    failed: int = Field(description="Labelled records that it failed.")
    width: float = Field(description="Width of the interval of the corrected rate, foreseen.")
    width_20: float = Field(description="The same with 20 labels more.")
    width_50: float = Field(description="The same with 50 labels more.")


class LabelQueue(Answer):
    """Records to ask a person about, in order."""

    profile: str
    task_id: str
    asks: str
    """The judge's prompt; of a check its description, or else its condition."""
    description: str = ""
    """Of the task."""
    is_judge: bool
    scale: LabelScale | None = None
    """None where a label is good or bad."""
    labelled: int
    waiting: int
    plan: LabelPlan | None = None
    """Worth of further labels; None where no label makes a rate yet and nothing is decided."""
    people: tuple[str, ...] = ()
    """Names that people labelled under so far."""
    items: tuple[QueueItem, ...]


class LabelledRecord(Answer):
    """A record with its labels on one task."""

    uid: str
    record_id: str = ""
    trace_id: str | None = None
    context: JsonValue = None
    outcome: Outcome | None = None
    """The outcome of the task; None where its result is no longer stored."""
    labels: tuple[LabelItem, ...]


class LabelledRecords(Answer):
    """Records that have labels, those of the newest label first."""

    profile: str
    task_id: str
    asks: str = ""
    """The task's description, or else its question, cut."""
    is_judge: bool = False
    people: tuple[str, ...] = ()
    """Names that people labelled under so far."""
    total: int = Field(description="All that fit, whatever `offset` and `limit`.")
    items: tuple[LabelledRecord, ...]


class AgreementKappa(Answer):
    """Agreement beyond chance: 1 perfect, 0 by chance alone; None where it cannot be said."""

    value: float | None = Field(description="Null where chance alone would always agree.")
    lower: float
    upper: float


class ScoreFigure(Answer):
    """A number of scores with its 95 % interval."""

    value: float | None = Field(description="Null where the scores do not say.")
    lower: float | None = Field(description="Null below six records, or without any spread.")
    upper: float | None


class ScoreAgreement(Answer):
    """Scores of people, and the judge's beside the mean of theirs."""

    records: int = Field(description="Those with a score.")
    everybody: AgreementKappa = Field(description="Krippendorff's alpha of all people.")
    compared: int = Field(description="Records that the judge scored, too.")
    mean_absolute_error: ScoreFigure
    bias: ScoreFigure = Field(description="Above 0 where the judge gives more than people do.")
    correlation: ScoreFigure


class RaterPair(Answer):
    """Two people on the records that both labelled."""

    first: str
    second: str
    records: int
    agreed: int
    kappa: AgreementKappa
    scored: int = Field(default=0, description="Records that both scored.")
    alpha: AgreementKappa | None = Field(
        default=None, description="Krippendorff's alpha of their scores; null without any."
    )


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
    asks: str = Field(default="", description="The task's description, or else its question, cut.")
    is_judge: bool = False
    raters: dict[str, int] = Field(description="Labels by person, the busiest first.")
    records: int = Field(description="Those with a label.")
    good: int = Field(description="Records that most people pass.")
    tied: int
    pairs: tuple[RaterPair, ...] = Field(description="Those of the 20 busiest people.")
    left_out: int = Field(description="People who are in no pair, as 20 labelled more.")
    everybody: AgreementKappa = Field(description="Fleiss' kappa of all people.")
    judge: JudgeAgreement
    scores: ScoreAgreement | None = Field(
        default=None, description="Null where nobody gave a score."
    )
    not_blind: int = Field(
        default=0, description="Labels of people who had seen the outcome or other labels."
    )
    contested: tuple[str, ...] = Field(description="Uids of 50 records that people differ on.")
