"""Results as tables for people, on whatever standard output is at the moment."""

import io
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Final

from rich.box import SIMPLE_HEAD
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from scouter.evaluate.comparison_results import (
    ComparisonResults,
    ScenarioComparisonResults,
    TaskAggregateStats,
)
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.results import EvalResults
from scouter.evaluate.scenario_results import ScenarioEvalResults, is_counted

QUERY_LETTERS: Final = 40

_STYLES: Final = {
    Outcome.PASSED: "green",
    Outcome.FAILED: "red",
    Outcome.ERRORED: "bold red",
    Outcome.SKIPPED: "dim",
}


def print_scenario_results(results: ScenarioEvalResults, *, show_workflow: bool = False) -> None:
    """Print metrics, sub-agents and scenarios; with `show_workflow` every record, too."""
    tables = [_metrics(results), _aliases(results)]
    if results.scenario_results:
        tables.append(_scenarios(results))
    if show_workflow:
        tables += [_dataset(alias, found) for alias, found in results.dataset_results.items()]
    emit(*tables)


def print_comparison(comparison: ComparisonResults) -> None:
    """Print a comparison of two evaluations: the tasks, then the verdict and why."""
    emit(
        _task_table("Tasks", {"": comparison.task_aggregate_stats}),
        _verdict(comparison.regressed, comparison.reasons),
    )


def print_missing_tasks(comparison: ComparisonResults) -> None:
    """Print the tasks that only one of the two runs judged."""
    table = _table("Missing tasks", "Task", "Record", "Present in")
    for task in comparison.missing_tasks:
        table.add_row(Text(task.task_id), Text(task.record_id), task.present_in)
    emit(table)


def print_scenario_comparison(comparison: ScenarioComparisonResults) -> None:
    """Print a comparison of two replays: aliases, tasks, scenarios, the verdict and why."""
    stats = dict(comparison.task_stats)
    if comparison.scenario_task_stats:
        stats["(scenarios)"] = comparison.scenario_task_stats
    parts: list[RenderableType] = [_alias_deltas(comparison), _task_table("Tasks", stats)]
    if comparison.scenario_deltas:
        parts.append(_scenario_deltas(comparison))
    notes = [Text(f"Note: {note}", style="yellow") for note in comparison.notes]
    emit(*parts, _verdict(comparison.regressed, comparison.reasons), *notes)


def emit(*parts: RenderableType) -> None:
    """Print to the standard output of this moment, so that it can be redirected.

    On a terminal tables fit its width and long ids wrap; elsewhere lines are as long as they
    need to be, so that an id can be searched for. Letters that the output's encoding lacks are
    written as escapes.
    """
    stream = sys.stdout
    console = Console(file=stream, highlight=False)
    if not console.is_terminal:
        widest = max(_width(part) for part in parts)
        console = Console(file=stream, highlight=False, width=max(80, widest))
    with console.capture() as capture:
        console.print(Group(*parts))
    text = capture.get()
    encoding = getattr(stream, "encoding", None) or "utf-8"
    stream.write(text.encode(encoding, "backslashreplace").decode(encoding))


def _width(part: RenderableType) -> int:
    wide = Console(file=io.StringIO(), width=100_000)
    return wide.measure(part).maximum


def percent(passed: int, total: int) -> Text:
    """Write a rate as `75.0% (3/4)`, green if all passed."""
    if not total:
        return Text("-", style="dim")
    style = "green" if passed == total else "red" if passed == 0 else "yellow"
    return Text(f"{passed / total:.1%} ({passed}/{total})", style=style)


def _share(rate: float) -> str:
    return f"{rate:.1%}"


def _interval(interval: Interval) -> str:
    return f"{interval[0]:.0%} - {interval[1]:.0%}"


def _points(difference: float) -> Text:
    """A difference of two rates, in percentage points."""
    style = "red" if difference < 0 else "green" if difference > 0 else "dim"
    return Text(f"{difference * 100:+.1f} pp" if difference else "0.0 pp", style=style)


