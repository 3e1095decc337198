"""Cause of a difference, in words."""

from collections.abc import Mapping

import pytest

from collector.comparing.traffic import split_text
from scouter.evaluate.statistics.mix import split_difference
from scouter.evaluate.statistics.strata import Result

Kinds = Mapping[str, tuple[int, int]]


def results(kinds: Kinds) -> list[Result]:
    """Results by kind: how many passed, and how many did not."""
    made = [
        (kind, passed)
        for kind, (good, bad) in kinds.items()
        for passed in [True] * good + [False] * bad
    ]
    return [
        Result(at, passed, frozenset({kind} if kind else ()))
        for at, (kind, passed) in enumerate(made)
    ]


def text(before: Kinds, after: Kinds, traits: set[str], route: set[str] | None = None) -> str:
    route = set() if route is None else route
    split = split_difference(results(before), results(after), traits - route, route)
    assert split is not None
    return split_text(split, traits, route)


EASY, HARD, TOOL = "tag kind=easy", "tag kind=hard", "tool pay"


@pytest.mark.parametrize(
    ("before", "after", "begin", "parts"),
    [
        (
            {EASY: (72, 8), HARD: (10, 10)}, {EASY: (36, 4), HARD: (30, 30)},
            "Records passed fell by 16.0 points, because other traffic came: traffic \u221216.0",
            "behaviour 0 points",
        ),
        (
            {EASY: (90, 10), HARD: (90, 10)}, {EASY: (60, 40), HARD: (60, 40)},
            "Records passed fell by 30.0 points, because the agent behaves otherwise with the same"
            " traffic: traffic 0 points",
            "behaviour \u221230.0 points (95 % ",
        ),
        (
            {EASY: (90, 10), HARD: (90, 10)}, {EASY: (89, 11), HARD: (90, 10)},
            "Records passed fell by 0.5 points, and chance may explain each part: traffic 0 points",
            "behaviour \u22120.5 points (95 % ",
        ),
        (
            {EASY: (10, 10), HARD: (64, 16)}, {EASY: (80, 0), HARD: (4, 16)},
            "Records passed rose by 10.0 points: traffic ",
            "behaviour ",
        ),
        (
            {EASY: (90, 10)}, {EASY: (63, 7), HARD: (0, 30)},
            "Records passed fell by 27.0 points, because other traffic came: traffic \u221227.0",
            "Traffic that only came now is 30 % of its records.",
        ),
    ],
)  # fmt: skip
def test_the_cause_is_said(before: Kinds, after: Kinds, begin: str, parts: str) -> None:
    found = text(before, after, {EASY, HARD})
    assert found.startswith(begin)
    assert parts in found


def test_records_without_tags_say_what_is_not_known() -> None:
    found = text({"": (90, 10)}, {"": (60, 40)}, set())
    assert "traffic 0" not in found
    assert "tools, models and lengths" not in found
    assert "the agent behaves otherwise" in found
    assert found.endswith("cannot be seen: it counts as behaviour.")


def test_another_way_is_no_behaviour_and_no_traffic() -> None:
    """The tool is called in 80 of 100 and then in 40; without it half as many pass."""
    found = text(
        {TOOL: (72, 8), "": (9, 11)}, {TOOL: (36, 4), "": (27, 33)}, {TOOL}, {TOOL}
    )  # fmt: skip
    assert "because the same traffic took other tools, models or lengths: tools" in found
    assert "behaviour 0 points" in found
