"""Labels of records that were drawn at random: only of these a rate can be made.

A search for bad answers ends where the judge found some. Labels of such records say how far
judge and people agree on them, and nothing about how often the judge is wrong on all others
(verification bias; Begg and Greenes 1983, doi:10.2307/2530820). So a label states how its record
was chosen, and one that does not counts for the agreement alone.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, JsonValue

from scouter.agent.calibration.labels import Item, Label, Stratum
from scouter.evaluate.statistics.clustered import effect_of_conversations
from scouter.evaluate.statistics.confusion import Confusion
from scouter.evaluate.statistics.corrected_rate import DrawnLabels, JudgeCounts, Raters


class Place(NamedTuple):
    """A record that was drawn, and from what."""

    uid: str
    order: Literal["outcome", "random"]
    stratum: Stratum
    size: int


def draw(outcomes: Mapping[str, bool]) -> list[Place]:
    """Order records at random, in pairs of one that the judge passed and one that it failed.

    Args:
        outcomes: By uid whether the judge passed the record.

    Returns:
        All records, of which the first ones are labelled: as many of each outcome, until one has no
        more. Which of a pair is first is chance, so that no person can tell. The order hangs on the
        uids alone, so that a later draw of more begins with the same. Without both outcomes they
        are a sample of the whole.
    """
    uids = sorted(outcomes, key=digest)
    strata: list[tuple[Stratum, list[str]]] = [
        ("passed", [uid for uid in uids if outcomes[uid]]),
        ("failed", [uid for uid in uids if not outcomes[uid]]),
    ]
    if not all(members for _, members in strata):
        return [Place(uid, "random", "all", len(uids)) for uid in uids]
    ranked = [
        (rank, Place(uid, "outcome", stratum, len(members)))
        for stratum, members in strata
        for rank, uid in enumerate(members)
    ]
    return [place for _, place in sorted(ranked, key=lambda each: (each[0], mixed(each[1])))]


def mixed(place: Place) -> bytes:
    """Order of records that were drawn, which tells nothing of the outcome, as `digest` does."""
    return digest(f"mixed {place.uid}")


def digest(uid: str) -> bytes:
    """Order of a record in every draw."""
    return hashlib.sha256(uid.encode("utf-8", "surrogatepass")).digest()


def drawn_line(place: Place, record: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Write the line of a drawn record, to be filled in; what tells the outcome comes last.

    Args:
        place: Where it was drawn.
        record: Fields of the line that say which record it is, and what it says.
    """
    return {
        "label": None, "rater": "", **record, "uid": place.uid, "order": place.order,
        "stratum": place.stratum, "size": place.size,
    }  # fmt: skip


class Drawn(BaseModel):
    """Labels of records that were drawn at random: only of these a rate can be made."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    order: Literal["random", "outcome", "gold"]
    """See `scouter.agent.calibration.labels.LabelOrder`."""
    counts: Confusion
    passed: int
    judged: int
    """The judge's outcomes on the traffic that was drawn from. Of the order `random` all records
    count as judged, and `passed` is 0; of the order `gold` both are."""
    effect: float
    """Labels that tell as much as one of another conversation."""
    pairs: int
    differ: int
    single: int
    """See `scouter.evaluate.statistics.corrected_rate.Raters`."""
    uids: tuple[str, ...]
    ids: tuple[str, ...]
    """By record id, where no uid was given."""

    @property
    def labels(self) -> DrawnLabels:
        """The same for the statistics."""
        return DrawnLabels(
            counts=self.counts,
            traffic=JudgeCounts(self.passed, self.judged) if self.order == "outcome" else None,
            effect=self.effect,
            raters=Raters(self.pairs, self.differ, self.single),
        )

    @property
    def traffic(self) -> JudgeCounts:
        """The judge's outcomes on what was drawn from; of the order `random` as the labels say."""
        if self.order == "outcome":
            return JudgeCounts(self.passed, self.judged)
        counts = self.counts
        return JudgeCounts(counts.passed, counts.total, self.effect)


class Decided(NamedTuple):
    """An item that both people and the judge decided."""

    item: Item
    is_good: bool
    passed: bool
    score: float | None


class _Draw(NamedTuple):
    """A record that was drawn at random, with the judge's outcome when it was drawn."""

    item: Item
    label: Label
    is_good: bool
    passed: bool


def drawn_of(
    items: Sequence[Item], decided: Sequence[Decided]
) -> tuple[Drawn | None, dict[str, int]]:
    """Find the labels that a rate can be made of, and count the others by why they are none."""
    not_drawn: Counter[str] = Counter()
    found: list[_Draw] = []
    for item, _, passed, _ in decided:
        label, is_good = item.drawn, item.is_good_if_drawn
        if label is None or is_good is None:
            not_drawn[item.not_drawn or "on which people who had seen nothing are tied"] += 1
        else:  # the judge may decide otherwise when it is called again
            then = item.judged_when_drawn
            found.append(_Draw(item, label, is_good, passed if then is None else then))
    sizes = {stratum: _size(found, stratum) for stratum in ("all", "passed", "failed")}

    def leave_out(order: str, why: str) -> None:
        count = sum(each.label.order == order for each in found)
        if count:
            not_drawn[f"of the order `{order}`{why}"] += count
            found[:] = [each for each in found if each.label.order != order]

    if not (sizes["passed"] and sizes["failed"]):
        leave_out("outcome", ", and none of the other stratum")
    if any(each.label.order != "gold" for each in found):
        leave_out("gold", " beside others that were drawn, whose share of good ones counts")
    if not found:
        return None, dict(not_drawn)
    orders = {each.label.order for each in found}
    by_outcome = "outcome" in orders
    raters = _raters(items)
    return Drawn(
        order="outcome" if by_outcome else "gold" if orders == {"gold"} else "random",
        counts=confusion_of((each.is_good, each.passed) for each in found),
        passed=sizes["passed"] if by_outcome else 0,
        judged=sizes["passed"] + sizes["failed"] if by_outcome else sizes["all"],
        effect=effect_of_conversations((each.item.session, each.is_good) for each in found),
        pairs=raters.pairs,
        differ=raters.differ,
        single=sum(_is_single(each.item) for each in found),
        uids=tuple(each.item.uid for each in found if each.item.uid),
        ids=tuple(each.item.record_id for each in found if each.item.has_only_an_id),
    ), dict(not_drawn)


def _size(found: Sequence[_Draw], stratum: Stratum) -> int:
    """The size of a stratum: its mean, if it grew while people labelled; 0 if nobody says."""
    said = [
        each.label.size
        for each in found
        if each.label.stratum == stratum and each.label.size is not None
    ]
    return round(sum(said) / len(said)) if said else 0


def _raters(items: Sequence[Item]) -> Raters:
    """Agreement of people on the records that were drawn, ties included."""
    votes = [(len(each.blind_votes), sum(each.blind_votes)) for each in items if each.drawn]
    return Raters(
        pairs=sum(count * (count - 1) // 2 for count, _ in votes),
        differ=sum(good * (count - good) for count, good in votes),
    )


def _is_single(item: Item) -> bool:
    """Tell whether one vote more against the majority would leave none."""
    return abs(2 * sum(item.blind_votes) - len(item.blind_votes)) == 1


def confusion_of(pairs: Iterable[tuple[bool, bool]]) -> Confusion:
    """Count records by both decisions.

    Args:
        pairs: Of each record whether people pass it, and whether the judge does.
    """
    counts = Counter(pairs)
    return Confusion(
        good_passed=counts[True, True],
        good_failed=counts[True, False],
        bad_passed=counts[False, True],
        bad_failed=counts[False, False],
    )
