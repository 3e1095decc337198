"""Traffic or behaviour: what the change of the rate of records comes from.

Traffic is what users send: tags, and questions with the same record id. Tools, models and lengths
of conversations belong to the way that an agent takes with it: other questions change them, and so
does another agent. So a change has three parts, and only the last one is behaviour beyond doubt.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from collector.comparing.live import Passed, conversations_of, moved_text, passed_of
from collector.comparing.side import Side
from collector.store.store import Store
from scouter.evaluate.results.record_result import RecordResult
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
"""Share of the records of a side from which a trait is looked at."""
_LENGTHS: Final = ((1, "1 record"), (4, "2 to 4 records"), (9, "5 to 9 records"))
_LONG: Final = "10 records or more"
_ROUTE: Final = ("tool ", "model ", "length ")
_SETUP: Final = tuple(f"{kind} " for kind in KINDS)
_SHOWN: Final = 20
_NONE: Final = frozenset[str]()
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Explained:
    """A change of the rate of records with its parts."""

    split: Split
    traits: Sequence[TraitChange]
    """Those that most records of a side have, the ones that fell furthest first; 20 at most."""
    setup: Sequence[SetupDifference]
    """The largest differences first; 20 at most."""
    sentence: str
    """Cause of the change, in words."""

    @property
    def is_traffic_alone(self) -> bool:
        """True if other traffic made the rate fall, and no change of behaviour is seen."""
        split = self.split
        return split.traffic.fell and not split.within.fell and not split.route.fell


def explain(store: Store, space: str, sides: tuple[Side, Side]) -> Explained | None:
    """Split the change of the rate of records into traffic, route and behaviour.

    Args:
        store: Has the spans, which name tools, models and setups.
        space: Whose.
        sides: Live sides, of which nothing is compared in pairs.

    Returns:
        None where the sides have too few conversations, or no traffic in common.

    Cost: the names in the spans of all records, and that of the split.
    """
    traces = {each.trace_id for side in sides for each in side.results.records if each.trace_id}
    names = {
        trace_id: frozenset([f"{kind} {name}" for kind, name in some])
        for trace_id, some in store.trace_names(space, traces).items()
    }
    before, after = (_results(side, names) for side in sides)
    traits = _common(before) | _common(after)
    before, after = (
        [each._replace(traits=each.traits & traits) for each in some] for some in (before, after)
    )
    is_open = any(side.is_open for side in sides)
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


def _results(side: Side, names: Mapping[str, frozenset[str]]) -> list[Result]:
    """The records that count, in the order of time, with their traits."""
    records = sorted(side.results.records, key=lambda each: each.created_ns)
    lengths = Counter(each.session_id for each in records if each.session_id)
    known = [(each, passed) for each in records if (passed := passed_of(each)) is not None]
    numbers = conversations_of([Passed(each.session_id, passed) for each, passed in known])
    return [
        Result(
            number, passed, names.get(each.trace_id or "", _NONE).union(_own(each, side, lengths))
        )
        for number, (each, passed) in zip(numbers, known, strict=True)
    ]


def _own(record: RecordResult, side: Side, lengths: Mapping[str, int]) -> Iterator[str]:
    """Traits that no span tells."""
    for key, value in side.tags.get(record.record_uid, {}).items():
        yield f"tag {key}={value}"
    if record.record_id != record.record_uid:
        yield f"record {record.record_id}"
    if length := lengths.get(record.session_id):
        yield f"length {next((text for most, text in _LENGTHS if length <= most), _LONG)}"


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
    low, high = (_points(end) for end in part.interval)
    return f"{_points(part.difference)} points (95 % {low} to {high})"


def _points(share: float) -> str:
    text = f"{share * 100:+.1f}"
    return "0" if text in {"+0.0", "-0.0"} else text.replace("-", "\u2212")
