"""Labels of people and their agreement, and answers of judges."""

from pydantic import Field, JsonValue

from scouter.client.models.answer import Answer, Time
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.judge_rate import JudgeKnown


class LabelTask(Answer):
    """A task of an active profile, and the labels on it."""

    profile: str
    task_id: str
    asks: str = Field(
        description="The task's description; without one its condition, or the judge's prompt."
    )
    is_judge: bool
    is_readable: bool = Field(
        description="False if it looks at spans, which a record does not show."
    )
    records: int = Field(description="Those with a label.")
    raters: int = Field(description="People who gave one.")
    calibration: JudgeKnown | None = Field(
        description="The latest one of this very judge; null without any."
    )


class LabelTasks(Answer):
    """Tasks that people can label, by alias, in the order of the profile."""

    items: tuple[LabelTask, ...]


class LabelItem(Answer):
    """Label that a person gave a record, for one task."""

    uid: str
    record_id: str
    profile: str
    task_id: str
    label: bool | None = Field(
        description="True if the record is good; None where an earlier label was taken back."
    )
    score: float | None = Field(description="The person's number, where they gave one.")
    rater: str
    notes: str
    at: Time
    by: str = Field(description="Id of the token that it came with.")
    is_blind: bool | None = Field(
        description="False if the person had seen the outcome or other labels; null: nobody said."
    )
    order: str | None = Field(description="Order of the queue that it came from; null: none.")
    stratum: str | None = Field(
        description="Records that it was drawn from: `passed`, `failed` or `all`; null: unknown."
    )
    size: int | None = Field(description="Number of records in the stratum at that moment.")


class QueueResult(Answer):
    """Result of the task, for those who want to see it."""

    outcome: Outcome
    reason: str | None
    score: float | None
    message: str
    answer: JsonValue = Field(description="A judge's whole answer.")


class QueueItem(Answer):
    """A record to be labelled."""

    uid: str
    record_id: str
    session_id: str
    trace_id: str | None
    created_at: Time
    context: JsonValue
    asks: str = Field(description="The question with the record's values in it.")
    result: QueueResult | None = Field(description="Null unless it is requested.")
    labels: tuple[LabelItem, ...] = Field(description="Of others; empty unless requested.")
    own: LabelItem | None = Field(description="The person's own, of a record that was named.")


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
    asks: str = Field(
        description="The question to decide: the judge's prompt; of a check its description, or "
        "else its condition in words."
    )
    description: str = Field(description="Of the task; may be empty.")
    is_judge: bool
    scale: LabelScale | None = Field(description="Null where a label is good or bad.")
    labelled: int = Field(description="Records that this person has labelled.")
    waiting: int = Field(description="Records of the newest 500 results that wait for a label.")
    plan: LabelPlan | None = Field(
        description="Worth of further labels drawn at random; null where nothing is decided."
    )
    people: tuple[str, ...] = Field(description="Names that people labelled under, by first use.")
    items: tuple[QueueItem, ...]


class LabelledRecord(Answer):
    """A record with its labels on one task."""

    uid: str
    record_id: str
    trace_id: str | None
    context: JsonValue
    outcome: Outcome | None = Field(description="How the task ended; null if no longer stored.")
    labels: tuple[LabelItem, ...]


class LabelledRecords(Answer):
    """Records that have labels, those of the newest label first."""

    profile: str
    task_id: str
    asks: str = Field(description="The task's description, or else its question, cut.")
    is_judge: bool
    people: tuple[str, ...] = Field(description="Names that people labelled under, by first use.")
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
    scored: int = Field(description="Records that both scored.")
    alpha: AgreementKappa | None = Field(
        description="Krippendorff's alpha of their scores; null without any."
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
    asks: str = Field(description="The task's description, or else its question, cut.")
    is_judge: bool
    raters: dict[str, int] = Field(description="Labels by person, the busiest first.")
    records: int = Field(description="Those with a label.")
    good: int = Field(description="Records that most people pass.")
    tied: int
    pairs: tuple[RaterPair, ...] = Field(description="Those of the 20 busiest people.")
    left_out: int = Field(description="People who are in no pair, as 20 labelled more.")
    everybody: AgreementKappa = Field(description="Fleiss' kappa of all people.")
    judge: JudgeAgreement
    feedback: JudgeAgreement | None = Field(
        description="The task beside feedback on the same traces and records, which corrects no "
        "rate: nobody drew who gives it. Null without any."
    )
    scores: ScoreAgreement | None = Field(description="Null where nobody gave a score.")
    not_blind: int = Field(description="Labels of people who had seen the outcome or other labels.")
    contested: tuple[str, ...] = Field(description="Uids of 50 records that people differ on.")


class JudgeAnswer(Answer):
    """Answer of a judge to one question."""

    response: str = Field(
        description="The answer, written as JSON: as it stands, whatever JSON can say."
    )
    model: str = Field(description="The model that answered.")


class KeptJudgeAnswer(Answer):
    """Reply to a judge answer that was sent in; `kept` is False if the collector stores none."""

    kept: bool = Field(description="False where the collector's cache is off.")


class GoldAgreement(Answer):
    """Share of gold items that a judge decided as people did, with a 95 % interval."""

    items: int
    agreed: int
    rate: float | None
    lower: float
    upper: float


class GoldWindow(Answer):
    """One window of gold items."""

    start: Time
    end: Time
    is_complete: bool = Field(description="Its time is over; only then it is tested.")
    sensitivity: GoldAgreement = Field(description="Of items that people pass.")
    specificity: GoldAgreement = Field(description="Of items that people fail.")
    undecided: int = Field(description="Items that the judge neither passed nor failed.")
    has_drifted: bool | None = Field(
        description="Decided otherwise than in the calibration, at a level of 1 % for both rates "
        "together; null while the window goes on, and without a calibration of this "
        "judge."
    )
    sensitivity_p: float | None = Field(description="Fisher's exact test, corrected (Holm).")
    specificity_p: float | None


class GoldJudge(Answer):
    """A judge task of an active profile, and its gold items."""

    profile: str = Field(description="Alias of the profile.")
    profile_version: str
    task_id: str
    provider: str
    model: str
    items: int
    per_day: float
    window: int = Field(description="Items that are compared together with the calibration.")
    windows: tuple[GoldWindow, ...] = Field(description="By time; the last one mostly goes on.")


class GoldJudges(Answer):
    """By alias, tasks in the profile's order."""

    items: tuple[GoldJudge, ...]
