"""Agreement of people with each other, and of a judge with them."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import Final

from collector.labelling.question import question_line
from collector.labelling.queue import majority
from collector.store.labels import LabelRow
from collector.store.store import Store
from scouter.agent.calibration.drawn import confusion_of
from scouter.client.models.labels import (
    AgreementKappa,
    JudgeAgreement,
    LabelAgreement,
    RaterPair,
    ScoreAgreement,
    ScoreFigure,
)
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.agreement import Kappa, cohen_kappa, fleiss_kappa
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.scores import Estimate, krippendorff_alpha, score_errors
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task

MOST_PAIRED: Final = 20
"""People whose pairs are made. Names are free text, and there are as many as somebody sends."""
_NAMED_ITEMS: Final = 50


def agreement_of(
    alias: str,
    task: Task,
    labels: Sequence[LabelRow],
    outcomes: Mapping[str, Outcome],
    judged: Mapping[str, float],
    feedback: Confusion,
) -> LabelAgreement:
    """Sum labels on one task up.

    Args:
        alias: Of the task's profile.
        task: The task.
        labels: One for each person and record.
        outcomes: By uid how the task ended.
        judged: By uid the judge's score, where it is a number.
        feedback: The task beside feedback of users.

    Cost: linear in the labels, and at most 190 pairs of about 2 ms each.
    """
    by_item: Mapping[str, list[LabelRow]] = defaultdict(list)
    by_rater: Mapping[str, dict[str, LabelRow]] = defaultdict(dict)
    for each in labels:
        by_item[each.uid].append(each)
        by_rater[each.rater][each.uid] = each
    said = {uid: majority(rows) for uid, rows in by_item.items()}
    counts = [
        (sum(bool(each.is_good) for each in rows), sum(not each.is_good for each in rows))
        for rows in by_item.values()
    ]
    raters = {name: len(by_rater[name]) for name in sorted(by_rater)}
    busiest = sorted(raters, key=lambda name: -raters[name])
    contested = [uid for uid, (good, bad) in zip(by_item, counts, strict=True) if good and bad]
    judge = confusion_of(
        (is_good, outcomes[uid] is Outcome.PASSED)
        for uid, is_good in said.items()
        if is_good is not None and outcomes.get(uid) in (Outcome.PASSED, Outcome.FAILED)
    )
    return LabelAgreement(
        profile=alias,
        task_id=task.id,
        asks=question_line(task),
        is_judge=isinstance(task, LLMJudgeTask),
        raters={name: raters[name] for name in busiest},
        records=len(by_item),
        good=sum(each is True for each in said.values()),
        tied=sum(each is None for each in said.values()),
        pairs=tuple(
            _pair(first, second, by_rater[first], by_rater[second])
            for first, second in combinations(sorted(busiest[:MOST_PAIRED]), 2)
            if not by_rater[first].keys().isdisjoint(by_rater[second])
        ),
        left_out=max(0, len(raters) - MOST_PAIRED),
        everybody=_kappa(fleiss_kappa(counts)),
        judge=_beside(judge),
        feedback=_beside(feedback) if feedback.total else None,
        scores=_scores(by_item, judged),
        not_blind=sum(each.is_blind is False for each in labels),
        contested=tuple(contested[:_NAMED_ITEMS]),
    )


def _scores(
    by_item: Mapping[str, Sequence[LabelRow]], judged: Mapping[str, float]
) -> ScoreAgreement | None:
    given = {
        uid: scores
        for uid, rows in by_item.items()
        if (scores := [each.score for each in rows if each.score is not None])
    }
    if not given:
        return None
    judge = score_errors(
        [
            (math.fsum(scores) / len(scores), judged[uid])
            for uid, scores in given.items()
            if uid in judged
        ]
    )
    return ScoreAgreement(
        records=len(given),
        everybody=_kappa(krippendorff_alpha(given.values())),
        compared=judge.items,
        mean_absolute_error=_figure(judge.mean_absolute_error),
        bias=_figure(judge.bias),
        correlation=_figure(judge.correlation),
    )


def _pair(
    first: str, second: str, one: Mapping[str, LabelRow], other: Mapping[str, LabelRow]
) -> RaterPair:
    table = [[0, 0], [0, 0]]
    scores: list[tuple[float, float]] = []
    for uid in one.keys() & other.keys():
        mine, theirs = one[uid], other[uid]
        table[not mine.is_good][not theirs.is_good] += 1
        if mine.score is not None and theirs.score is not None:
            scores.append((mine.score, theirs.score))
    return RaterPair(
        first=first,
        second=second,
        records=sum(map(sum, table)),
        agreed=table[0][0] + table[1][1],
        kappa=_kappa(cohen_kappa(table)),
        scored=len(scores),
        alpha=_kappa(krippendorff_alpha(scores)) if scores else None,
    )


def _beside(judge: Confusion) -> JudgeAgreement:
    return JudgeAgreement(
        good_passed=judge.good_passed,
        good_failed=judge.good_failed,
        bad_passed=judge.bad_passed,
        bad_failed=judge.bad_failed,
        sensitivity=judge.sensitivity,
        sensitivity_interval=judge.sensitivity_interval(),
        specificity=judge.specificity,
        specificity_interval=judge.specificity_interval(),
        kappa=_kappa(cohen_kappa(judge.table)),
    )


def _figure(estimate: Estimate) -> ScoreFigure:
    lower, upper = estimate.interval or (None, None)
    return ScoreFigure(value=estimate.value, lower=lower, upper=upper)


def _kappa(kappa: Kappa) -> AgreementKappa:
    lower, upper = kappa.interval
    return AgreementKappa(value=kappa.value, lower=lower, upper=upper)


def known_name(store: Store, space: str, name: str) -> str:
    """Spell a name as the person did first, whatever its case and outer spaces.

    Args:
        store: Has labels.
        space: Space of the labels.
        name: As it was given now.

    Cost: linear in the labels of the space.
    """
    name = name.strip()
    wanted = name.casefold()
    return next(
        (each for each in store.label_raters(space) if each.strip().casefold() == wanted), name
    )
