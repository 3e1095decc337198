"""The checks that did not end the same way in every attempt, for people."""

from collections.abc import Sequence
from dataclasses import dataclass

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.results.reliability import WHOLE_SCENARIO, Reliability
from scouter.replay.reports.texts import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyRow:
    """One check of one scenario."""

    scenario_id: str
    task: str
    passed: str
    cells: tuple[str, ...]
    """Per column of the table its rate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyTable:
    """The shakiest checks first."""

    columns: tuple[str, ...]
    """`pass@k` and `pass^k` for a few k."""
    rows: tuple[FlakyRow, ...]
    left_out: int
    """Flaky checks that are not among the rows."""
    steady: int
    """Checks that passed every time or never."""


def flaky_table(results: ScenarioEvalResults, most: int) -> FlakyTable:
    """List the flaky checks of a run; there are none without repeats.

    Args:
        results: The run.
        most: Rows at most.
    """
    if results.repeats < 2:
        return FlakyTable(columns=(), rows=(), left_out=0, steady=0)
    found = results.reliability()
    flaky = sorted((row for row in found if row.flaky), key=lambda row: -row.flakiness)
    sizes = sorted({1, min(2, results.repeats), results.repeats})
    return FlakyTable(
        columns=(*(f"pass@{k}" for k in sizes), *(f"pass^{k}" for k in sizes if k > 1)),
        rows=tuple(_row(row, sizes) for row in flaky[:most]),
        left_out=max(0, len(flaky) - most),
        steady=len(found) - len(flaky),
    )


def _row(row: Reliability, sizes: Sequence[int]) -> FlakyRow:
    task = "(all of the scenario's tasks)" if row.task_id == WHOLE_SCENARIO else row.task_id
    return FlakyRow(
        scenario_id=row.scenario_id,
        task=f"{row.alias} · {task}" if row.alias else task,
        passed=f"{row.passed} of {row.attempts}",
        cells=(
            *(percent(row.pass_at.get(k)) for k in sizes),
            *(percent(row.pass_hat.get(k)) for k in sizes if k > 1),
        ),
    )
