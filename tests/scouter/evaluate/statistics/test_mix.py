"""Mix or behaviour: by hand, by the parts' sum, and by the jackknife of one cell."""

import math
import random
from collections.abc import Collection, Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.statistics.mix import split_difference, trait_changes
from scouter.evaluate.statistics.strata import Cell, Result, cells_of

Kinds = Mapping[str, tuple[int, int]]
"""By kind: results that passed, and that did not."""


def results(kinds: Kinds, *more: str) -> list[Result]:
    """Results that are each a conversation."""
    made = [
        (passed, frozenset({kind, *more}))
        for kind, (good, bad) in kinds.items()
        for passed in [True] * good + [False] * bad
    ]
    return [Result(at, passed, traits) for at, (passed, traits) in enumerate(made)]


def test_a_change_of_traffic_alone_by_hand() -> None:
    """Easy ones pass in 90 %, hard ones in 50 %; easy ones are 80 of 100, then 40 of 100."""
    before = results({"easy": (72, 8), "hard": (10, 10)})
    after = results({"easy": (36, 4), "hard": (30, 30)})
    found = split_difference(before, after, {"easy", "hard"}, ())
    assert found is not None
    assert found.traffic.difference == pytest.approx(0.66 - 0.82)
    assert found.within.difference == pytest.approx(0)
    assert found.route.difference == pytest.approx(0)
    assert found.traffic.fell
    assert not found.within.fell


def test_both_changes_by_hand() -> None:
    """As above, and each kind falls by 20 points: half of the shift at the mean of both rates."""
    before = results({"easy": (72, 8), "hard": (10, 10)})
    after = results({"easy": (28, 12), "hard": (18, 42)})
    found = split_difference(before, after, {"easy", "hard"}, ())
    assert found is not None
    assert found.within.difference == pytest.approx(-0.2)
    assert found.traffic.difference == pytest.approx(-0.4 * 0.8 + 0.4 * 0.4)
    assert found.within.fell
    assert found.traffic.fell


def test_another_way_through_the_same_traffic_stands_apart() -> None:
    """Without its tool half as many pass, before and now; it is called half as often now."""
    before = results({"tool": (72, 8), "none": (9, 11)}, "kind")
    after = results({"tool": (36, 4), "none": (27, 33)}, "kind")
    found = split_difference(before, after, {"kind"}, {"tool", "none"})
    assert found is not None
    assert found.route.difference == pytest.approx(0.63 - 0.81)
    assert found.traffic.difference == pytest.approx(0)
    assert found.within.difference == pytest.approx(0)
    assert found.route.fell


def test_traffic_that_only_one_side_has_is_no_behaviour() -> None:
    """A new kind of question that always fails: 30 of 100."""
    before = results({"old": (90, 10)})
    after = results({"old": (63, 7), "new": (0, 30)})
    found = split_difference(before, after, {"old", "new"}, ())
    assert found is not None
    assert found.within.difference == pytest.approx(0)
    assert found.traffic.difference == pytest.approx(0.63 - 0.9)
    assert (found.alone_before, found.alone_after) == (0, pytest.approx(0.3))


def test_a_mark_of_the_version_is_no_traffic() -> None:
    """All results now have another model: the sides would have nothing in common."""
    before, after = results({"m1": (90, 10)}), results({"m2": (60, 40)})
    found = split_difference(before, after, (), {"m1", "m2"})
    assert found is not None
    assert found.within.difference == pytest.approx(-0.3)
    assert found.within.fell


def test_one_cell_has_the_interval_of_two_means() -> None:
    """Left out one by one, the variance of a mean is s^2 / n."""
    found = split_difference(results({"a": (30, 10)}), results({"a": (20, 30)}), (), ())
    assert found is not None
    spread = math.sqrt(0.75 * 0.25 / 39 + 0.4 * 0.6 / 49)
    assert found.within.difference == pytest.approx(-0.35)
    half = 2.022690920036762 * spread  # Student's t of 39 degrees
    assert found.within.interval == pytest.approx((-0.35 - half, -0.35 + half))


def test_too_few_conversations_are_not_split() -> None:
    assert split_difference(results({"a": (4, 0)}), results({"a": (9, 9)}), (), ()) is None


@st.composite
def sides(draw: st.DrawFn) -> tuple[list[Result], list[Result]]:
    rng = random.Random(draw(st.integers(0, 10**6)))

    def side(share: float) -> list[Result]:
        return [
            Result(
                rng.randrange(40),
                rng.random() < 0.8,
                frozenset(name for name in "abcd" if rng.random() < share),
            )
            for _ in range(150)
        ]

    return side(draw(st.floats(0, 1))), side(draw(st.floats(0, 1)))


@given(sides())
def test_the_parts_add_up_to_the_difference(both: tuple[list[Result], list[Result]]) -> None:
    found = split_difference(*both, {"a", "b"}, {"c", "d"})
    if found is None:
        return
    rates = [sum(each.passed for each in side) / len(side) for side in both]
    parts = found.traffic, found.route, found.within
    assert sum(each.difference for each in parts) == pytest.approx(rates[1] - rates[0])
    assert all(each.interval[0] <= each.difference <= each.interval[1] for each in parts)


@given(sides())
def test_cells_share_out_all_results_by_their_traits(
    both: tuple[list[Result], list[Result]],
) -> None:
    cells = cells_of(Cell(before=both[0], after=both[1]), "abcd")
    assert sum(len(cell.before) for cell in cells) == len(both[0])
    assert sum(len(cell.after) for cell in cells) == len(both[1])
    kinds = [{each.traits for each in (*cell.before, *cell.after)} for cell in cells]
    every = {traits for kind in kinds for traits in kind}
    assert sum(map(len, kinds)) == len(every), "no two cells have the same traits"
    for cell in cells:
        if cell.is_shared and len(cells) > 1:
            assert min(len({r.conversation for r in s}) for s in (cell.before, cell.after)) >= 5


def named(before: list[Result], after: list[Result], traits: Collection[str]) -> list[str]:
    found = split_difference(before, after, traits, ())
    assert found is not None
    return [each.trait for each in trait_changes(found, traits) if each.is_named]


def test_the_trait_that_fell_is_named() -> None:
    before = results({"easy": (95, 5), "hard": (90, 10)})
    after = results({"easy": (95, 5), "hard": (50, 50)})
    assert named(before, after, {"easy", "hard"}) == ["hard"]


def test_a_trait_of_harder_questions_is_not_guilty() -> None:
    """The tool is called for refunds most of all, which fail more, and come more often now.

    So more results with the tool fail now; inside of refunds, and inside of the others, none do.
    """
    rng = random.Random(3)

    def side(refunds: float) -> list[Result]:
        made: list[Result] = []
        for at in range(600):
            is_refund = rng.random() < refunds
            has_tool = rng.random() < (0.9 if is_refund else 0.3)
            traits = {"refund" if is_refund else "other", "tool" if has_tool else "no tool"}
            made.append(Result(at, rng.random() < (0.5 if is_refund else 0.95), frozenset(traits)))
        return made

    assert named(side(0.2), side(0.5), {"refund", "other", "tool", "no tool"}) == []
