"""The scenarios that were asked again, for people and programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.confirmation import Confirmation
from scouter.evaluate.results.judge_totals import JudgeTotals, totals_of
from scouter.replay.reports.texts import counted


@dataclass(frozen=True, slots=True, kw_only=True)
class ReaskedRow:
    """One scenario that was asked again."""

    confirmation: Confirmation
    outcome: Outcome
    """Failed where it is broken, passed where it is cleared, skipped where that is not known."""
    text: str
    """Result of the further attempts, in words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reasked:
    """All scenarios that were asked again, with the cost of it."""

    rows: Sequence[ReaskedRow]
    attempts: int
    """Further attempts that were made."""
    judges: JudgeTotals | None
    """Usage of the judges in these attempts; None where no judge had anything to do."""

    @property
    def cost(self) -> str:
        """Attempts and judges in one line."""
        lead = f"asked again: {counted(self.attempts, 'more attempt')} of {self._scenarios}"
        return lead if self.judges is None else f"{lead}; {self.judges.text}"

    @property
    def texts(self) -> list[str]:
        """The cost, and a line for each scenario."""
        rows = [f"{row.confirmation.scenario_id!r}: {row.text}" for row in self.rows]
        return [self.cost, *rows]

    @property
    def _scenarios(self) -> str:
        return counted(len(self.rows), "scenario")

    def to_json(self) -> dict[str, Any]:
        """Write all of it as plain JSON."""
        return {
            "attempts": self.attempts,
            "judges": None if self.judges is None else self.judges.to_json(),
            "scenarios": [
                {
                    **row.confirmation.model_dump(),
                    "is_broken": row.confirmation.is_broken,
                    "text": row.text,
                }
                for row in self.rows
            ],
        }


def reasked_of(results: ScenarioEvalResults) -> Reasked | None:
    """Sum up what asking again came to; None where nobody was asked again."""
    if not results.confirmations:
        return None
    again = results.reasked
    judges = None if again is None else totals_of(again)
    return Reasked(
        rows=[_row(each, again, judges) for each in results.confirmations],
        attempts=0 if again is None else len(again.scenario_results) + len(again.conversations),
        judges=judges,
    )


def _row(
    found: Confirmation, again: ScenarioEvalResults | None, judges: JudgeTotals | None
) -> ReaskedRow:
    times = counted(found.asked, "time")
    if found.passed:
        outcome, text = Outcome.PASSED, f"asked again {times} and passed: cleared"
    elif found.is_broken:
        outcome, text = Outcome.FAILED, f"asked again {times} and never passed: broken"
    else:
        outcome = Outcome.SKIPPED
        why = "the asking was interrupted, or a check gave no result"
        if judges is not None and judges.over_budget:
            why = "the budget left too little to judge more"
        text = f"asked again {found.asked} of {found.wanted} times: not confirmed, as {why}"
    errors = [
        item.error_line
        for item in (() if again is None else again.scenario_results)
        if item.scenario_id == found.scenario_id and item.error
    ]
    if errors:
        text += f"; the agent raised {counted(len(errors), 'time')}: {errors[-1]}"
    return ReaskedRow(confirmation=found, outcome=outcome, text=text)
