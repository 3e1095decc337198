"""The checks that did not end the same way in every attempt, for people."""

from collections.abc import Sequence
from dataclasses import dataclass

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.results.flips import Flips, Owner
from scouter.evaluate.results.reliability import WHOLE_SCENARIO, Reliability
from scouter.replay.reports.texts import percent


@dataclass(frozen=True, slots=True, kw_only=True)
class FlakyRow:
    """One check of one scenario."""

    scenario_id: str
    task: str
    passed: str
    whose: str
    """Whose the flips are."""
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


def flaky_table(results: ScenarioEvalResults, owners: Sequence[Flips], most: int) -> FlakyTable:
    """List the flaky checks of a run; there are none without repeats.

    Args:
        results: The run.
        owners: Whose the flips are.
        most: Rows at most.
    """
    if results.repeats < 2:
        return FlakyTable(columns=(), rows=(), left_out=0, steady=0)
    found = results.reliability()
    flaky = sorted((row for row in found if row.flaky), key=lambda row: -row.flakiness)
    sizes = sorted({1, min(2, results.repeats), results.repeats})
    return FlakyTable(
        columns=(*(f"pass@{k}" for k in sizes), *(f"pass^{k}" for k in sizes if k > 1)),
        rows=tuple(_row(row, sizes, _whose(row, owners)) for row in flaky[:most]),
        left_out=max(0, len(flaky) - most),
        steady=len(found) - len(flaky),
    )


def _whose(row: Reliability, owners: Sequence[Flips]) -> str:
    """Say whose the flips of a check are; of a scenario as a whole, those of all its checks."""
    found = [
        each.text
        for each in owners
        if each.scenario_id == row.scenario_id
        and (row.task_id, row.alias) in {(WHOLE_SCENARIO, None), (each.task_id, each.alias)}
    ]
    return "; ".join(dict.fromkeys(found)) or str(Owner.UNKNOWN)


def _row(row: Reliability, sizes: Sequence[int], whose: str) -> FlakyRow:
    task = "(all of the scenario's tasks)" if row.task_id == WHOLE_SCENARIO else row.task_id
    return FlakyRow(
        scenario_id=row.scenario_id,
        task=f"{row.alias} · {task}" if row.alias else task,
        passed=f"{row.passed} of {row.attempts}",
        whose=whose,
        cells=(
            *(percent(row.pass_at.get(k)) for k in sizes),
            *(percent(row.pass_hat.get(k)) for k in sizes if k > 1),
        ),
    )
