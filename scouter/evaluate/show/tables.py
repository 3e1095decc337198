"""Results as tables for people, on whatever standard output is at the moment."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from scouter.evaluate.compare.gate_checks import ALL_CHECKS, MEAN_RATE, count_checks
from scouter.evaluate.compare.gate_counts import Attempt, attempts_of, scenarios_passed
from scouter.evaluate.compare.rates import too_few
from scouter.evaluate.compare.rows import ENOUGH
from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.outcome import Outcome, worst
from scouter.evaluate.results.judge_rate import COLUMNS, TITLE, JudgeRate, judge_text
from scouter.evaluate.results.record_result import is_counted
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.run import Lost, RunMetrics, RunResults
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.show.console import emit, outcome_text, percent, share, table_of
from scouter.evaluate.show.trace_view import view_trace
from scouter.model.span import AttributeValue, Span

QUERY_LETTERS: Final = 40
_WORKFLOW_RATE: Final = "Workflow pass rate (mean of aliases)"
_NO_RATE: Final = Text("-", style="dim")
_PEOPLE: Final = COLUMNS.index("People would say")


def print_scenario_results(results: RunResults, *, show_workflow: bool = False) -> None:
    """Print metrics, sub-agents and scenarios; with `show_workflow` every record, too.

    A table without rows is left out. A scenario with several attempts is one row.
    """
    tables: list[RenderableType] = [_metrics(results)]
    if results.dataset_results:
        tables.append(_aliases(results))
        most = max(map(_conversations, results.dataset_results.values()))
        tables += [Text(f"{too_few(most)}.\n", "dim")] if 0 < most < ENOUGH else []
    if results.judge_rates:
        tables += _judges(results.judge_rates)
    if results.lost:
        tables.append(_lost(results.lost))
    if results.scenarios:
        tables.append(_scenarios(results))
    if show_workflow:
        tables += [_dataset(alias, found) for alias, found in results.dataset_results.items()]
    emit(*tables)


def _lost(found: Sequence[Lost]) -> Table:
    table = table_of("Lost, and in no result", "Reason", "Count", "How to mend it")
    for each in found:
        noun = each.kind if each.count == 1 else f"{each.kind}s"
        table.add_row(str(each.reason), f"{each.count:,} {noun}", Text(each.text))
    return table


def print_metrics(metrics: RunMetrics) -> None:
    """Print the rates of a replay, then one row per alias."""
    table = table_of("Aggregate Metrics", "Metric", "Value")
    has_any = bool(metrics.dataset_pass_rates or metrics.total_scenarios)
    table.add_row(MEAN_RATE.capitalize(), share(metrics.overall_pass_rate) if has_any else _NO_RATE)
    table.add_row(_WORKFLOW_RATE, _workflow_rate(metrics))
    passed, total = metrics.passed_scenarios, metrics.total_scenarios
    table.add_row("Scenario pass rate", percent(passed, total))
    tables = [table]
    if metrics.dataset_pass_rates:
        aliases = table_of("Sub-Agent Pass Rates", "Alias", "Pass rate")
        for alias, rate in metrics.dataset_pass_rates.items():
            aliases.add_row(Text(alias), share(rate))
        tables.append(aliases)
    emit(*tables)


def _interval(interval: Interval) -> str:
    return f"{interval[0]:.0%} - {interval[1]:.0%}"


def _metrics(results: RunResults) -> Table:
    metrics = results.metrics
    table = table_of("Aggregate Metrics", "Metric", "Value")
    passed, total = scenarios_passed(results)
    if total:
        table.add_row("Scenarios passed", percent(passed, total))
    passed, total = count_checks(results)
    table.add_row(ALL_CHECKS.capitalize(), percent(passed, total))
    if metrics.dataset_pass_rates or metrics.total_scenarios:
        table.add_row(MEAN_RATE.capitalize(), share(metrics.overall_pass_rate))
    if results.dataset_results:
        table.add_row(_WORKFLOW_RATE, _workflow_rate(metrics))
    table.add_row("Scenarios run", str(len(results.scenarios)))
    if results.repeats > 1:
        table.add_row("Attempts of each", str(results.repeats))
    return table


def _workflow_rate(metrics: RunMetrics) -> RenderableType:
    return share(metrics.workflow_pass_rate) if metrics.dataset_pass_rates else _NO_RATE


def _aliases(results: RunResults) -> Table:
    table = table_of(
        "Sub-Agent Pass Rates", "Alias", "Records", "Tasks passed", "95 % interval", "Failed",
        "Errored", "Skipped",
    )  # fmt: skip
    for alias, found in results.dataset_results.items():
        counts = found.counts
        judged = sum(is_counted(task) for record in found.records for task in record.tasks)
        sessions = len(found) - found.record_count
        table.add_row(
            Text(alias),
            f"{found.record_count}{f' + {sessions} sessions' if sessions else ''}",
            percent(counts[Outcome.PASSED], judged),
            _interval(wilson(counts[Outcome.PASSED], judged))
            if _conversations(found) >= ENOUGH
            else "-",
            *(str(counts[o]) for o in (Outcome.FAILED, Outcome.ERRORED, Outcome.SKIPPED)),
        )
    return table


def _conversations(results: ResultRows) -> int:
    """Count the conversations behind the rates: scenarios, or else sessions."""
    if results.scenario_ids is not None:
        return len({*results.scenario_ids})
    return len({record.session_id or record.record_uid for record in results.records})


def _judges(rates: Sequence[JudgeRate]) -> list[RenderableType]:
    """Make a table of judges with their calibrations, and a note on each that has no correction."""
    table = table_of(TITLE, *COLUMNS)
    texts = [judge_text(rate) for rate in rates]
    for rate, text in zip(rates, texts, strict=True):
        style = "" if rate.standing == "corrected" else "yellow"
        cells = (
            Text(cell, style=style if at == _PEOPLE else "") for at, cell in enumerate(text.cells)
        )
        table.add_row(*cells)
    notes = [Text(text.note) for text in texts if text.note]
    return [table, *notes, *([Text("")] if notes else [])]


def _scenarios(results: RunResults) -> Table:
    """One row for each scenario: its attempts, and all checks of its own and of its records."""
    table = table_of(
        "Scenario Results", "Scenario ID", "Initial Query", "Attempts passed", "Checks passed",
        "Status", "Not passed (attempts)" if results.repeats > 1 else "Not passed",
    )  # fmt: skip
    attempts = attempts_of(results)
    checks: dict[str, list[tuple[str, EvalTaskResult]]] = {name: [] for name in attempts}
    for alias, rows in sorted(results.parts, key=lambda part: part[0] is not None):
        where = "" if alias is None else f"{alias} · "
        for row in rows:
            if row.scenario_id is not None:
                own = checks[row.scenario_id]
                own += [(f"{where}{task.task_id}", task) for task in row.record.tasks]
    for info in results.scenarios:
        made, own = attempts[info.scenario_id], checks[info.scenario_id]
        bad = Counter(name for name, task in own if task.outcome is not Outcome.PASSED)
        judged = [task for _, task in own if is_counted(task)]
        decided = [each.passed for each in made if each.passed is not None]
        table.add_row(
            Text(info.scenario_id),
            Text(_shorten(info.initial_query)),
            percent(sum(decided), len(decided)),
            percent(sum(task.outcome is Outcome.PASSED for task in judged), len(judged)),
            _status(made),
            Text(", ".join(
                f"{name} ({count})" if results.repeats > 1 else name for name, count in bad.items()
            )),
        )  # fmt: skip
    return table


def _status(attempts: Sequence[Attempt]) -> Text:
    """The outcome of all attempts; of several outcomes the worst, or that some passed."""
    outcomes = {each.outcome for each in attempts} - {Outcome.SKIPPED}
    if Outcome.PASSED in outcomes and len(outcomes) > 1:
        return Text("flaky", style="yellow")
    return outcome_text(worst(outcomes))


def _dataset(alias: str, results: ResultRows) -> Table:
    table = table_of(
        f"Dataset: {alias}", "Scenario", "Record", "Tasks passed", "Status", "Not passed"
    )
    for row in results.aligned_results:
        tasks = row.record.tasks
        judged = [task for task in tasks if is_counted(task)]
        bad = [f"{task.task_id}: {task.message}" for task in tasks if not task.passed]
        table.add_row(
            Text(row.scenario_id or "-"),
            Text(row.record_id or row.record_uid),
            percent(sum(task.passed for task in judged), len(judged)),
            outcome_text(row.outcome),
            Text("\n".join(bad)),
        )
    return table


def _shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUERY_LETTERS else line[: QUERY_LETTERS - 3] + "..."


MAX_VALUE_CHARS: Final = 200


def print_traces(spans: Sequence[Span]) -> None:
    """Print spans as trees, one per trace, each level indented."""
    table = table_of("Spans", "Span", "Kind", "Status", "Start (ms)", "Duration (ms)", "Span ID")
    table.columns[3].justify = table.columns[4].justify = "right"
    for span in view_trace(spans).spans:
        table.add_row(
            Text("  " * span.depth + span.name),
            span.kind,
            Text(span.status, style="red" if span.status == "error" else ""),
            f"{span.after_ns / 1e6:.3f}",
            f"{span.duration_ns / 1e6:.3f}",
            span.span_id,
        )
    emit(table)


def print_span_detail(spans: Sequence[Span]) -> None:
    """Print ids, times, attributes and events of each span; long values are cut."""
    for span in spans:
        table = table_of(f"Span {span.name}", "Field", "Value")
        for name, value in _fields(span):
            table.add_row(Text(name), Text(_cut(value)))
        emit(table)


def _fields(span: Span) -> Iterator[tuple[str, str]]:
    yield "trace id", span.trace_id
    yield "span id", span.span_id
    yield "parent", span.parent_span_id or "-"
    yield "kind", span.kind.name.lower()
    yield "status", f"{span.status.name.lower()} {span.status_message}".strip()
    yield "start (ns)", str(span.start_ns)
    yield "duration (ms)", f"{span.duration_ns / 1e6:.3f}"
    for name, value in span.attributes.items():
        yield name, _shown(value)
    for event in span.events:
        yield (
            f"event {event.name}",
            json.dumps(
                {name: _shown(value) for name, value in event.attributes.items()},
                ensure_ascii=False,
            ),
        )


def _shown(value: AttributeValue) -> str:
    return value if isinstance(value, str) else repr(value)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_VALUE_CHARS else text[:MAX_VALUE_CHARS] + "…"
