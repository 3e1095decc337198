"""Comparisons as tables for people, on whatever standard output is at the moment."""

from collections.abc import Mapping, Sequence
from math import isclose
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scouter.evaluate.compare.data import RecordsComparison, RunComparison, ScenarioDelta
from scouter.evaluate.compare.rates import too_few
from scouter.evaluate.compare.rows import (
    ALL_TASKS,
    ENOUGH,
    ComparisonDecision,
    RateComparison,
    ScoreChange,
)
from scouter.evaluate.show.console import emit, share, table_of

SHOWN: Final = 5
"""Reasons or names before "and n more"."""

_CHANGES: Final = 20

_STYLES: Final[Mapping[ComparisonDecision, str]] = {
    ComparisonDecision.REGRESSED: "bold red",
    ComparisonDecision.NO_REGRESSION: "bold green",
    ComparisonDecision.INCONCLUSIVE: "bold yellow",
}


def print_comparison(comparison: RecordsComparison) -> None:
    """Print a comparison of two evaluations: what it comes to and why, then the rates."""
    emit(
        *changes_texts([each.text for each in comparison.changes]),
        _decision(comparison),
        *_rates(comparison.rates),
        _one_by_one(comparison),
        *_score_tables(comparison.score_changes),
        *_notes(comparison.notes),
    )


def print_missing_tasks(comparison: RecordsComparison) -> None:
    """Print the tasks that only one of the two runs judged."""
    table = table_of("Missing tasks", "Task", "Record", "Present in")
    for task in comparison.missing_tasks:
        table.add_row(Text(task.task_id), Text(task.record_id), task.present_in)
    emit(table)


def print_scenario_comparison(comparison: RunComparison, *, with_decision: bool = True) -> None:
    """Print a comparison of two replays: what it comes to, rates and scenarios.

    Args:
        comparison: The comparison.
        with_decision: False where the caller tells the decision.
    """
    parts: list[RenderableType] = []
    if with_decision:
        changes = changes_texts([each.text for each in comparison.changes])
        parts = [*changes, _decision(comparison)]
    parts += [*_rates(comparison.rates), *_score_tables(comparison.score_changes)]
    if comparison.scenario_deltas:
        parts.append(_scenario_deltas(comparison))
    emit(*parts, _one_by_one(comparison), *_notes(comparison.notes))


def changes_texts(changes: Sequence[str]) -> list[Text]:
    """The checks that are not what they were in the baseline; nothing if all are."""
    if not changes:
        return []
    text = Text("Changed since the baseline", style="bold yellow")
    for change in changes[:_CHANGES]:
        text.append(f"\n  - {change}", style="not bold default")
    if len(changes) > _CHANGES:
        text.append(f"\n  - and {len(changes) - _CHANGES} more", style="not bold default")
    return [text.append("\n")]


def _notes(notes: Sequence[str]) -> list[Text]:
    return [Text(f"Note: {note}", style="yellow") for note in notes]


def _points(difference: float) -> Text:
    """A difference of two rates, in percentage points."""
    style = "red" if difference < 0 else "green" if difference > 0 else "dim"
    return Text(f"{difference * 100:+.1f} pp" if difference else "0.0 pp", style=style)


def _rates(rows: Sequence[RateComparison]) -> list[RenderableType]:
    """Make a table of whole scenarios, then of each alias, its sum first; it fits 80 columns."""
    if not rows:
        return []
    table = table_of("Rates", "Rate", "Before", "Now", "Change", "95 %", "p", "")
    table.padding = (0, 1, 0, 0)
    for column in table.columns[1:]:
        column.no_wrap = True  # on a narrow terminal the names fold, not the figures
    for group in _groups(rows):
        for row in group:
            has_interval = row.has_interval
            table.add_row(
                _name(row),
                _rate(row.baseline_passed, row.baseline_count),
                _rate(row.comparison_passed, row.comparison_count),
                _points(row.difference) if row.pairs or row.p_value is not None else "-",
                f"{row.interval[0] * 100:+.0f} to {row.interval[1] * 100:+.0f}"
                if has_interval
                else "-",
                _p(row.adjusted_p) if has_interval and row.adjusted_p is not None else "-",
                Text(row.word, style="red" if row.regressed else "yellow"),
            )
        table.add_section()
    most = max(row.clusters for row in rows)
    return [table, *([Text(f"{too_few(most)}.\n", "dim")] if 0 < most < ENOUGH else [])]


