"""Parts of the traffic with a series of their own."""

import random
from collections.abc import Iterator, Sequence

import pytest

from scouter.drift.series.observed import RECORD, Name, Observed
from scouter.drift.series.reference import Stated
from scouter.drift.series.series import Kind, Series
from scouter.drift.series.series_set import SeriesSet
from scouter.drift.series.slices import MOST, WINDOW, Slices, attributes_of, is_wanted
from tests.scouter.drift.series.support import (
    FAILED,
    PACE,
    PASSED,
    observed,
    restarted,
    state,
)

ALPHA = 0.01
ALL = Stated(slices=("tag", "tool", "model"))


def watching(stated: Stated = ALL) -> SeriesSet:
    return SeriesSet(ALPHA, PACE, lambda space, uid: stated)


def slice_of(series: SeriesSet, part: str, version: str = "1") -> Series:
    (found,) = (
        each for each in series.series()
        if each.key.slice == part and each.key.agent.version == version
    )  # fmt: skip
    return found


@pytest.mark.parametrize(
    ("trait", "wanted", "is_one"),
    [
        ("tool search", "tool", True),
        ("tool search", "tool search", True),
        ("tool search engine", "tool search", False),
        ("tag tier=free", "tag", True),
        ("tag tier=free", "tag tier", True),
        ("tag tier=free", "tag tier=free", True),
        ("tag tier=free", "tag tier=fre", False),
        ("tag tiers=free", "tag tier", False),
        ("attribute http.route=/x", "attribute http.route", True),
        ("model m", "tool", False),
        ("tools x", "tool", False),
    ],
)
def test_a_profile_names_kinds_keys_and_values(trait: str, wanted: str, is_one: bool) -> None:
    assert is_wanted(trait, [wanted]) is is_one
    assert is_wanted(trait, ["attribute other", wanted]) is is_one
    assert not is_wanted(trait, [])


def test_the_attributes_that_spans_are_looked_through_for() -> None:
    wanted = ("tag", "tool x", "attribute http.route", "attribute a.b=c")
    assert attributes_of(wanted) == {"http.route", "a.b"}


def test_a_slice_begins_with_a_fiftieth_of_the_traffic() -> None:
    """Of 500 records: 9 are too few, 10 enough; 475 are nearly all, 474 are not."""
    slices = Slices(["tag"])
    counts = {"tag few=1": 9, "tag enough=1": 10, "tag some=1": 474, "tag all=1": 475}
    for at in range(WINDOW):
        traits = [name for name, count in counts.items() if at < count]
        assert slices.of([*traits, "tool x"]) == []
    assert slices.of([*counts, "tool x"]) == ["tag enough=1", "tag some=1"]
    assert list(slices.left_out) == []


def test_what_has_no_room_is_named_until_there_is_room() -> None:
    """Sixty tags with an equal share each: 50 begin."""
    slices = Slices(["tag"])
    names = [f"tag k=v{n:02}" for n in range(60)]

    def window() -> None:
        for at in range(WINDOW):
            slices.of([names[at % 60], names[(at + 30) % 60]])

    window()
    assert len(slices.started) == MOST
    assert set(slices.started) | set(slices.left_out) == set(names)
    again = Slices.from_json(slices.wanted, slices.to_json())
    assert again.to_json() == slices.to_json()
    slices.restate(["tag k=v00", names[-1]])
    window()
    assert set(slices.started) == {names[0], names[-1]}
    assert slices.left_out == {}


def test_nothing_is_sliced_where_nothing_is_wanted() -> None:
    series = watching(Stated())
    for n in range(1, 2 * WINDOW):
        series.take(observed(n, traits=("tool t",) if n % 2 else ("tool u",)))
    assert {each.key.slice for each in series.series()} == {""}


def traffic(
    count: int, first: int = 1, version: str = "1", fallen: float = 0.9
) -> Iterator[Observed]:
    """Records at 0.9 with one of ten tools; those with the first tool pass at another rate."""
    draw = random.Random(first)
    for n in range(first, first + count):
        tool = draw.randrange(10)
        is_good = draw.random() < (0.9 if tool else fallen)
        traits = (f"tool t{tool}", f"tag half={tool % 2}")
        yield observed(n, PASSED if is_good else FAILED, version=version, traits=traits)


def test_a_slice_counts_its_records_alone() -> None:
    series, failed = watching(), 0
    for each in traffic(2_000):
        series.take(each)
        if each.place.seq > WINDOW and "tool t3" in each.traits:
            failed += each.outcomes[0][1] is FAILED
    counted = [each for each in traffic(2_000) if each.place.seq > WINDOW]
    found = slice_of(series, "tool t3")
    assert found.records == sum("tool t3" in each.traits for each in counted)
    assert found.failed == failed
    assert found.key.task == RECORD


