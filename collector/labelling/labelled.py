"""Records that have labels, by how people and the task stand to each other."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from collector.labelling.queue import majority
from collector.store.labels import LabelRow
from scouter.evaluate.outcome import Outcome


class Standing(StrEnum):
    """The standing of people to each other on a record, and to the task."""

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
_DECIDED: Final = (Outcome.PASSED, Outcome.FAILED)
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