def _groups(rows: Sequence[RateComparison]) -> list[list[RateComparison]]:
    whole = [row for row in rows if row.is_whole]
    others = [row for row in rows if not row.is_whole]
    aliases = dict.fromkeys(row.alias for row in others)
    return [
        whole,
        *(
            sorted((row for row in others if row.alias == alias), key=lambda row: not row.is_sum)
            for alias in aliases
        ),
    ]


def _score_tables(rows: Sequence[ScoreChange]) -> list[Table]:
    """The means of scores, where a task has some; none where all only passed or failed."""
    if not rows:
        return []
    table = table_of("Scores", "Task", "Before", "Now", "Change", "95 %", "")
    for row in rows:
        name = row.task_id if row.alias is None else f"{row.alias}: {row.task_id}"
        low_high = row.interval
        between = "-" if low_high is None else f"{low_high[0]:+.3g} to {low_high[1]:+.3g}"
        table.add_row(
            Text(name),
            *("-" if x is None else f"{x:.3g}" for x in (row.baseline_mean, row.comparison_mean)),
            f"{row.difference:+.3g}" if row.records else "-",
            between,
            Text(row.word, style="red" if row.regressed else "yellow"),
        )
    return [table]


def _name(row: RateComparison) -> Text:
    if row.task_id == ALL_TASKS:
        return Text(row.alias or "all tasks", style="bold")
    if row.is_whole:
        return Text(row.label.removesuffix(" passed"), style="bold")
    return Text(f"  {row.task_id}")


def _rate(passed: int, total: int) -> Text:
    """Write a rate as `75% 3/4`."""
    if not total:
        return Text("-", style="dim")
    style = "green" if passed == total else "red" if passed == 0 else "yellow"
    return Text(f"{passed / total:.0%} {passed}/{total}", style=style)


def _p(value: float) -> str:
    return "<0.001" if value < 0.001 else f"{value:.3f}"


def _scenario_deltas(comparison: RunComparison) -> Table:
    table = table_of("Scenarios", "Scenario ID", "Baseline", "New", "Difference", "One by one")
    for delta in comparison.scenario_deltas:
        # A sum of the same shares in another order differs in its last digits.
        change = round(delta.comparison_pass_rate - delta.baseline_pass_rate, 9)
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
    before = _rate(delta.baseline_passed_attempts, delta.baseline_attempts)
    now = _rate(delta.comparison_passed_attempts, delta.comparison_attempts)
    if not _is_of_attempts(delta):
        before += f", checks {share(delta.baseline_pass_rate)}"
        now += f", checks {share(delta.comparison_pass_rate)}"
    return before, now


def _is_of_attempts(delta: ScenarioDelta) -> bool:
    """Tell whether the difference of the checks' rates is that of the attempts, too."""
    before = delta.baseline_passed_attempts / max(delta.baseline_attempts, 1)
    now = delta.comparison_passed_attempts / max(delta.comparison_attempts, 1)
    change = delta.comparison_pass_rate - delta.baseline_pass_rate
    return isclose(now - before, change, abs_tol=1e-9)


def _decision(comparison: RecordsComparison | RunComparison) -> Text:
    """Write the decision of the comparison and its reasons."""
    decision = comparison.decision
    text = Text(f"{decision.value.capitalize()}:", style=_STYLES[decision])
    reasons = comparison.decision_reasons or (comparison.decision_reason,)
    for reason in reasons[:SHOWN]:
        text.append(f"\n  - {reason}", style="not bold default")
    if len(reasons) > SHOWN:
        text.append(f"\n  - and {len(reasons) - SHOWN} more", style="not bold default")
    return text.append("\n")


def _one_by_one(comparison: RecordsComparison | RunComparison) -> Text:
    """The strict rule's finding, which leads the eye and decides nothing."""
    if not comparison.regressed:
        return Text("One by one, nothing got worse.", style="dim")
    text = Text("One by one, these got worse (this decides nothing):", style="yellow")
    for reason in comparison.reasons:
        text.append(f"\n  - {reason}", style="default")
    return text
