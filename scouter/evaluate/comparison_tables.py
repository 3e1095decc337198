"""Comparisons as tables for people, on whatever standard output is at the moment."""

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scouter.evaluate.compare.rates import label
from scouter.evaluate.compare.results import (
    ComparisonResults,
    ScenarioComparisonResults,
    ScenarioDelta,
)
from scouter.evaluate.compare.scores import ScoreChange
from scouter.evaluate.compare.verdict import ALL_TASKS, WHOLE_SCENARIOS, TaskVerdict, Verdict
from scouter.evaluate.outcome import Outcome
from scouter.evaluate.tables import emit, outcome_text, percent, share, table_of

SHOWN: Final = 5
"""Rows explained in words before "and n more"."""

VERDICT_STYLES: Final[Mapping[Verdict, str]] = {
    Verdict.REGRESSED: "red",
    Verdict.IMPROVED: "green",
    Verdict.UNCHANGED: "dim",
    Verdict.NOT_ENOUGH_DATA: "yellow",
}


def print_comparison(comparison: ComparisonResults) -> None:
    """Print a comparison of two evaluations: the tasks, then what it comes to and why."""
    emit(
        _task_table(comparison.task_verdicts),
        *_score_tables(comparison.score_changes),
        _threshold_rule(comparison),
        _statistics(comparison),
        *_notes(comparison.notes),
    )


def print_missing_tasks(comparison: ComparisonResults) -> None:
    """Print the tasks that only one of the two runs judged."""
    table = table_of("Missing tasks", "Task", "Record", "Present in")
    for task in comparison.missing_tasks:
        table.add_row(Text(task.task_id), Text(task.record_id), task.present_in)
    emit(table)


def print_scenario_comparison(
    comparison: ScenarioComparisonResults, *, threshold_decides: bool = True
) -> None:
    """Print a comparison of two replays: aliases, tasks, scenarios, what it comes to and why.

    Args:
        comparison: The comparison.
        threshold_decides: False where the statistics do, and the threshold's word is only told.
    """
    parts: list[RenderableType] = [_alias_deltas(comparison)]
    if comparison.task_verdicts:
        parts.append(_task_table(comparison.task_verdicts))
    parts.extend(_score_tables(comparison.score_changes))
    if comparison.scenario_deltas:
        parts.append(_scenario_deltas(comparison))
    emit(
        *parts,
        _threshold_rule(comparison, decides=threshold_decides),
        _statistics(comparison),
        *_notes(comparison.notes),
    )


def _notes(notes: Sequence[str]) -> list[Text]:
    return [Text(f"Note: {note}", style="yellow") for note in notes]


def _points(difference: float) -> Text:
    """A difference of two rates, in percentage points."""
    style = "red" if difference < 0 else "green" if difference > 0 else "dim"
    return Text(f"{difference * 100:+.1f} pp" if difference else "0.0 pp", style=style)


def _task_table(rows: Sequence[TaskVerdict]) -> Table:
    """One section per alias, its sum first; it fits into 80 columns."""
    table = table_of("Tasks", "Task", "Before", "Now", "Change", "95 %", "p", "Verdict")
    table.padding = (0, 1, 0, 0)
    for column in table.columns[1:]:
        column.no_wrap = True  # on a narrow terminal the names fold, not the figures
    aliases = dict.fromkeys(row.alias for row in rows)
    for alias in aliases:
        own = [row for row in rows if row.alias == alias]
        for row in sorted(own, key=lambda row: not row.is_sum):  # stable: tasks keep their order
            table.add_row(
                _name(row),
                _rate(row.baseline_passed, row.baseline_count),
                _rate(row.comparison_passed, row.comparison_count),
                _points(row.difference) if row.pairs or row.p_value is not None else "-",
                f"{row.interval[0] * 100:+.0f} to {row.interval[1] * 100:+.0f}"
                if row.p_value is not None
                else "-",
                "-" if row.adjusted_p is None else _p(row.adjusted_p),
                Text(row.verdict.value, style=VERDICT_STYLES[row.verdict]),
            )
        table.add_section()
    return table


def _score_tables(rows: Sequence[ScoreChange]) -> list[Table]:
    """The means of scores, where a task has some; none where all only passed or failed."""
    if not rows:
        return []
    table = table_of("Scores", "Task", "Before", "Now", "Change", "95 %")
    for row in rows:
        name = row.task_id if row.alias is None else f"{row.alias}: {row.task_id}"
        low_high = row.interval
        between = "-" if low_high is None else f"{low_high[0]:+.3g} to {low_high[1]:+.3g}"
        table.add_row(
            Text(name),
            f"{row.baseline_mean:.3g}",
            f"{row.comparison_mean:.3g}",
            f"{row.difference:+.3g}",
            between,
        )
    return [table]


def _name(row: TaskVerdict) -> Text:
    if row.task_id == ALL_TASKS:
        return Text(row.alias or "all tasks", style="bold")
    if row.task_id == WHOLE_SCENARIOS:
        return Text("scenarios", style="bold")
    return Text(f"  {row.task_id}")


