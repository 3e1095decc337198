"""Agreement of people with each other, and of a judge with them."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from collector.labelling.queue import majority
from collector.storage.port.labels import LabelRow
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.statistics.agreement import Kappa, cohen_kappa, fleiss_kappa
from scouter.evaluate.statistics.confusion import Confusion


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Two people on the records that both labelled."""

    first: str
    second: str
    items: int
    agreed: int
    kappa: Kappa


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
    everybody: Kappa
    """Fleiss' kappa of all people, on records with two labels and more."""
    judge: Confusion
    """The judge beside the majority."""
    judge_kappa: Kappa
    contested: Sequence[str]
    """Uids of records on which people do not say the same."""


def agreement_of(labels: Sequence[LabelRow], outcomes: Mapping[str, Outcome]) -> Agreement:
    """Sum labels on one task up.

    Args:
        labels: One for each person and record.
        outcomes: By uid how the task ended.

    Cost: linear in the labels, times the number of people.
    """
    by_item: Mapping[str, list[LabelRow]] = defaultdict(list)
    by_rater: Mapping[str, dict[str, bool]] = defaultdict(dict)
    for each in labels:
        by_item[each.uid].append(each)
        by_rater[each.rater][each.uid] = bool(each.is_good)
    said = {uid: majority(rows) for uid, rows in by_item.items()}
    counts = [
        (sum(bool(each.is_good) for each in rows), sum(not each.is_good for each in rows))
        for rows in by_item.values()
    ]
    judge = _confusion(said, outcomes)
    return Agreement(
        raters=dict(
            sorted(((name, len(of)) for name, of in by_rater.items()), key=lambda each: -each[1])
        ),
        items=len(by_item),
        good=sum(each is True for each in said.values()),
        tied=sum(each is None for each in said.values()),
        pairs=[
            _pair(first, second, by_rater[first], by_rater[second])
            for first, second in combinations(sorted(by_rater), 2)
            if by_rater[first].keys() & by_rater[second].keys()
        ],
        everybody=fleiss_kappa(counts),
        judge=judge,
        judge_kappa=cohen_kappa(judge.table),
        contested=[uid for uid, (good, bad) in zip(by_item, counts, strict=True) if good and bad],
    )


def _pair(first: str, second: str, one: Mapping[str, bool], other: Mapping[str, bool]) -> Pair:
    table = [[0, 0], [0, 0]]
    for uid in one.keys() & other.keys():
        table[not one[uid]][not other[uid]] += 1
    return Pair(
        first=first,
        second=second,
        items=sum(map(sum, table)),
        agreed=table[0][0] + table[1][1],
        kappa=cohen_kappa(table),
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
