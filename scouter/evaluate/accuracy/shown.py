"""Results of the three evaluators, for people."""

from collections.abc import Callable, Mapping

from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from scouter.evaluate.accuracy.models import (
    PASSED_FROM,
    WARNED_FROM,
    AccuracyEvaluationResult,
    PerformanceEvaluationResult,
    ReliabilityEvaluationResult,
)
from scouter.evaluate.show.console import emit

_KILO = 1024.0
_COLUMNS = ("average", "median", "min", "max", "std_dev")


def accuracy_title(average: float) -> str:
    """Headline for an average score from 1 to 10, such as `Evaluation Passed`."""
    if average >= PASSED_FROM:
        return "Evaluation Passed"
    return "Evaluation Warning" if average >= WARNED_FROM else "Evaluation Failed"


def print_accuracy(result: AccuracyEvaluationResult) -> None:
    """Print the average and the last verdict to standard output."""
    last = result.evaluation_scores[-1]
    lines = [
        f"Average Score: {result.average_score:.2f} / 10.0",
        f"Query: {result.user_query}",
        f"Output: {result.generated_output}",
        f"Reasoning: {last.reasoning}",
        f"Critique: {last.critique}",
        *result.errors,
    ]
    title = accuracy_title(result.average_score)
    style = {"Passed": "green", "Warning": "yellow", "Failed": "red"}[title.split()[-1]]
    emit(Panel(Text("\n".join(lines)), title=title, border_style=style))


def print_performance(result: PerformanceEvaluationResult) -> None:
    """Print the statistics to standard output."""
    runs = f"{result.num_iterations} iterations, {result.warmup_runs} warmups"
    table = Table("Metric", *(name.replace("_", " ").title() for name in _COLUMNS))
    table.title = f"Performance Evaluation Results\n({runs})"
    _row(table, "Latency", result.latency_stats, lambda value: f"{value * 1000:.2f} ms")
    _row(table, "Memory Increase", result.memory_increase_stats, bytes_text)
    _row(table, "Memory Peak", result.memory_peak_stats, bytes_text)
    emit(table, *map(Text, result.errors))


def _row(table: Table, name: str, found: Mapping[str, float], text: Callable[[float], str]) -> None:
    table.add_row(name, *(text(found[column]) for column in _COLUMNS))


def bytes_text(value: float) -> str:
    """Write a number of bytes as `12.34 KB`."""
    for unit in ("B", "KB"):
        if abs(value) < _KILO:
            return f"{value:.2f} {unit}"
        value /= _KILO
    return f"{value:.2f} MB"


def print_reliability(result: ReliabilityEvaluationResult) -> None:
    """Print the verdict and each expected tool to standard output."""
    table = Table("", "Tool", "Times Called")
    for check in result.checks:
        table.add_row(
            "✅" if check.was_called else "❌", Text(check.tool_name), str(check.times_called)
        )
    ending = "Passed" if result.passed else "Failed"
    table.title = f"Reliability Check {ending}"
    names = {"Expected": result.expected_tool_calls, "Actual": result.actual_tool_calls}
    emit(table, Text(result.summary), *(Text(f"{each}: {found}") for each, found in names.items()))
