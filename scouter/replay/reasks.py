"""Asking again: rounds of one further attempt for each scenario whose failure is not settled."""

from collections.abc import Sequence
from typing import Final

from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.compare.attempts import attempts_of
from scouter.evaluate.compare.candidates import candidates, usual_wanted
from scouter.evaluate.outcome import Outcome, Reason
from scouter.evaluate.results.confirmation import Confirmation
from scouter.evaluate.results.counting import is_counted
from scouter.evaluate.results.pooling import joined, picked
from scouter.evaluate.results.task_result import EvalTaskResult

_UNANSWERED: Final[frozenset[Reason | None]] = frozenset(
    {Reason.PROVIDER, Reason.REFUSAL, Reason.ABSTAINED, Reason.DEPENDENCY}
)
"""Reasons for which a check errors through no fault of the agent."""


class ReasksInterrupted(KeyboardInterrupt):
    """Somebody pressed Ctrl-C while scenarios were asked again: the run itself is complete.

    Args:
        results: Those of the run, with what asking again came to so far.
    """

    def __init__(self, results: ScenarioEvalResults) -> None:
        super().__init__(results)
        self.results = results


class Reasks:
    """Further attempts of the scenarios that passed in the baseline and fail now.

    Args:
        baseline: The run to hold against.
        results: The run in question.
        wanted: Further attempts that all have to fail; by default as many as `usual_wanted` says.
    """

    def __init__(
        self, baseline: ScenarioEvalResults, results: ScenarioEvalResults, wanted: int | None
    ) -> None:
        self.wanted = usual_wanted(baseline) if wanted is None else wanted
        self._baseline = baseline
        self._results = results
        names = candidates(baseline, results) if self.wanted else ()
        self._asked = dict.fromkeys(names, 0)
        self._passed: set[str] = set()
        self._rounds: list[ScenarioEvalResults] = []
        self._is_paid = True

    @property
    def open(self) -> Sequence[str]:
        """Ids of the scenarios that the next round asks; none after the last one."""
        if len(self._rounds) == self.wanted or not self._is_paid:
            return ()
        return [name for name in self._asked if name not in self._passed]

    def add(self, found: ScenarioEvalResults, attempt: int) -> None:
        """Take what a round brought.

        Args:
            found: Its results.
            attempt: The number of its attempts.
        """
        self._rounds.append(picked(found, {attempt: len(self._rounds)}))
        tasks = {name: _tasks_of(found, name) for name in found.scenario_ids}
        for name, attempts in attempts_of(found, self._baseline).items():
            for each in attempts:
                if each.attempt == attempt:
                    self._note(name, _passed(each.passed, tasks[name]))
        self._is_paid = not any(
            task.reason is Reason.BUDGET for items in tasks.values() for task in items
        )

    def _note(self, name: str, passed: bool | None) -> None:
        if passed is not None:
            self._asked[name] += 1
        if passed:
            self._passed.add(name)

    def results(self) -> ScenarioEvalResults:
        """The run in question with what asking again came to so far."""
        if not self._asked:
            return self._results
        confirmations = tuple(
            Confirmation(
                scenario_id=name, asked=asked, passed=int(name in self._passed), wanted=self.wanted
            )
            for name, asked in self._asked.items()
        )
        reasked = (
            joined(self._rounds).model_copy(update={"runs": 1, "lost": ()})
            if self._rounds
            else None
        )
        return self._results.model_copy(update={"confirmations": confirmations, "reasked": reasked})


def _passed(passed: bool | None, tasks: Sequence[EvalTaskResult]) -> bool | None:
    """Tell whether an attempt passed; None if a judge that gave no answer could change that."""
    if passed:
        known = (is_counted(task) or task.reason is Reason.SAMPLED for task in tasks)
        return True if all(known) else None
    bad = {task.reason for task in tasks if task.outcome in {Outcome.FAILED, Outcome.ERRORED}}
    return None if bad and bad <= _UNANSWERED else passed


def _tasks_of(results: ScenarioEvalResults, name: str) -> list[EvalTaskResult]:
    """All task results of a scenario that was asked once."""
    own = [item.eval_results for item in results.scenario_results if item.scenario_id == name]
    rows = [row for found in own if found is not None for row in found]
    rows += [row for found in results.dataset_results.values() for row in found
             if row.scenario_id == name]  # fmt: skip
    return [task for row in rows for task in row.record.tasks]
