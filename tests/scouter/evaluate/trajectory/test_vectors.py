"""The six metrics against what Vertex's live service, its client and ADK answered."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from scouter.errors import DataError
from scouter.evaluate.trajectory.comparison import (
    EmptyTrajectoryError,
    trajectory_any_order_match,
    trajectory_exact_match,
    trajectory_in_order_match,
    trajectory_precision,
    trajectory_recall,
    trajectory_single_tool_use,
)
from scouter.evaluate.trajectory.rules import Compat
from tests.support.vectors import load_vectors, print_counts

METRICS: Final[Mapping[str, Callable[..., float]]] = {
    "exact": trajectory_exact_match,
    "in_order": trajectory_in_order_match,
    "any_order": trajectory_any_order_match,
    "precision": trajectory_precision,
    "recall": trajectory_recall,
}
_ADK: Final = {"EXACT": "exact", "IN_ORDER": "in_order", "ANY_ORDER": "any_order"}


def _trajectories() -> list[dict[str, Any]]:
    return [each for each in load_vectors("trajectory.json") if each["kind"] == "trajectory"]


def _score(case: Mapping[str, Any], metric: str, compat: Compat = "sound") -> float | None:
    """A metric of a vector; None where it is refused."""
    try:
        if metric == "single_tool_use":
            tool = case["single_tool_name"]
            return trajectory_single_tool_use(case["predicted"], tool, compat=compat)
        return METRICS[metric](case["predicted"], case["reference"], compat=compat)
    except DataError:
        return None


@pytest.mark.parametrize("compat", ["sound", "vertex"])
def test_what_the_live_service_answered(compat: Compat) -> None:
    cases = load_vectors("vertex_live.json")["cases"]
    for case in cases:
        found = {metric: _score(case, metric, compat) for metric in case["vertex_live"]}
        assert found == pytest.approx(case["vertex_live"], abs=1e-6), case["name"]
    scores = [metric for case in cases for metric in case["vertex_live"]]
    print_counts(f"vertex_live, {compat}, {len(cases)} cases", scores)
    assert scores


def test_the_documented_values() -> None:
    cases = _trajectories()
    for case in cases:
        for metric, expected in case["expected"].items():
            assert _score(case, metric) == pytest.approx(expected), (case["name"], metric)
    print_counts("trajectory", (case["group"] for case in cases))
    assert cases


def test_what_the_client_sends_compared_as_text() -> None:
    """The profile `vertex`: an empty trajectory and a call without `tool_input` are refused."""
    cases = _trajectories()
    for case in cases:
        for metric, expected in case["vertex_evaltask_rawwire"].items():
            assert _score(case, metric, "vertex") == pytest.approx(expected, abs=1e-6), case["name"]
    print_counts("trajectory, client's text", (case["group"] for case in cases))


def test_the_matches_of_adk() -> None:
    """ADK's three matches, with and without arguments, where the documents leave nothing open.

    ADK takes objects only, and Python's equality, for which True is 1.
    """
    counted: list[str] = []
    for case in _trajectories():
        calls = [*case["predicted"], *case["reference"]]
        if case["ambiguous"] or not all(isinstance(call.get("tool_input"), dict) for call in calls):
            continue
        for name, expected in case["adk"].items():
            match, _, ignoring = name.partition("/")
            mode = "ignore" if ignoring else "exact"
            found = METRICS[_ADK[match]](case["predicted"], case["reference"], arguments=mode)
            assert found == expected, (case["name"], name)
            counted.append(name)
    print_counts("trajectory, ADK", counted)
    assert counted


def test_an_empty_trajectory_has_no_score_for_vertex() -> None:
    with pytest.raises(EmptyTrajectoryError, match="predicted_trajectory is empty"):
        trajectory_exact_match("[]", '[{"tool_name": "a", "tool_input": {}}]', compat="vertex")
