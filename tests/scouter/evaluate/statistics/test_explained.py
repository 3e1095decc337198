"""Cause of a difference, in words."""

import math
from collections.abc import Mapping
from statistics import fmean

import pytest

from scouter.evaluate.statistics.explained import explain_results, split_text
from scouter.evaluate.statistics.mix import split_difference
from scouter.evaluate.statistics.strata import Result
from tests.support.tau_bench import Run, find_runs, load_runs

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


def test_a_tool_of_hard_questions_is_not_guilty_of_more_of_them() -> None:
    """Recorded runs of one agent: before mostly of easy questions, since mostly of hard ones.

    Hard ones need three actions or more, and call the tools more. By its counts alone a tool that
    all call fell, with a chance of less than 5 %; among questions that are alike nothing did.
    """
    runs = load_runs(find_runs())

    def result(run: Run) -> Result:
        needs = "3 or more" if is_hard(run) else "fewer"
        tools = {f"tool {call.name}" for call in run.calls()}
        return Result(run.record_id, run.reward == 1, frozenset({f"tag actions={needs}", *tools}))

    def is_hard(run: Run) -> bool:
        return len(run.expected_actions) >= 3

    before = [result(run) for run in runs if run.trial < (1 if is_hard(run) else 3)]
    after = [result(run) for run in runs if run.trial >= (1 if is_hard(run) else 3)]
    looked = [
        [each.passed for each in side if "tool get_reservation_details" in each.traits]
        for side in (before, after)
    ]
    (old, new), share = map(fmean, looked), fmean([*looked[0], *looked[1]])
    error = math.sqrt(share * (1 - share) * sum(1 / len(side) for side in looked))
    assert (new - old) / error < -1.645
    found = explain_results(before, after, is_open=False)
    assert found is not None
    assert found.is_traffic_alone
    assert found.origin.guilty == []
    assert found.sentence.startswith(
        "Records passed fell by 11.4 points, because other traffic came: "
    )
