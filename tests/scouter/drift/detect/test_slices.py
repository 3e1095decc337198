"""The slice that explains a fall, by hand."""

import math

import pytest

from scouter.drift.detect.baseline import of_passes
from scouter.drift.detect.detector import Design
from scouter.drift.detect.slices import Slice, culprits


def part(name: str, before: tuple[int, int], since: tuple[int, int]) -> Slice:
    return Slice(
        name=name, passed_before=before[0], failed_before=before[1], passed=since[0],
        failed=since[1],
    )  # fmt: skip


def test_the_guilty_tool_comes_before_what_it_drags_along() -> None:
    """Of 400 results since the fall, 100 call `search` and pass 30 % of the time, not 90 %."""
    slices = [
        part("tag tier=free", (810, 90), (230, 70)),
        part("tool search", (270, 30), (30, 70)),
        part("tool book", (450, 50), (180, 20)),
        part("tag new=1", (0, 0), (0, 50)),
    ]
    first, second = culprits(slices, 400)
    assert (first.slice.name, second.slice.name) == ("tool search", "tag tier=free")
    assert (first.rate_before, first.rate) == (0.9, 0.3)
    assert first.weight == pytest.approx(0.6 * 100 / 400)
    assert second.weight == pytest.approx((0.9 - 230 / 300) * 300 / 400)


def test_the_evidence_is_the_mixture_of_the_counts() -> None:
    each = part("s", (90, 10), (5, 15))
    design = Design(healthy=of_passes(90, 100).lower)
    expected = sum(
        math.prod(design.factors(1.0)[k] for _ in range(5))
        * math.prod(design.factors(0.0)[k] for _ in range(15))
        for k in range(8)
    ) / 8  # fmt: skip
    (found,) = culprits([each], 20)
    assert found.evidence == pytest.approx(expected)


def test_nothing_is_named_where_nothing_fell() -> None:
    assert culprits([part("a", (90, 10), (45, 5)), part("b", (0, 90), (0, 9))], 59) == []
    assert culprits([], 0) == []


def test_evidence_of_any_size_is_a_number() -> None:
    (found,) = culprits([part("a", (99_000, 1_000), (0, 90_000))], 90_000)
    assert math.isfinite(found.evidence)


def test_a_slice_that_is_new_is_held_against_all_before() -> None:
    """A tool that came with the fall: 40 of 80 calls fail where 5 % did."""
    new = Slice(name="tool new", passed_before=0, failed_before=0, passed=40, failed=40)
    old = Slice(name="tool old", passed_before=950, failed_before=50, passed=95, failed=5)
    whole = Slice(name="", passed_before=950, failed_before=50, passed=135, failed=45)
    assert culprits([new, old], 180) == []
    (found,) = culprits([new, old], 180, whole=whole)
    assert (found.slice, found.is_new, found.rate_before) == (new, True, 0.95)
    assert found.weight == pytest.approx((0.95 - 0.5) * 80 / 180)
    few = Slice(name="", passed_before=28, failed_before=1, passed=40, failed=40)
    assert culprits([new], 80, whole=few) == []


def test_what_all_records_have_comes_behind_what_sets_the_bad_ones_apart() -> None:
    """The model of all, and a tag that all since have, fell by more in sum than the tool."""
    whole = part("", (900, 100), (120, 80))
    slices = [
        part("model m", (900, 100), (120, 80)),
        part("tag week=2", (450, 50), (120, 80)),
        part("tool search", (450, 50), (30, 70)),
    ]
    found = culprits(slices, 200, whole=whole)
    assert [(each.slice.name, each.stands_out) for each in found] == [
        ("tool search", True), ("model m", False), ("tag week=2", False),
    ]  # fmt: skip
    assert found[0].weight > 0.5 * found[1].weight


def test_nothing_stands_out_of_what_fell_alike() -> None:
    """Both halves fell from 90 % to 50 %, and so did all."""
    whole = part("", (900, 100), (100, 100))
    halves = [part("tag half=a", (450, 50), (51, 50)), part("tag half=b", (450, 50), (49, 50))]
    found = culprits([*halves, part("tag all=x", (900, 100), (100, 100))], 200, whole=whole)
    assert found[0].slice.name == "tag all=x"
    assert not any(each.stands_out for each in found)


def test_a_model_that_is_new_to_all_records_stands_out() -> None:
    whole = part("", (900, 100), (100, 100))
    (found,) = culprits([part("model new", (0, 0), (100, 100))], 200, whole=whole)
    assert (found.is_new, found.stands_out) == (True, True)
