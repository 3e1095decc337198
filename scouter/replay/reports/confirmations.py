"""The scenarios that were asked again, for people and programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.decision import one_in
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results.run import Confirmation, JudgeTotals, totals_of
from scouter.replay.reports.texts import counted


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
        rows=[_row(each, again, judges) for each in results.confirmations],
        rounds=rounds,
        in_rounds=len(results.scenarios) * results.repeats * rounds // results.rounds,
        attempts=0 if again is None else len(again.scenario_results) + len(again.conversations),
        judges=judges,
    )


def _row(
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