def _table(title: str, *columns: str) -> Table:
    """A table whose first column is a name and whose other columns are figures."""
    table = Table(title=Text(title), title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    for column in columns:
        table.add_column(column, overflow="fold", justify="left")
    return table


def _outcome(outcome: Outcome) -> Text:
    return Text(outcome.value, style=_STYLES[outcome])


def _metrics(results: ScenarioEvalResults) -> Table:
    metrics = results.metrics
    table = _table("Aggregate Metrics", "Metric", "Value")
    table.add_row("Overall pass rate", _share(metrics.overall_pass_rate))
    table.add_row("Workflow pass rate", _share(metrics.workflow_pass_rate))
    table.add_row("Scenario pass rate", percent(metrics.passed_scenarios, metrics.total_scenarios))
    table.add_row("Scenarios run", str(len(results.scenarios)))
    table.add_row("Scenarios with tasks", str(metrics.total_scenarios))
    return table


def _counts(results: EvalResults) -> Counter[Outcome]:
    return Counter(task.outcome for record in results.records for task in record.tasks)


def _aliases(results: ScenarioEvalResults) -> Table:
    table = _table(
        "Sub-Agent Pass Rates", "Alias", "Records", "Tasks passed", "95 % interval", "Failed",
        "Errored", "Skipped",
    )  # fmt: skip
    for alias, found in results.dataset_results.items():
        counts = _counts(found)
        judged = sum(is_counted(task) for record in found.records for task in record.tasks)
        table.add_row(
            Text(alias),
            str(len(found.aligned_results)),
            percent(counts[Outcome.PASSED], judged),
            _interval(wilson(counts[Outcome.PASSED], judged)),
            *(str(counts[o]) for o in (Outcome.FAILED, Outcome.ERRORED, Outcome.SKIPPED)),
        )
    return table


def _scenarios(results: ScenarioEvalResults) -> Table:
    table = _table(
        "Scenario Results", "Scenario ID", "Initial Query", "Tasks", "Passed", "Failed",
        "Pass Rate", "Status", "Not passed",
    )  # fmt: skip
    for result in results.scenario_results:
        passed = sum(task.passed for task in result.task_results)
        total = len(result.task_results)
        bad = [task.task_id for task in result.task_results if not task.passed]
        table.add_row(
            Text(result.scenario_id),
            Text(_shorten(result.initial_query)),
            str(total),
            str(passed),
            str(total - passed),
            _share(result.pass_rate),
            _outcome(result.outcome),
            Text(", ".join(bad)),
        )
    return table


def _dataset(alias: str, results: EvalResults) -> Table:
    table = _table(
        f"Dataset: {alias}", "Scenario", "Record", "Tasks passed", "Status", "Not passed"
    )
    for row in results.aligned_results:
        tasks = row.eval_set.records
        judged = [task for task in tasks if is_counted(task)]
        bad = [f"{task.task_id}: {task.message}" for task in tasks if not task.passed]
        table.add_row(
            Text(row.scenario_id or "-"),
            Text(row.record_id or row.record_uid),
            percent(sum(task.passed for task in judged), len(judged)),
            _outcome(row.outcome),
            Text("\n".join(bad)),
        )
    return table


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUERY_LETTERS else line[: QUERY_LETTERS - 3] + "..."


def _task_table(title: str, stats: dict[str, tuple[TaskAggregateStats, ...]]) -> Table:
    named = any(stats)
    table = _table(
        title, *(["Alias"] if named else []), "Task", "Baseline", "95 % interval", "New",
        "95 % interval", "Difference", "Changed",
    )  # fmt: skip
    for alias, tasks in stats.items():
        for task in tasks:
            table.add_row(
                *([Text(alias)] if named else []),
                Text(task.task_id),
                percent(task.baseline_passed, task.baseline_count),
                _interval(task.baseline_interval),
                percent(task.comparison_passed, task.comparison_count),
                _interval(task.comparison_interval),
                _points(task.difference),
                f"{task.status_changed_count} of {task.workflows_evaluated}",
            )
    return table


def _alias_deltas(comparison: ScenarioComparisonResults) -> Table:
    table = _table("Pass Rates", "Alias", "Baseline", "New", "Difference", "Verdict")
    before, after = comparison.baseline_alias_pass_rates, comparison.comparison_alias_pass_rates
    for alias in dict.fromkeys([*before, *after]):
        table.add_row(
            Text(alias),
            _share(before[alias]) if alias in before else "-",
            _share(after[alias]) if alias in after else "-",
            _points(after[alias] - before[alias]) if alias in before and alias in after else "",
            _alias_verdict(comparison, alias),
        )
    old, new = comparison.baseline_overall_pass_rate, comparison.comparison_overall_pass_rate
    table.add_section()
    table.add_row("Overall", _share(old), _share(new), _points(new - old), "")
    return table


def _alias_verdict(comparison: ScenarioComparisonResults, alias: str) -> Text:
    if alias in comparison.removed_aliases:
        return Text("missing", style="bold red")
    if alias in comparison.regressed_aliases:
        return Text("regressed", style="red")
    if alias in comparison.new_aliases:
        return Text("new", style="cyan")
    if alias in comparison.improved_aliases:
        return Text("improved", style="green")
    return Text("unchanged", style="dim")


def _scenario_deltas(comparison: ScenarioComparisonResults) -> Table:
    table = _table("Scenarios", "Scenario ID", "Baseline", "New", "Difference", "Verdict")
    for delta in comparison.scenario_deltas:
        change = delta.comparison_pass_rate - delta.baseline_pass_rate
        verdict = Text("unchanged", style="dim")
        if delta.is_regression:
            verdict = Text("regressed", style="red")
        elif change > 0 or delta.status_changed:
            verdict = Text("improved", style="green")
        table.add_row(
            Text(delta.scenario_id),
            _with_rate(delta.baseline_outcome, delta.baseline_pass_rate),
            _with_rate(delta.comparison_outcome, delta.comparison_pass_rate),
            _points(change),
            verdict,
        )
    for name in comparison.new_scenarios:
        table.add_row(Text(name), "-", "", "", Text("new", style="cyan"))
    for name in comparison.removed_scenarios:
        table.add_row(Text(name), "", "-", "", Text("missing", style="bold red"))
    return table


def _with_rate(outcome: Outcome, rate: float) -> Text:
    return Text.assemble(_outcome(outcome), f" ({_share(rate)})")


def _verdict(regressed: bool, reasons: Sequence[str]) -> Text:
    if not regressed:
        return Text("Not regressed.", style="bold green")
    text = Text("Regressed:", style="bold red")
    for reason in reasons:
        text.append(f"\n  - {reason}", style="not bold default")
    return text
