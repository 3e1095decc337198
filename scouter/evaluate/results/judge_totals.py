"""Usage of the judges of a whole run, in one line."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from pydantic import JsonValue

from scouter.evaluate.judge.usage import JudgeUsage, sum_of
from scouter.evaluate.outcome import Reason
from scouter.evaluate.results.run import RunResults


class JudgedTask(Protocol):
    """The part of a task's result that a sum of judges' usage reads."""

    @property
    def reason(self) -> Reason | None:
        """Reason why the task errored or was skipped; None if it did not."""
        ...

    @property
    def usage(self) -> JudgeUsage | None:
        """Calls, tokens and cost of the judge's answers."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeTotals:
    """Sums over the results of a run.

    Args:
        usage: Calls, cached answers, tokens and cost.
        over_budget: Tasks that were skipped as the budget left too little.
    """

    usage: JudgeUsage
    over_budget: int

    @property
    def text(self) -> str:
        """Sums in words: `judges: 3 calls, 7 cached, 120 tokens in, 30 out, $0.0012`."""
        used = self.usage
        noun = "call" if used.calls == 1 else "calls"
        parts = [f"{used.calls:,} {noun}", f"{used.cached:,} cached"]
        if used.input_tokens is not None:
            parts.append(f"{used.input_tokens:,} tokens in")
        if used.output_tokens is not None:
            parts.append(f"{used.output_tokens:,} out")
        if used.cost_usd is not None:
            parts.append(f"${used.cost_usd:,.4f}")
        if used.unpriced_calls:
            parts.append(f"cost of {used.unpriced_calls:,} not known")
        text = f"judges: {', '.join(parts)}"
        if self.over_budget:
            tasks = "task" if self.over_budget == 1 else "tasks"
            text += f"; {self.over_budget:,} {tasks} skipped, as the budget left too little"
        return text

    def to_json(self) -> dict[str, JsonValue]:
        """Write all figures as plain JSON."""
        return {**self.usage.to_json(), "over_budget": self.over_budget}


def totals_of(results: RunResults) -> JudgeTotals | None:
    """Add up what the judges of a replay took; None where no judge had anything to do.

    Cost: linear in the number of task results.
    """
    tasks: list[JudgedTask] = [
        task
        for rows in results.dataset_results.values()
        for aligned in rows.aligned_results
        for task in aligned.record.tasks
    ]
    tasks += [task for attempt in results.scenario_results for task in attempt.task_results]
    return judge_totals(tasks)


def judge_totals(tasks: Iterable[JudgedTask]) -> JudgeTotals | None:
    """Add up what judges took; None where no judge had anything to do.

    Args:
        tasks: Results of any tasks.
    """
    usages: list[JudgeUsage] = []
    over_budget = 0
    for task in tasks:
        over_budget += task.reason is Reason.BUDGET
        if task.usage is not None:
            usages.append(task.usage)
    if not usages and not over_budget:
        return None
    return JudgeTotals(usage=sum_of(usages), over_budget=over_budget)
