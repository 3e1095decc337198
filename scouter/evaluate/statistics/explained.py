"""Traffic or behaviour: what the change of the rate of results comes from, in parts and in words.

Traffic is what users send: tags, and questions with the same record id. Tools, models and lengths
of conversations belong to the way that an agent takes with it: other questions change them, and so
does another agent. So a change has three parts, and only the last one is behaviour beyond doubt.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from scouter.evaluate.statistics.mix import (
    Part,
    Split,
    TraitChange,
    split_difference,
    trait_changes,
)
from scouter.evaluate.statistics.strata import Result
from scouter.model.genai.setup import KINDS

_LEAST: Final = 0.02
"""Share of the results of a side from which a trait is looked at."""
_LENGTHS: Final = ((1, "1 record"), (4, "2 to 4 records"), (9, "5 to 9 records"))
_LONG: Final = "10 records or more"
_ROUTE: Final = ("tool ", "model ", "length ")
_SETUP: Final = tuple(f"{kind} " for kind in KINDS)
_SHOWN: Final = 20
_OTHER: Final = 0.1
"""Difference of the shares of a value from which the sides ran with another setup."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SetupDifference:
    """A value that the records of one side ran with more often."""

    name: str
    """Kind and value."""
    before: float
    """Share of the records."""
    after: float


class Guilty(NamedTuple):
    """A trait whose results fell further than others of the same traffic."""

    name: str
    before: tuple[int, int]
    """Results that passed, and all."""
    after: tuple[int, int]

    def sentence(self) -> str:
        """Its counts in words."""
        (old, of), (new, now) = self.before, self.after
        return f"{self.name}: {old / of:.1%} before, {new / now:.1%} of {now:,} since"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a change comes from, as people read it."""

    sentence: str
    """Traffic or behaviour, with the size of each part."""
    guilty: Sequence[Guilty]
    """The one that makes most of the fall first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A change of the rate of records with its parts."""

    split: Split
    traits: Sequence[TraitChange]
    """Those that most records of a side have, the ones that fell furthest first; 20 at most."""
    setup: Sequence[SetupDifference]
    """The largest differences first; 20 at most."""
    sentence: str
    """Origin of the change, in words."""

    @property
    def origin(self) -> Origin:
        """The same as people read it."""
        guilty = [Guilty(t.trait, t.before, t.after) for t in self.traits if t.is_named]
        return Origin(sentence=self.sentence, guilty=guilty)

    @property
    def is_traffic_alone(self) -> bool:
        """True if other traffic made the rate fall, and no change of behaviour is seen."""
        split = self.split
        return split.traffic.fell and not split.within.fell and not split.route.fell


def explain_results(
    before: Sequence[Result], after: Sequence[Result], *, is_open: bool
) -> Explained | None:
    """Split the change of a rate into traffic, route and behaviour.

    Args:
        before: Results in the order of time, with all traits that are known of them.
        after: Those in question.
        is_open: True if a side may still get results: the intervals hold at every look.

    Returns:
        None where a side has too few conversations, or they have no traffic in common.

    Cost: that of the split.
    """
    traits = _common(before) | _common(after)
    before, after = (
        [each._replace(traits=each.traits & traits) for each in some] for some in (before, after)
    )
    route = {each for each in traits if each.startswith(_ROUTE)}
    setup = {each for each in traits if each.startswith(_SETUP)}
    split = split_difference(before, after, traits - route - setup, route, is_open=is_open)
    if split is None:
        return None
    return Explained(
        split=split,
        traits=trait_changes(split, traits, is_open=is_open)[:_SHOWN],
        setup=_setup_differences(setup, before, after)[:_SHOWN],
        sentence=split_text(split, traits - setup, route),
    )


def length_trait(records: int) -> str:
    """The trait of a conversation with so many records."""
    return f"length {next((text for most, text in _LENGTHS if records <= most), _LONG)}"


def _setup_differences(
    setup: Collection[str], before: Sequence[Result], after: Sequence[Result]
) -> list[SetupDifference]:
    """The values of which the sides have other shares."""
    old, new = (
        Counter(trait for each in side for trait in each.traits) for side in (before, after)
    )
    found = (
        SetupDifference(name=each, before=old[each] / len(before), after=new[each] / len(after))
        for each in sorted(setup)
    )
    other = [each for each in found if abs(each.after - each.before) >= _OTHER]
    return sorted(other, key=lambda each: -abs(each.after - each.before))


def _common(results: Sequence[Result]) -> set[str]:
    """Traits of enough results to change a rate by much."""
    counts = Counter(trait for each in results for trait in each.traits)
    return {name for name, count in counts.items() if count >= _LEAST * len(results)}


def split_text(split: Split, traits: Collection[str], route: Collection[str]) -> str:
    """Say in words what a difference comes from.

    Args:
        split: Its parts.
        traits: All that were looked at.
        route: Those of them that are tools, models and lengths.
    """
    return " ".join(_sentences(split, traits, route))


def _sentences(split: Split, traits: Collection[str], route: Collection[str]) -> Iterator[str]:
    total = split.traffic.difference + split.route.difference + split.within.difference
    parts = [
        (name, cause, part)
        for name, cause, part, is_known in (
            ("traffic", "other traffic came", split.traffic, len(traits) > len(route)),
            (
                "tools, models and lengths",
                "the same traffic took other tools, models or lengths",
                split.route,
                bool(route),
            ),
            ("behaviour", "the agent behaves otherwise with the same traffic", split.within, True),
        )
        if is_known
    ]
    causes = [cause for _, cause, part in parts if part.fell]
    moved = f"Records passed {moved_text(total)}"
    if causes:
        yield f"{moved}, {'because' if total < 0 else 'although'} {' and '.join(causes)}:"
    else:
        yield f"{moved}{', and chance may explain each part' if total < 0 else ''}:"
    yield "; ".join(f"{name} {_part(part)}" for name, _, part in parts) + "."
    for share, when in ((split.alone_before, "before"), (split.alone_after, "now")):
        if share > 0:
            yield f"Traffic that only came {when} is {100 * share:.0f} % of its records."
    if len(traits) == len(route):
        yield (
            "The records have no tags, so a change of what users ask for cannot be seen: it counts "
            "as behaviour."
        )


def _part(part: Part) -> str:
    low, high = (points(end) for end in part.interval)
    return f"{points(part.difference)} points (95 % {low} to {high})"


def points(share: float) -> str:
    """A difference of two rates in points, with its sign."""
    text = f"{share * 100:+.1f}"
    return "0" if text in {"+0.0", "-0.0"} else text.replace("-", "\u2212")


def moved_text(difference: float) -> str:
    """A difference of two rates as a verb: `fell by 3.2 points`."""
    if abs(difference) < 0.0005:
        return "did not change"
    return f"{'fell' if difference < 0 else 'rose'} by {abs(difference) * 100:.1f} points"
