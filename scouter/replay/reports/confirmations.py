"""Scenarios that were asked again, and checks that did not end alike, for people and programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.decision import one_in
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.flips import Flips, Owner
from scouter.evaluate.results.reliability import WHOLE_SCENARIO, Reliability
from scouter.evaluate.results.run import Confirmation, JudgeTotals, totals_of
from scouter.replay.reports.texts import counted, percent


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


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaskedRow:
    """One scenario that was asked again."""

    confirmation: Confirmation
    outcome: Outcome
    """Failed where it never passed, passed where it did, skipped where that is not known."""
    text: str
    """Result of the further attempts, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasked:
    """All scenarios that were asked again, with the cost of it."""

    rows: Sequence[ReaskedRow]
    rounds: int
    """Further rounds of the whole suite; their attempts are in every rate."""
    in_rounds: int
    """Attempts of these rounds."""
    attempts: int
    """Further attempts at single scenarios; these are in no rate."""
    judges: JudgeTotals | None
    """Usage of the judges in these; None where no judge had anything to do."""

    @property
    def cost(self) -> str:
        """Attempts and judges in one line."""
        parts: list[str] = []
        if self.rounds:
            times = "once" if self.rounds == 1 else "twice"
            parts.append(f"the whole suite {times}, {counted(self.in_rounds, 'more attempt')}")
        if self.rows:
            scenarios = counted(len(self.rows), "scenario")
            parts.append(f"{counted(self.attempts, 'more attempt')} of {scenarios}")
        lead = f"asked again: {'; '.join(parts)}"
        return lead if self.judges is None else f"{lead}; {self.judges.text}"

    @property
    def texts(self) -> list[str]:
        """The cost, and a line for each scenario."""
        rows = [f"{row.confirmation.scenario_id!r}: {row.text}" for row in self.rows]
        return [self.cost, *rows]

    def to_json(self) -> dict[str, Any]:
        """Write all of it as plain JSON."""
        return {
            "rounds": self.rounds,
            "attempts": self.attempts,
            "judges": None if self.judges is None else self.judges.to_json(),
            "scenarios": [{**row.confirmation.model_dump(), "text": row.text} for row in self.rows],
        }


def reasked_of(results: ScenarioEvalResults) -> Reasked | None:
    """Sum up what asking again came to; None where nobody was asked again."""
    rounds = results.rounds - 1
    if not results.confirmations and not rounds:
        return None
    again = results.reasked
    judges = None if again is None else totals_of(again)
    return Reasked(
        rows=[_confirmed(each, again, judges) for each in results.confirmations],
        rounds=rounds,
        in_rounds=len(results.scenarios) * results.repeats * rounds // results.rounds,
        attempts=0 if again is None else len(again.scenario_results) + len(again.conversations),
        judges=judges,
    )


def _confirmed(
    found: Confirmation, again: ScenarioEvalResults | None, judges: JudgeTotals | None
) -> ReaskedRow:
    times, odds = counted(found.asked, "time"), one_in(found.chance)
    if found.passed:
        outcome, text = Outcome.PASSED, f"asked again {times} and passed: not broken"
    elif found.is_broken:
        outcome = Outcome.FAILED
        text = (
            f"asked again {times} and never passed: broken; a scenario that did not change fails "
            f"{found.failed} times in a row with a chance of {odds}"
        )
    elif found.is_settled:
        outcome = Outcome.FAILED
        text = (
            f"asked again {times} and never passed; not called broken, as an unchanged scenario "
            f"fails {found.failed} times in a row with a chance of {odds}"
        )
    else:
        outcome = Outcome.SKIPPED
        why = "the asking was interrupted, or a check gave no result"
        if judges is not None and judges.over_budget:
            why = "the budget left too little to judge more"
        text = f"asked again {times}: not confirmed, as {why}"
    errors = [
        item.error_line
        for item in (() if again is None else again.scenario_results)
        if item.scenario_id == found.scenario_id and item.error
    ]
    if errors:
        text += f"; the agent raised {counted(len(errors), 'time')}: {errors[-1]}"
    return ReaskedRow(confirmation=found, outcome=outcome, text=text)
