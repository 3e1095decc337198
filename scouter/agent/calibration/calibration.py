"""The result of a calibration, as a file that travels with results."""

import datetime
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from scouter.agent.calibration.asking import JudgeOutcome
from scouter.agent.calibration.drawn import Decided, Drawn, confusion_of, drawn_of
from scouter.agent.calibration.identity import Identity
from scouter.agent.calibration.labels import Item
from scouter.evaluate.files.versioned import Stored
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.statistics.agreement import Kappa, cohen_kappa, fleiss_kappa
from scouter.evaluate.statistics.bias import (
    Finding,
    SizedItem,
    consistency,
    length_bias,
    leniency,
    position_bias,
)
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.corrected_rate import (
    CannotSay,
    Correction,
    DrawnLabels,
    JudgeCounts,
    corrected_rate,
    judge_error,
    rate_of_traffic,
    rates_of_judge,
)
from scouter.evaluate.statistics.scores import ScoreErrors, krippendorff_alpha, score_errors

_MOST_SCORES: Final = 20
"""Different scores up to which a scale counts as ordered categories."""


class Rate(BaseModel):
    """A share or a kappa with its 95 % interval; None where there is nothing to count."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    value: float | None
    interval: Interval


class Calibration(Stored, frozen=True):
    """Agreement of one judge task with people; its version is `identity.task_digest`."""

    created_at: datetime.datetime
    identity: Identity
    answered_by: str = ""
    """Source of the outcomes, as it was named: `module:name`, or a file with outcomes."""
    models: dict[str, int] = Field(default_factory=dict[str, int])
    """Models that say they answered, with the number of answers."""
    repeats: int
    labels: int
    """Lines that were read."""
    bad_lines: int
    """Lines that could not be read."""
    raters: int
    items: int
    """Records that the labels are about."""
    tied: int
    """Records that as many people pass as fail; left out."""
    without_verdict: dict[str, int]
    """Records that the judge did not decide, by why; left out."""
    over_budget: Annotated[int, Field(ge=0)] = 0
    """Outcomes that were not requested, as the budget left too little; repeats count, too."""
    counts: Confusion
    """Of all labels, however their records were chosen."""
    drawn: Drawn | None
    """None where no rate can be made of the labels."""
    not_drawn: dict[str, int]
    """Records that count for the agreement alone, by why."""
    sensitivity: Rate
    """Of the traffic that labels were drawn from; without any such labels of the labelled records,
    which is no rate of any traffic."""
    specificity: Rate
    accuracy: Rate
    kappa: Rate
    score_kappa: Rate | None = None
    """Quadratically weighted, where people gave scores."""
    score_errors: ScoreErrors | None = None
    """Where people and the judge gave scores."""
    rater_alpha: Rate | None = None
    """Krippendorff's alpha of people's scores, where several scored the same record."""
    rater_kappa: Rate | None = None
    """Fleiss' kappa of the people with each other, where several labelled the same record."""
    raters_agree: Rate | None = None
    """Share of the records with several labels on which all people say the same."""
    biases: tuple[Finding, ...]

    def correct(
        self, answers: JudgeCounts, names: Collection[tuple[str, str]] = ()
    ) -> tuple[Correction, bool]:
        """Correct a pass rate of this judge.

        Args:
            answers: The judge's outcomes.
            names: Uid and record id of each record that they are of; empty if nobody knows.

        Returns:
            The rate, and whether the records are those that the labels were drawn from.
        """
        drawn = self.drawn
        if drawn is None:
            return CannotSay(self.why_not_drawn), False
        if drawn.order != "gold" and drawn.judged == answers.judged:
            uids, ids = zip(*names, strict=True) if names else ((), ())
            if set(drawn.uids) <= set(uids) and set(drawn.ids) <= set(ids):
                return rate_of_traffic(drawn.labels, answers), True
        return corrected_rate(drawn.labels, answers), False

    def error(self, answers: JudgeCounts) -> Correction:
        """The rate by the judge's own error alone; see `judge_error`."""
        if self.drawn is None:
            return CannotSay(self.why_not_drawn)
        return judge_error(self.drawn.labels, answers)

    @property
    def why_not_drawn(self) -> str:
        """The origin that labels do not state, and the command that draws labels which do."""
        return (
            "the labels show agreement and no rate, as none is of a record that was drawn at "
            f"random: {self.not_drawn_text or 'there is none'}; draw records with scouter judge "
            "sample, or label on the page in the order judge passed and failed"
        )

    @property
    def not_drawn_text(self) -> str:
        """Labels that count for the agreement alone, by why."""
        return "; ".join(f"{count} {why}" for why, count in self.not_drawn.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Labels and outcomes, item by item, from which a calibration is computed."""

    items: Sequence[Item]
    outcomes: Sequence[Sequence[JudgeOutcome]]
    """Outcomes on each item, in the order of asking.

    The first outcome of an item counts; the others show how consistent the judge is.
    """
    swapped: Sequence[JudgeOutcome] = ()
    """Outcome on each item with its two answers exchanged; empty if those were not requested."""
    answered_by: str = ""
    models: Counter[str] = field(default_factory=Counter[str])
    labels: int = 0
    bad_lines: int = 0


def calibrate(identity: Identity, evidence: Evidence, now: datetime.datetime) -> Calibration:
    """Hold a judge's outcomes against people's labels.

    Args:
        identity: Task, question and model of the judge.
        evidence: Labels and outcomes.
        now: Time of the calibration, in UTC.
    """
    items, outcomes = evidence.items, evidence.outcomes
    decided = list(_decided(items, outcomes))
    labels = confusion_of((each.is_good, each.passed) for each in decided)
    drawn, not_drawn = drawn_of(items, decided)
    judge = rates_of_judge(DrawnLabels(counts=labels) if drawn is None else drawn.labels)
    kappa = cohen_kappa(labels.table)
    several = [item for item in items if len(item.votes) > 1]
    same = sum(len(set(item.votes)) == 1 for item in several)
    lengths = [
        SizedItem(is_good=each.is_good, passed=each.passed, length=each.item.length)
        for each in decided
        if each.item.length is not None
    ]
    repeats = max((len(said) for said in outcomes), default=0)
    checks = [leniency(labels), length_bias(lengths)]
    if repeats > 1:
        checks.append(consistency([_known(said) for said in outcomes]))
    if evidence.swapped:
        pairs = [
            (said[0].passed, other.passed)
            for said, other in zip(outcomes, evidence.swapped, strict=True)
        ]
        checks.append(position_bias((a, b) for a, b in pairs if a is not None and b is not None))
    return Calibration(
        created_at=now,
        identity=identity,
        answered_by=evidence.answered_by,
        models=dict(evidence.models),
        repeats=repeats,
        labels=evidence.labels,
        bad_lines=evidence.bad_lines,
        raters=len({rater for item in items for rater in item.raters}),
        items=len(items),
        tied=sum(item.is_good is None for item in items),
        without_verdict=dict(Counter(said[0].why for said in outcomes if said[0].passed is None)),
        over_budget=sum(
            each.is_over_budget for said in (*outcomes, evidence.swapped) for each in said
        ),
        counts=labels,
        drawn=drawn,
        not_drawn=not_drawn,
        sensitivity=Rate(value=judge.sensitivity, interval=judge.sensitivity_interval),
        specificity=Rate(value=judge.specificity, interval=judge.specificity_interval),
        accuracy=Rate(value=labels.accuracy, interval=labels.accuracy_interval()),
        kappa=_agreement(kappa),
        score_kappa=_score_kappa([(each.item.score, each.score) for each in decided]),
        score_errors=_errors(items, outcomes),
        rater_alpha=_alpha(items),
        rater_kappa=_agreement(
            fleiss_kappa([(sum(each.votes), len(each.votes) - sum(each.votes)) for each in several])
        )
        if several
        else None,
        raters_agree=_share(same, len(several)) if several else None,
        biases=tuple(checks),
    )


def _decided(
    items: Sequence[Item], outcomes: Sequence[Sequence[JudgeOutcome]]
) -> Iterator[Decided]:
    for item, said in zip(items, outcomes, strict=True):
        is_good, first = item.is_good, said[0]
        if is_good is not None and first.passed is not None:
            yield Decided(item, is_good, first.passed, first.score)


def _known(outcomes: Sequence[JudgeOutcome]) -> list[bool]:
    return [each.passed for each in outcomes if each.passed is not None]


def _agreement(kappa: Kappa) -> Rate:
    return Rate(value=kappa.value, interval=kappa.interval)


def _share(count: int, total: int) -> Rate:
    return Rate(value=count / total, interval=wilson(count, total))


def _errors(
    items: Sequence[Item], outcomes: Sequence[Sequence[JudgeOutcome]]
) -> ScoreErrors | None:
    pairs = [(item.mean_score, said[0].score) for item, said in zip(items, outcomes, strict=True)]
    known = [(people, judge) for people, judge in pairs if people is not None and judge is not None]
    return score_errors(known) if known else None


def _alpha(items: Sequence[Item]) -> Rate | None:
    several = [item.scores for item in items if len(item.scores) > 1]
    return _agreement(krippendorff_alpha(several)) if several else None


def _score_kappa(pairs: Sequence[tuple[float | None, float | None]]) -> Rate | None:
    """Agreement on the scale itself, where people and the judge both gave scores.

    The categories are the scores that occur, in their order; None where there are so many that it
    is no scale of categories.
    """
    known = [(a, b) for a, b in pairs if a is not None and b is not None]
    scores = sorted({score for pair in known for score in pair})
    if not 2 < len(scores) <= _MOST_SCORES:
        return None
    places = {score: at for at, score in enumerate(scores)}
    table = [[0] * len(scores) for _ in scores]
    for human, judge in known:
        table[places[human]][places[judge]] += 1
    return _agreement(cohen_kappa(table, "quadratic"))
