"""Agreement of people with each other, and of a judge with them."""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Final

from collector.labelling.queue import majority
from collector.store.labels import LabelRow
from collector.store.store import Store
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.agreement import Kappa, cohen_kappa, fleiss_kappa
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.scores import ScoreErrors, krippendorff_alpha, score_errors

MOST_PAIRED: Final = 20
"""People whose pairs are made. Names are free text, and there are as many as somebody sends."""
NO_SCORES: Final[Mapping[str, float]] = {}
"""Of a task that no judge scores."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two people on the records that both labelled."""

    first: str
    second: str
    items: int
    agreed: int
    kappa: Kappa
    scored: int = 0
    """Records that both gave a score."""
    alpha: Kappa | None = None
    """Krippendorff's alpha of these scores; None without any."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scores:
    """Scores on one task, summed up."""

    items: int
    """Records with a score."""
    everybody: Kappa
    """Krippendorff's alpha of all people, on records with two scores and more."""
    judge: ScoreErrors
    """The judge's scores beside the mean of people's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """Labels on one task, summed up."""

    raters: Mapping[str, int]
    """Labels by person, the busiest first."""
    items: int
    good: int
    """Records that most people pass."""
    tied: int
    pairs: Sequence[Pair]
    """Pairs of the 20 busiest people who labelled a record together."""
    left_out: int
    """Number of people beyond those 20; only `pairs` is without them."""
    everybody: Kappa
    """Fleiss' kappa of all people, on records with two labels and more."""
    judge: Confusion
    """The judge beside the majority."""
    not_blind: int
    """Labels of people who had seen the outcome or other labels."""
    contested: Sequence[str]
    """Uids of records on which people do not say the same."""
    scores: Scores | None = None
    """None where nobody gave a score."""


def agreement_of(
    labels: Sequence[LabelRow],
    outcomes: Mapping[str, Outcome],
    judged: Mapping[str, float] = NO_SCORES,
) -> Agreement:
    """Sum labels on one task up.

    Args:
        labels: One for each person and record.
        outcomes: By uid how the task ended.
        judged: By uid the judge's score, where it is a number.

    Cost: linear in the labels, and at most 190 pairs; each table of a pair that is new to the
    process takes about 2 ms.
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
    judge = _confusion(said, outcomes)
    raters = {name: len(by_rater[name]) for name in sorted(by_rater)}
    busiest = sorted(raters, key=lambda name: -raters[name])
    return Agreement(
        raters={name: raters[name] for name in busiest},
        items=len(by_item),
        good=sum(each is True for each in said.values()),
        tied=sum(each is None for each in said.values()),
        pairs=[
            _pair(first, second, by_rater[first], by_rater[second])
            for first, second in combinations(sorted(busiest[:MOST_PAIRED]), 2)
            if not by_rater[first].keys().isdisjoint(by_rater[second])
        ],
        left_out=max(0, len(raters) - MOST_PAIRED),
        everybody=fleiss_kappa(counts),
        judge=judge,
        not_blind=sum(each.is_blind is False for each in labels),
        contested=[uid for uid, (good, bad) in zip(by_item, counts, strict=True) if good and bad],
        scores=_scores(by_item, judged),
    )


def _scores(
    by_item: Mapping[str, Sequence[LabelRow]], judged: Mapping[str, float]
) -> Scores | None:
    given = {
        uid: scores
        for uid, rows in by_item.items()
        if (scores := [each.score for each in rows if each.score is not None])
    }
    if not given:
        return None
    both = [
        (math.fsum(scores) / len(scores), judged[uid])
        for uid, scores in given.items()
        if uid in judged
    ]
    return Scores(
        items=len(given),
        everybody=krippendorff_alpha(given.values()),
        judge=score_errors(both),
    )


@lru_cache(maxsize=4096)
def pair_kappa(first_good: tuple[int, ...], first_bad: tuple[int, ...]) -> Kappa:
    """Cohen's kappa of two people, cached by its table: many pairs have the same few counts.

    Args:
        first_good: Of the records that the first passes, those that the second passes and fails.
        first_bad: The same of the records that the first fails.

    Cost: about 2 ms for a table that is not cached, for its interval.
    """
    return cohen_kappa((first_good, first_bad))


def _pair(
    first: str, second: str, one: Mapping[str, LabelRow], other: Mapping[str, LabelRow]
) -> Pair:
    table = [[0, 0], [0, 0]]
    scores: list[tuple[float, float]] = []
    for uid in one.keys() & other.keys():
        mine, theirs = one[uid], other[uid]
        table[not mine.is_good][not theirs.is_good] += 1
        if mine.score is not None and theirs.score is not None:
            scores.append((mine.score, theirs.score))
    return Pair(
        first=first,
        second=second,
        items=sum(map(sum, table)),
        agreed=table[0][0] + table[1][1],
        kappa=pair_kappa(tuple(table[0]), tuple(table[1])),
        scored=len(scores),
        alpha=krippendorff_alpha(scores) if scores else None,
    )


def _confusion(said: Mapping[str, bool | None], outcomes: Mapping[str, Outcome]) -> Confusion:
    counts = {
        (is_good, outcome): sum(
            each is is_good and outcomes.get(uid) is outcome for uid, each in said.items()
        )
        for is_good in (True, False)
        for outcome in (Outcome.PASSED, Outcome.FAILED)
    }
    return Confusion(
        good_passed=counts[True, Outcome.PASSED],
        good_failed=counts[True, Outcome.FAILED],
        bad_passed=counts[False, Outcome.PASSED],
        bad_failed=counts[False, Outcome.FAILED],
    )


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
