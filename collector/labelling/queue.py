"""The order in which people label records."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

from collector.store.evaluation_queries import NewestResult, NewestResultsQuery
from collector.store.labels import LabelQuery, LabelRow
from collector.store.rows import TaskRow
from collector.store.store import Store
from scouter.agent.calibration.drawn import Place, confusion_of, digest, draw
from scouter.client.models.labels import LabelPlan
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.task_result import as_score
from scouter.evaluate.statistics.corrected_rate import DrawnLabels, JudgeCounts, planned_width

LOOKED_AT: Final = 500
"""Results that a queue is made of: the newest that it may ask about."""
MOST_LABELS: Final = 100_000
_DECIDED: Final = (Outcome.PASSED, Outcome.FAILED)


class TaskOf(NamedTuple):
    """A task of a profile in a space."""

    space: str
    alias: str
    task_id: str


class Order(StrEnum):
    """Order of a queue."""

    RANDOM = "random"
    """Every record alike, by a digest of its uid."""
    OUTCOME = "outcome"
    """At random too, of those that the task passed and of those that it failed in turn."""
    FAILED = "failed"
    """Records of which the task failed, the newest first."""
    UNCERTAIN = "uncertain"
    """Those of which the judge abstained, or whose score is nearest to its bound."""
    DISAGREES = "disagrees"
    """Those on which the judge says another thing than most people so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToLabel:
    """A record to be labelled."""

    uid: str
    task: TaskRow
    """Its result, without texts."""
    labels: Sequence[LabelRow]
    """Labels of other people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Records to ask one person about, in order."""

    items: Sequence[ToLabel]
    labelled: int
    """Records that this person has labelled, of this task."""
    plan: LabelPlan | None
    """Worth of further labels; None where the task has decided none of the newest records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The draw that brought a record to its labeller."""

    order: str | None = None
    stratum: str | None = None
    size: int | None = None


def queue_of(store: Store, task: TaskOf, order: Order, rater: str) -> Queue:
    """Make the queue of a person: evaluated records that they have not labelled.

    Args:
        store: Has evaluations and labels.
        task: The task that people label.
        order: Order of the records in the queue.
        rater: The person.

    Cost: linear in the labels of the task; reads its newest `LOOKED_AT` results, without texts.
    """
    query = LabelQuery(**task._asdict(), limit=MOST_LABELS)
    every = store.labels(query)
    own = {each.uid for each in every if each.rater == rater}
    others: Mapping[str, list[LabelRow]] = defaultdict(list)
    for each in every:
        others[each.uid].append(each)
    results = _newest(
        store,
        task,
        Outcome.FAILED if order is Order.FAILED else None,
        has_values=order is Order.UNCERTAIN,
    )
    found = [
        ToLabel(uid=each.uid, task=each.task, labels=others[each.uid])
        for each in results
        if each.uid not in own
    ]
    outcomes = outcomes_of(results if order is not Order.FAILED else _newest(store, task))
    return Queue(
        items=_ordered(found, order, outcomes),
        labelled=len(own),
        plan=plan_of(every, outcomes),
    )


def _newest(
    store: Store, task: TaskOf, outcome: Outcome | None = None, *, has_values: bool = False
) -> Sequence[NewestResult]:
    return store.newest_results(
        NewestResultsQuery(
            **task._asdict(), outcome=outcome, limit=LOOKED_AT, has_values=has_values
        )
    )


def outcomes_of(results: Iterable[NewestResult]) -> Mapping[str, bool]:
    """By uid whether the task passed the record; others than passed and failed are left out."""
    return {
        each.uid: each.task.outcome is Outcome.PASSED
        for each in results
        if each.task.outcome in _DECIDED
    }


def places_of(store: Store, task: TaskOf) -> Sequence[Place]:
    """Draw from the newest results of a task: all of them, in the order to label them."""
    return draw(outcomes_of(_newest(store, task)))


def origin_of(
    store: Store, task: TaskOf, order: Order | None, uid: str, earlier: LabelRow | None
) -> Origin:
    """Say how a record came to be labelled.

    Args:
        store: Has the newest results of the task.
        task: The task that is labelled.
        order: Order of the queue that it came from; None if from none.
        uid: Of the record.
        earlier: The person's label before, whose origin stays.

    Returns:
        Without a stratum for a record that is not among the newest results any more.
    """
    if earlier is not None:
        return Origin(order=earlier.order, stratum=earlier.stratum, size=earlier.size)
    if order in (Order.OUTCOME, Order.RANDOM):
        outcomes = outcomes_of(_newest(store, task))
        if order is Order.RANDOM:
            if uid in outcomes:
                return Origin(order=order, stratum="all", size=len(outcomes))
        else:
            place = next((each for each in draw(outcomes) if each.uid == uid), None)
            if place is not None:
                return Origin(order=place.order, stratum=place.stratum, size=place.size)
    return Origin(order=order)


