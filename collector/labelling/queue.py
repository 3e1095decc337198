"""The order in which people are asked about records."""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from collector.storage.port.labels import LabelQuery, LabelRow
from collector.storage.port.newest_results import NewestResultsQuery
from collector.storage.port.rows import TaskRow
from collector.storage.port.store import Store
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.score import as_score

LOOKED_AT: Final = 500
"""Results that a queue is made of: the newest that it may ask about."""
MOST_LABELS: Final = 100_000
_DECIDED: Final = (Outcome.PASSED, Outcome.FAILED)


class Order(StrEnum):
    """Order of a queue."""

    RANDOM = "random"
    """Every record alike, by a digest of its uid: rates made of these labels are not bent."""
    FAILED = "failed"
    """Records of which the task failed, the newest first."""
    UNCERTAIN = "uncertain"
    """Those of which the judge abstained, or whose score is nearest to its bound."""
    DISAGREES = "disagrees"
    """Those on which the judge says another thing than most people so far."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A record to be asked about."""

    uid: str
    task: TaskRow
    """Its result, without texts."""
    labels: Sequence[LabelRow]
    """Labels of other people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Queue:
    """Records to ask one person about, in order."""

    items: Sequence[Asked]
    labelled: int
    """Records that this person has labelled, of this task."""


def queue_of(store: Store, space: str, alias: str, task_id: str, order: Order, rater: str) -> Queue:
    """Make the queue of a person: evaluated records that they have not labelled.

    Args:
        store: Has evaluations and labels.
        space: Space of the records.
        alias: Alias of the profile.
        task_id: The task that is asked about.
        order: Order of the records in the queue.
        rater: The person.

    Cost: linear in the labels of the task; reads its newest `LOOKED_AT` results, without texts.
    """
    every = store.labels(LabelQuery(space=space, alias=alias, task_id=task_id, limit=MOST_LABELS))
    own = {each.uid for each in every if each.rater == rater}
    others: Mapping[str, list[LabelRow]] = defaultdict(list)
    for each in every:
        others[each.uid].append(each)
    results = store.newest_results(
        NewestResultsQuery(
            space=space,
            alias=alias,
            task_id=task_id,
            outcome=Outcome.FAILED if order is Order.FAILED else None,
            limit=LOOKED_AT,
            has_values=order is Order.UNCERTAIN,
        )
    )
    found = [
        Asked(uid=each.uid, task=each.task, labels=others[each.uid])
        for each in results
        if each.uid not in own
    ]
    return Queue(items=_ordered(found, order), labelled=len(own))


def _ordered(found: Sequence[Asked], order: Order) -> Sequence[Asked]:
    if order is Order.RANDOM:
        return sorted(found, key=lambda each: _digest(each.uid))
    if order is Order.UNCERTAIN:
        doubts = [(doubt(each.task), each) for each in found]
        known = [(at, each) for at, each in doubts if at is not None]
        return [each for _, each in sorted(known, key=lambda pair: -pair[0])]
    if order is Order.DISAGREES:
        return [each for each in found if disagrees(each.task, each.labels)]
    return found


def _digest(uid: str) -> bytes:
    return hashlib.sha256(uid.encode("utf-8", "surrogatepass")).digest()


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
