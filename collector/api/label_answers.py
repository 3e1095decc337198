"""Answers about labels: a label, a queue, agreement."""

from collections.abc import Sequence
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from collector.items.times import format_time
from collector.labelling.agreement import Agreement, Pair, Scores
from collector.labelling.question import question_about, question_line
from collector.labelling.scale import Scale
from collector.store.labels import LabelRow
from collector.store.rows import EvaluationRow, RecordRow, TaskRow
from scouter.client.models.labels import (
    AgreementKappa,
    JudgeAgreement,
    LabelAgreement,
    LabelPlan,
    LabelScale,
    QueueResult,
    RaterPair,
    ScoreAgreement,
    ScoreFigure,
)
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.agreement import Kappa
from scouter.evaluate.statistics.scores import Estimate
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task

_NAMED_ITEMS: Final = 50


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True)


class LabelItem(_Answer):
    """Label that a person gave a record, for one task."""

    uid: str
    record_id: str
    profile: str
    task_id: str
    label: bool | None
    score: float | None = Field(description="The person's number, where they gave one.")
    rater: str
    notes: str
    at: str
    by: str = Field(description="Id of the token that it came with.")
    is_blind: bool | None = Field(
        description="False if the person had seen the outcome or other labels; null: nobody said."
    )
    order: str | None = Field(description="Order of the queue that it came from; null: none.")
    stratum: str | None = Field(
        description="Records that it was drawn from: `passed`, `failed` or `all`; null: unknown."
    )
    size: int | None = Field(description="Number of records in the stratum at that moment.")


class LabelPage(_Answer):
    """Labels, newest first; of a person, task and record the last one."""

    items: list[LabelItem]
    next_cursor: str | None = Field(description="Pass it as `cursor` for the next page.")


class QueueItem(_Answer):
    """A record to be labelled."""

    uid: str
    record_id: str
    session_id: str
    trace_id: str | None
    created_at: str
    context: JsonValue
    asks: str = Field(description="The question with the record's values in it.")
    result: QueueResult | None = Field(description="Null unless it is asked for.")
    labels: list[LabelItem] = Field(description="Of others; empty unless asked for.")
    own: LabelItem | None = Field(description="The person's own, of a record that was named.")


class LabelQueue(_Answer):
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
    people: list[str] = Field(description="Names that people labelled under, by first use.")
    items: list[QueueItem]


class LabelledRecord(_Answer):
    """A record with its labels on one task."""

    uid: str
    record_id: str
    trace_id: str | None
    context: JsonValue
    outcome: Outcome | None = Field(description="How the task ended; null if no longer stored.")
    labels: list[LabelItem]


class LabelledRecords(_Answer):
    """Records that have labels, those of the newest label first."""

    profile: str
    task_id: str
    asks: str = Field(description="The task's description, or else its question, cut.")
    is_judge: bool
    people: list[str] = Field(description="Names that people labelled under, by first use.")
    total: int = Field(description="All that fit, whatever `offset` and `limit`.")
    items: list[LabelledRecord]


def label_item(row: LabelRow) -> LabelItem:
    """A label as the API tells it."""
    return LabelItem(
        uid=row.uid,
        record_id=row.record_id,
        profile=row.alias,
        task_id=row.task_id,
        label=row.is_good,
        score=row.score,
        rater=row.rater,
        notes=row.notes,
        at=format_time(row.at_ns),
        by=row.by,
        is_blind=row.is_blind,
        order=row.order,
        stratum=row.stratum,
        size=row.size,
    )


def label_scale(scale: Scale | None) -> LabelScale | None:
    """A scale as the API tells it."""
    if scale is None:
        return None
    return LabelScale(least=scale.least, most=scale.most, steps=scale.steps)


def queue_item(
    record: RecordRow,
    task: Task,
    evaluation: EvaluationRow | None,
    labels: Sequence[LabelRow],
    own: LabelRow | None,
) -> QueueItem:
    """A record that is asked about.

    Args:
        record: With its context.
        task: The task that is asked about.
        evaluation: The record's, for those who asked how the task ended.
        labels: Those that are told.
        own: The person's, where they return to it.
    """
    results = () if evaluation is None else evaluation.tasks
    return QueueItem(
        uid=record.uid,
        record_id=record.record_id,
        session_id=record.session_id,
        trace_id=record.trace_id,
        created_at=format_time(record.created_ns),
        context=record.context,
        asks=question_about(task, record.context),
        result=next((_result(each) for each in results if each.task_id == task.id), None),
        labels=[label_item(each) for each in labels],
        own=None if own is None else label_item(own),
    )


def _result(found: TaskRow) -> QueueResult:
    return QueueResult(
        outcome=found.outcome,
        reason=found.reason,
        score=found.score,
        message=found.message,
        answer=found.answer,
    )


def label_agreement(alias: str, task: Task, found: Agreement) -> LabelAgreement:
    """The agreement on a task as the API tells it."""
    judge = found.judge
    return LabelAgreement(
        profile=alias,
        task_id=task.id,
        asks=question_line(task),
        is_judge=isinstance(task, LLMJudgeTask),
        raters=dict(found.raters),
        records=found.items,
        good=found.good,
        tied=found.tied,
        pairs=tuple(_pair(each) for each in found.pairs),
        left_out=found.left_out,
        everybody=_kappa(found.everybody),
        judge=JudgeAgreement(
            good_passed=judge.good_passed,
            good_failed=judge.good_failed,
            bad_passed=judge.bad_passed,
            bad_failed=judge.bad_failed,
            sensitivity=judge.sensitivity,
            sensitivity_interval=judge.sensitivity_interval(),
            specificity=judge.specificity,
            specificity_interval=judge.specificity_interval(),
            kappa=_kappa(found.judge_kappa),
        ),
        not_blind=found.not_blind,
        contested=tuple(found.contested[:_NAMED_ITEMS]),
        scores=None if found.scores is None else _scores(found.scores),
    )


def _pair(pair: Pair) -> RaterPair:
    return RaterPair(
        first=pair.first,
        second=pair.second,
        records=pair.items,
        agreed=pair.agreed,
        kappa=_kappa(pair.kappa),
        scored=pair.scored,
        alpha=None if pair.alpha is None else _kappa(pair.alpha),
    )


def _scores(scores: Scores) -> ScoreAgreement:
    judge = scores.judge
    return ScoreAgreement(
        records=scores.items,
        everybody=_kappa(scores.everybody),
        compared=judge.items,
        mean_absolute_error=_figure(judge.mean_absolute_error),
        bias=_figure(judge.bias),
        correlation=_figure(judge.correlation),
    )


def _figure(estimate: Estimate) -> ScoreFigure:
    lower, upper = estimate.interval or (None, None)
    return ScoreFigure(value=estimate.value, lower=lower, upper=upper)


def _kappa(kappa: Kappa) -> AgreementKappa:
    lower, upper = kappa.interval
    return AgreementKappa(value=kappa.value, lower=lower, upper=upper)