def plan_of(labels: Sequence[LabelRow], outcomes: Mapping[str, bool]) -> LabelPlan | None:
    """Foresee what more labels would tell, from those of records that were drawn at random."""
    if not outcomes:
        return None
    by_item: Mapping[str, list[LabelRow]] = defaultdict(list)
    for each in labels:
        if each.stratum is not None and each.is_blind is not False:
            by_item[each.uid].append(each)
    pairs: list[tuple[bool, bool]] = []
    for uid, rows in by_item.items():
        is_good, stratum = majority(rows), rows[0].stratum
        passed = outcomes.get(uid) if stratum == "all" else stratum == "passed"
        if is_good is not None and passed is not None:
            pairs.append((is_good, passed))
    confusion = confusion_of(pairs)
    traffic = JudgeCounts(sum(outcomes.values()), len(outcomes))
    drawn = DrawnLabels(counts=confusion, traffic=traffic)
    width, width_20, width_50 = (planned_width(drawn, traffic, more) for more in (0, 20, 50))
    return LabelPlan(
        passed=confusion.passed,
        failed=confusion.total - confusion.passed,
        width=width,
        width_20=width_20,
        width_50=width_50,
    )


def _ordered(
    found: Sequence[ToLabel], order: Order, outcomes: Mapping[str, bool]
) -> Sequence[ToLabel]:
    if order is Order.OUTCOME:
        by_uid = {each.uid: each for each in found}
        places = [each.uid for each in draw(outcomes)]
        return [by_uid[uid] for uid in places if uid in by_uid]
    if order is Order.RANDOM:
        return sorted(found, key=lambda each: digest(each.uid))
    if order is Order.UNCERTAIN:
        doubts = [(doubt(each.task), each) for each in found]
        known = [(at, each) for at, each in doubts if at is not None]
        return [each for _, each in sorted(known, key=lambda pair: -pair[0])]
    if order is Order.DISAGREES:
        return [each for each in found if disagrees(each.task, each.labels)]
    return found


def doubt(task: TaskRow) -> float | None:
    """Uncertainty of a judge, in [0, 1].

    Returns:
        1 where it abstained or its samples had no majority; else 1 / (1 + d), d the distance of
        its number from the one that it is compared with; None of a task without either.
    """
    if task.reason == Reason.ABSTAINED:
        return 1.0
    score, bound = task.actual, task.expected
    if isinstance(score, bool) or isinstance(bound, bool):
        share = task.score  # of votes; 0 or 1 where all say the same
        if share is None or share in (0.0, 1.0):
            return None
        return 1 - abs(2 * share - 1)
    score, bound = as_score(score), as_score(bound)
    return None if score is None or bound is None else 1 / (1 + abs(score - bound))


def majority(labels: Iterable[LabelRow]) -> bool | None:
    """Label of most people; None for a tie, and where there is no label."""
    votes = [bool(each.is_good) for each in labels]
    return None if 2 * sum(votes) == len(votes) else 2 * sum(votes) > len(votes)


def disagrees(task: TaskRow, labels: Iterable[LabelRow]) -> bool:
    """Say whether the judge decided otherwise than most people."""
    wanted = majority(labels)
    if wanted is None or task.outcome not in _DECIDED:
        return False
    return (task.outcome is Outcome.PASSED) is not wanted


class Standing(StrEnum):
    """The agreement of people with each other on a record, and with the task."""

    CONTESTED = "contested"
    """People differ."""
    TIED = "tied"
    """As many say good as bad."""
    DIFFERS = "differs"
    """The task decided otherwise than most people."""
    UNDECIDED = "undecided"
    """The task neither passed nor failed."""
    GOOD_PASSED = "good_passed"
    GOOD_FAILED = "good_failed"
    BAD_PASSED = "bad_passed"
    BAD_FAILED = "bad_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A record with its labels on one task."""

    uid: str
    labels: Sequence[LabelRow]


_Said = tuple[bool | None, Outcome | None]
_OF: Final[Mapping[Standing, Callable[[_Said], bool]]] = {
    Standing.TIED: lambda said: said[0] is None,
    Standing.UNDECIDED: lambda said: said[0] is not None and said[1] not in _DECIDED,
    Standing.DIFFERS: lambda said: said in ((True, Outcome.FAILED), (False, Outcome.PASSED)),
    Standing.GOOD_PASSED: lambda said: said == (True, Outcome.PASSED),
    Standing.GOOD_FAILED: lambda said: said == (True, Outcome.FAILED),
    Standing.BAD_PASSED: lambda said: said == (False, Outcome.PASSED),
    Standing.BAD_FAILED: lambda said: said == (False, Outcome.FAILED),
}


def labelled_of(
    labels: Sequence[LabelRow],
    outcomes: Mapping[str, Outcome],
    standing: Standing | None = None,
    rater: str = "",
) -> Sequence[Labelled]:
    """List records with labels, those of the newest label first.

    Args:
        labels: On one task, one for each person and record, the newest first.
        outcomes: By uid how the task ended.
        standing: Only such records.
        rater: Only records that this person labelled, by the time of their label.
    """
    by_item: Mapping[str, list[LabelRow]] = defaultdict(list)
    for each in labels:
        by_item[each.uid].append(each)
    mine = (each.uid for each in labels if not rater or each.rater == rater)
    found = [Labelled(uid=uid, labels=by_item[uid]) for uid in dict.fromkeys(mine)]
    if standing is None:
        return found
    if standing is Standing.CONTESTED:
        return [each for each in found if len({bool(label.is_good) for label in each.labels}) > 1]
    fits = _OF[standing]
    return [each for each in found if fits((majority(each.labels), outcomes.get(each.uid)))]
