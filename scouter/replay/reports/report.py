"""The common base of all reports."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property

from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.gate_checks import GateCheck
from scouter.evaluate.results.flips import Flips, flips, flips_text
from scouter.evaluate.results.run import JudgeTotals, totals_of
from scouter.replay.reports.confirmations import Reasked, reasked_of
from scouter.replay.reports.decision import Decision, Policy, decide
from scouter.replay.reports.examples import Example, examples
from scouter.replay.reports.view import View, make_view


@dataclass(frozen=True)
class Report:
    """One release check: the run, its comparison and gates, and the decision.

    Args:
        results: The run.
        comparison: Comparison with the baseline, if there is one.
        gate_checks: Each gate, met or not.
        policy: Rules that may stop a release.
        title: The first words of the report.
        saved: The file that the run was saved to; empty for none.
    """

    results: ScenarioEvalResults
    comparison: ScenarioComparisonResults | None = None
    gate_checks: Sequence[GateCheck] = ()
    policy: Policy = field(default_factory=Policy)
    title: str = "Scouter release check"
    saved: str = ""

    @cached_property
    def decision(self) -> Decision:
        """Decision of the check, with its reasons and its exit code."""
        return decide(self.results, self.comparison, self.gate_checks, self.policy, self.saved)

    @property
    def changes(self) -> Sequence[str]:
        """Checks that are not what they were in the baseline, with what became of each."""
        found = () if self.comparison is None else self.comparison.changes
        return [each.text for each in found]

    @cached_property
    def judges(self) -> JudgeTotals | None:
        """Usage of the judges; None where no task asked one."""
        return totals_of(self.results)

    @cached_property
    def examples(self) -> list[Example]:
        """Everything that did not pass, once each, most telling first."""
        return examples(self.view, self.comparison)

    @property
    def failures_title(self) -> str:
        """Heading above the examples."""
        return "What broke" if self.decision.is_stopped else "What did not pass"

    def why(self, shown: Sequence[Example]) -> list[str]:
        """Name the reasons of the decision that none of these examples tells."""
        told = {example.why for example in shown}
        return [reason for reason in self.decision.reasons if reason not in told]

    @cached_property
    def notes(self) -> list[str]:
        """What a reader should know beside the decision, one line each."""
        again = [] if self.reasked is None else [self.reasked.cost]
        judges = [] if self.judges is None else [self.judges.text]
        flipped = [text] if (text := flips_text(self.flips)) else []
        return [*self.decision.notes, *again, *flipped, *judges]

    @cached_property
    def flips(self) -> Sequence[Flips]:
        """Checks that passed in an attempt and not in another one, with whose each flip is."""
        return flips(self.results) if self.comparison is None else self.comparison.check_flips

    @cached_property
    def reasked(self) -> Reasked | None:
        """Scenarios that were asked again, with the results; None where none was."""
        return reasked_of(self.results)

    @cached_property
    def view(self) -> View:
        """The results as a reader sees them, read once for all reports."""
        return make_view(self.results, self.comparison)
