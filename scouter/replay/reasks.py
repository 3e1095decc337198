"""Rounds of a sequential run, and asking again: the suite where it fell, then single scenarios."""

from collections.abc import Sequence

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.asking import Ask, Trial, trial_of
from scouter.evaluate.compare.comparable import comparable
from scouter.evaluate.compare.gate_counts import task_rows
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.pooling import joined, picked
from scouter.evaluate.results.run import Confirmation


class ReasksInterrupted(KeyboardInterrupt):
    """Somebody pressed Ctrl-C while scenarios were asked again: the run itself is complete.

    Args:
        results: Those of the run, with what asking again came to so far.
    """

    def __init__(self, results: ScenarioEvalResults) -> None:
        super().__init__(results)
        self.results = results


class Reasks:
    """Further attempts of a run, as the rule of the release check asks for them.

    Args:
        baseline: The run to compare with.
        results: The run in question; of a sequential one its first round.
        confirm: Most further attempts at one scenario; None for no bound of its own, 0 for none.
        planned: Most first attempts at each scenario in a sequential run, else 0.
    """

    def __init__(
        self,
        baseline: ScenarioEvalResults,
        results: ScenarioEvalResults,
        confirm: int | None,
        planned: int = 0,
    ) -> None:
        self.tries = planned or results.repeats
        """Attempts at each scenario when the suite is asked again."""
        self._confirm = confirm
        self._results = results.model_copy(update={"planned": planned})
        self.compare_with(baseline)
        self._alone: list[ScenarioEvalResults] = []
        self._is_stuck = False
        """True if the last round gave nothing, so that another one would cost and not help."""
        self._trial = self._made()
        self._next = self._following()

    def compare_with(self, baseline: ScenarioEvalResults) -> None:
        """Take another baseline: that of a version that runs beside grows with each round."""
        self._baseline, self._common = baseline, comparable(baseline, self._results)

    @property
    def ask(self) -> Ask:
        """The next round."""
        return Ask.NOTHING if self._is_stuck else self._next

    @property
    def open(self) -> Sequence[str]:
        """Ids of the scenarios that the next round asks."""
        match self.ask:
            case Ask.ROUND | Ask.SUITE:
                return self._results.scenario_ids
            case Ask.SCENARIOS:
                return self._trial.open
            case Ask.NOTHING:
                return ()

    def add(self, found: ScenarioEvalResults, attempts: Sequence[int]) -> None:
        """Take what a round brought.

        Args:
            found: Its results.
            attempts: The numbers of its attempts.
        """
        before = self._trial
        if self.ask is not Ask.SCENARIOS:
            earlier = self._results
            part = picked(
                found, {number: earlier.repeats + at for at, number in enumerate(attempts)}
            )
            retained = {
                "rounds": earlier.rounds + (self.ask is Ask.SUITE),
                "planned": earlier.planned,
                "runs": 1,
                "lost": found.lost,
            }
            self._results = joined([earlier, part]).model_copy(update=retained)
        else:
            self._alone.append(picked(found, {attempts[0]: len(self._alone)}))
        self._trial = self._made()
        self._next = self._following()
        is_paid = not any(row.task.reason is Reason.BUDGET for row in task_rows(found))
        self._is_stuck = not is_paid or self._trial.made == before.made

    def results(self) -> ScenarioEvalResults:
        """The run in question with what asking again came to so far."""
        trial, found = self._trial, self._trial.broken
        is_open = self._next is not Ask.NOTHING
        results = self._results.model_copy(update={"is_unfinished": is_open})
        names = dict.fromkeys([*trial.single, *(trial.open if is_open else ())])
        if not names:
            return results
        reasked = (
            joined(self._alone).model_copy(update={"runs": 1, "lost": ()}) if self._alone else None
        )
        confirmations = tuple(
            Confirmation(
                scenario_id=name,
                asked=len(row),
                passed=sum(row),
                failed=trial.failures(name) - sum(row),
                chance=found.chances.get(name, 1.0),
                is_broken=name in found.names,
                is_settled=not (is_open and name in trial.open),
            )
            for name in names
            for row in (trial.single.get(name, ()),)
        )
        return results.model_copy(update={"confirmations": confirmations, "reasked": reasked})

    def _made(self) -> Trial:
        results = self._results
        if self._alone:
            results = results.model_copy(update={"reasked": joined(self._alone)})
        common = self._common
        return trial_of(common.baseline, common.of(results), self._confirm)

    def _following(self) -> Ask:
        """What the trial asks for; where it would let a sequential run go, a task may object."""
        trial = self._trial
        if not trial.left or trial.next is Ask.ROUND or trial.single or trial.exit_code == 1:
            return trial.next
        rates = self._results.compare_to(self._baseline).rates
        is_clear = all(row.is_cleared for row in rates if not row.is_whole)
        return trial.next if is_clear else Ask.ROUND