def test_the_unit_is_the_part_of_a_conversation_that_is_in_the_slice() -> None:
    """Of three records two call the tool, and one of these fails."""
    series = watching()
    for n in range(1, WINDOW + 1):
        series.take(observed(n, traits=("tool t",) if n % 2 else ()))
    given = [(PASSED, ("tool t",)), (FAILED, ("tool t",)), (FAILED, ())]
    for n, (outcome, traits) in enumerate(given, WINDOW + 1):
        series.take(observed(n, outcome, session="s", traits=traits))
    series.advance(10**18)
    found = slice_of(series, "tool t")
    assert (found.units, found.records, found.failed, found.total) == (1, 2, 1, 0.5)


def test_the_next_version_is_compared_with_the_slice_before() -> None:
    series = watching()
    for each in traffic(6_000):
        series.take(each)
    turns = [
        turn
        for each in traffic(1_500, 6_001, version="2", fallen=0.3)
        for turn in series.take(each)
    ]
    first = turns[0]
    assert (first.series.key.slice, first.series.key.agent.version) == ("tool t0", "2")
    assert first.fall is not None
    assert first.fall.reference.sentence().startswith("version 1 before it")
    assert first.units < 100  # from its first record on: a tenth of those up to the alarm


def test_a_tenth_of_the_traffic_that_falls_is_seen_where_all_records_show_nothing() -> None:
    """The rate of all falls from 0.9 to 0.86; the slice is learnt after 3,500 records."""
    series = watching()
    for each in traffic(4_000):
        assert series.take(each) == []
    turns = [turn for each in traffic(1_500, 4_001, fallen=0.5) for turn in series.take(each)]
    assert [turn.series.key.slice for turn in turns] == ["tool t0"]
    assert turns[0].at_ns // 10**9 <= 5_200


def test_a_slice_is_proven_once_its_evidence_stands_among_all() -> None:
    """By brute force: at its own bad record, by the e-values of all slices and the rule of e-BH."""
    series, seen = watching(Stated(slices=("tag",))), list[tuple[str, int]]()
    expected: list[tuple[str, int]] = []
    draw, fallen = random.Random(5), set[str]()
    for n in range(1, 12_000):
        part = n % 4
        rate = 0.9 if n < 6_000 or part > 1 else 0.7  # two of four slices fall together
        outcome = PASSED if draw.random() < rate else FAILED
        turns = series.take(observed(n, outcome, traits=(f"tag k={part}",)))
        seen += [
            (turn.series.key.slice, n) for turn in turns if turn.fall and turn.series.key.slice
        ]
        slices = [each for each in series.series() if each.key.slice]
        if outcome is PASSED or not slices:
            continue
        name = f"tag k={part}"
        ranked = sorted((each.evidence for each in slices), reverse=True)
        lines = [MOST / (ALPHA * rank) for rank in range(1, MOST + 1)]
        passing = [rank for rank, value in enumerate(ranked) if value >= lines[rank]]
        own = slice_of(series, name).evidence
        if passing and own >= lines[max(passing)] and name not in fallen:
            fallen.add(name)
            expected.append((name, n))
    assert [name for name, _ in seen] == [name for name, _ in expected] != []
    assert seen == expected
    assert len(seen) == 2


def test_a_restart_changes_nothing() -> None:
    results = [*traffic(4_000), *traffic(1_200, 4_001, fallen=0.5)]
    series, again = watching(), watching()
    turned: list[tuple[Name, int]] = []
    for each in results:
        turned += [(Name(*t.series.key[3:]), t.units) for t in series.take(each)]
    got: list[tuple[Name, int]] = []
    for at, each in enumerate(results):
        if at % 1_300 == 777:
            again = restarted(again)
        got += [(Name(*t.series.key[3:]), t.units) for t in again.take(each)]
    assert got == turned != []
    assert state(again) == state(series)


def test_a_slice_that_nobody_wants_any_more_is_gone() -> None:
    stated = [ALL]
    series = SeriesSet(ALPHA, PACE, lambda space, uid: stated[0])
    for each in traffic(1_000):
        series.take(each)
    assert any(each.key.slice.startswith("tag") for each in series.series())
    stated[0] = Stated(slices=("tool",))
    series.restate()
    for each in traffic(100, 1_001):
        series.take(each)
    kinds = {each.key.slice.partition(" ")[0] for each in series.series()}
    assert kinds == {"", "tool"}


def test_references_of_a_slice_get_better_as_it_grows() -> None:
    """At 300 and 1,000 of its records; bounds only rise."""
    series = watching(Stated(slices=("tool",)))
    bounds: list[float] = []
    for n, bit in enumerate(([1] * 9 + [0]) * 1_100, 1):
        traits = ("tool a",) if n % 2 else ("tool b",)
        series.take(observed(n, PASSED if bit or n % 20 < 10 else FAILED, traits=traits))
        slices = [each for each in series.series() if each.key.slice == "tool b"]
        watches = slices[0].watches if slices else []
        known: Sequence[float] = [each.reference.baseline.lower for each in watches]
        if known and (not bounds or bounds[-1] != known[0]):
            bounds.append(known[0])
    first, second = bounds
    assert first < second
    assert slice_of(series, "tool b").key.kind is Kind.PASS