def _rate(passed: int, total: int) -> Text:
    """Write a rate as `75% 3/4`."""
    if not total:
        return Text("-", style="dim")
    style = "green" if passed == total else "red" if passed == 0 else "yellow"
    return Text(f"{passed / total:.0%} {passed}/{total}", style=style)


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _alias_deltas(comparison: ScenarioComparisonResults) -> Table:
    table = table_of("Pass Rates", "Alias", "Baseline", "New", "Difference", "Threshold rule")
    before, after = comparison.baseline_alias_pass_rates, comparison.comparison_alias_pass_rates
    sums = {row.alias: row for row in comparison.task_verdicts if row.task_id == ALL_TASKS}
    for alias in dict.fromkeys([*before, *after]):
        row = sums.get(alias)
        old = None if row is None else percent(row.baseline_passed, row.baseline_count)
        new = None if row is None else percent(row.comparison_passed, row.comparison_count)
        table.add_row(
            Text(alias),
            old or (share(before[alias]) if alias in before else "-"),
            new or (share(after[alias]) if alias in after else "-"),
            _points(after[alias] - before[alias]) if alias in before and alias in after else "",
            _alias_word(comparison, alias),
        )
    table.add_section()
    (old, of_old), (new, of_new) = comparison.baseline_checks, comparison.comparison_checks
    if of_old and of_new:
        change = _points(new / of_new - old / of_old)
        table.add_row("All checks", percent(old, of_old), percent(new, of_new), change, "")
    was, now = comparison.baseline_overall_pass_rate, comparison.comparison_overall_pass_rate
    table.add_row("Mean", share(was), share(now), _points(now - was), "")
    return table


def _alias_word(comparison: ScenarioComparisonResults, alias: str) -> Text:
    if alias in comparison.removed_aliases:
        return Text("missing", style="bold red")
    if alias in comparison.regressed_aliases:
        return Text("regressed", style="red")
    if alias in comparison.new_aliases:
        return Text("new", style="cyan")
    if alias in comparison.improved_aliases:
        return Text("improved", style="green")
    return Text("not regressed", style="dim")


def _scenario_deltas(comparison: ScenarioComparisonResults) -> Table:
    table = table_of("Scenarios", "Scenario ID", "Baseline", "New", "Difference", "Threshold rule")
    for delta in comparison.scenario_deltas:
        change = delta.comparison_pass_rate - delta.baseline_pass_rate
        word = Text("not regressed", style="dim")
        if delta.is_regression:
            word = Text("regressed", style="red")
        elif change > 0 or delta.status_changed:
            word = Text("improved" if change >= 0 else "not regressed", style="green")
        table.add_row(Text(delta.scenario_id), *_sides(delta), _points(change), word)
    for name in comparison.new_scenarios:
        table.add_row(Text(name), "-", "", "", Text("new", style="cyan"))
    for name in comparison.removed_scenarios:
        table.add_row(Text(name), "", "-", "", Text("missing", style="bold red"))
    return table


def _sides(delta: ScenarioDelta) -> tuple[Text, Text]:
    if max(delta.baseline_attempts, delta.comparison_attempts) > 1:
        before = _rate(delta.baseline_passed_attempts or 0, delta.baseline_attempts)
        now = _rate(delta.comparison_passed_attempts or 0, delta.comparison_attempts)
        if not _is_of_attempts(delta):
            before += f", checks {share(delta.baseline_pass_rate)}"
            now += f", checks {share(delta.comparison_pass_rate)}"
        return before, now
    return (
        _with_rate(delta.baseline_outcome, delta.baseline_pass_rate),
        _with_rate(delta.comparison_outcome, delta.comparison_pass_rate),
    )


def _is_of_attempts(delta: ScenarioDelta) -> bool:
    """Tell whether the difference of the checks' rates is that of the attempts, too."""
    before = (delta.baseline_passed_attempts or 0) / max(delta.baseline_attempts, 1)
    now = (delta.comparison_passed_attempts or 0) / max(delta.comparison_attempts, 1)
    change = delta.comparison_pass_rate - delta.baseline_pass_rate
    return isclose(now - before, change, abs_tol=1e-9)


def _with_rate(outcome: Outcome, rate: float) -> Text:
    return Text.assemble(outcome_text(outcome), f" ({share(rate)})")


def _threshold_rule(
    comparison: ComparisonResults | ScenarioComparisonResults, *, decides: bool = True
) -> Text:
    if not comparison.regressed:
        return Text("Not regressed.", style="bold green")
    text = Text("Regressed:", style="bold red")
    if not decides:
        text = Text("By the threshold, which does not decide here, regressed:", style="yellow")
    for reason in comparison.reasons:
        text.append(f"\n  - {reason}", style="not bold default")
    return text


def _statistics(comparison: ComparisonResults | ScenarioComparisonResults) -> Text:
    """The verdict, and each row that decided it."""
    verdict = comparison.verdict
    text = Text(f"Statistics: {verdict}.", style=f"bold {VERDICT_STYLES[verdict]}")
    rows = [row for row in comparison.task_verdicts if row.verdict is verdict]
    if verdict is Verdict.NOT_ENOUGH_DATA:
        rows = [row for row in rows if row.is_sum]
    if verdict is Verdict.UNCHANGED or not rows:
        text.append(f"\n  - {comparison.verdict_reason}", style="not bold default")
        return text
    for row in rows[:SHOWN]:
        text.append(f"\n  - {label(row)}: {row.reason}", style="not bold default")
    if len(rows) > SHOWN:
        text.append(f"\n  - and {len(rows) - SHOWN} more", style="not bold default")
    return text
