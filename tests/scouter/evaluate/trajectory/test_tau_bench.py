"""The metrics on 200 recorded runs, against figures that were counted without this package.

From spans, live and offline, `tests/integration/test_tau_trajectories` holds the same figures.

The figures: multisets of name and arguments, compared as JSON, by twenty lines of Python.
"""

from collections.abc import Sequence
from statistics import fmean

from scouter.evaluate.trajectory.comparison import TrajectoryMetric, compare_trajectories
from tests.support.tau_bench import Run, find_runs, load_runs


def _reference(run: Run) -> list[dict[str, object]]:
    return [
        {"tool_name": action["name"], "tool_input": action["kwargs"]}
        for action in run.expected_actions
    ]


def _from_messages(runs: Sequence[Run]) -> list[object]:
    return [
        [{"tool_name": call.name, "tool_input": call.arguments} for call in run.calls()]
        for run in runs
    ]


def test_the_counted_figures() -> None:
    runs = load_runs(find_runs())
    found = [
        compare_trajectories(predicted, _reference(run))
        for predicted, run in zip(_from_messages(runs), runs, strict=True)
    ]

    def scores(metric: TrajectoryMetric) -> list[float]:
        return [each.score(metric) or 0.0 for each in found]

    assert len(found) == 200
    assert sum(scores(TrajectoryMetric.EXACT_MATCH)) == 12
    assert sum(scores(TrajectoryMetric.IN_ORDER_MATCH)) == 76
    assert sum(scores(TrajectoryMetric.ANY_ORDER_MATCH)) == 76
    assert round(fmean(scores(TrajectoryMetric.RECALL)), 4) == 0.5700
    assert round(fmean(scores(TrajectoryMetric.PRECISION)), 4) == 0.3345
