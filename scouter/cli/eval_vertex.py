"""The commands `scouter eval --format vertex` and `--format adk`: rows, files, a decision."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from math import isclose, isfinite, isnan, nan
from pathlib import Path
from statistics import fmean
from typing import Final, Literal, NoReturn

import typer
from rich.text import Text

from scouter.agent.entries import ProviderEntries
from scouter.agent.model_judge import ModelJudge
from scouter.cli.outputs import folder_by_time
from scouter.errors import ConfigError
from scouter.evaluate.judge.port import Judge
from scouter.evaluate.show.console import emit, table_of
from scouter.evaluate.trajectory.comparison import TrajectoryMetric
from scouter.evaluate.trajectory.rules import TrajectoryOptions
from scouter.formats.adk import read_eval_set
from scouter.formats.adk.criteria import Criteria, read_criteria
from scouter.formats.unread import unread_fields
from scouter.formats.vertex.dataset import Row, read_dataset
from scouter.formats.vertex.eval_task import EvalTask
from scouter.formats.vertex.metrics import (
    SINGLE_TOOL_USE,
    JudgeMetric,
    Metric,
    TrajectorySingleToolUse,
)
from scouter.formats.vertex.result import EvalResult, Summary
from scouter.formats.vertex.result_files import write_results
from scouter.formats.vertex.runnable import FAULT
from scouter.model.visible import one_line
from scouter.replay.loading import load_object
from scouter.replay.named_run import NamedRun, named_user
from scouter.replay.reports.decision import unjudged_reason
from scouter.replay.reports.texts import clip, counted

_INTERRUPTED: Final = 130
_TOOL: Final = re.compile(rf"{SINGLE_TOOL_USE}\((.+)\)")
_FAULTS: Final = 10
_MESSAGE: Final = 200
_MEANT: Final = frozenset({
    "agent", "scenarios", "file_format", "compat", "output", "metrics", "min_score", "judge",
    "providers", "judge_budget", "judge_timeout", "concurrency", "allow_errors", "allow_unjudged",
    "simulated_user", "quiet",
})  # fmt: skip
"""Parameters of `scouter eval` that mean something here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexRun:
    """The arguments of `scouter eval --format vertex`, where they are documented."""

    dataset: Path
    file_format: Literal["vertex", "adk"]
    judging: NamedRun
    """The judge, and who plays users."""
    agent: str | None = None
    metrics: Sequence[str] = ()
    min_scores: Sequence[str] = ()
    compat: Literal["sound", "vertex"] = "sound"
    output: Path | None = None
    concurrency: int = 1
    allow_errors: bool = False
    allow_unjudged: bool = False
    quiet: bool = False


def refuse_others(context: typer.Context, file_format: str) -> None:
    """Refuse options that belong to scenarios or to other formats.

    Raises:
        ConfigError: One is given; names it.
    """
    for parameter in context.command.params:
        name = parameter.name or ""
        source = context.get_parameter_source(name)
        if source is not None and source.name != "DEFAULT" and name not in _MEANT:
            raise ConfigError(
                f"{parameter.opts[0]} means nothing with --format {file_format}; leave it out"
            )


def evaluate_vertex(run: VertexRun) -> None:
    """Score the rows of a dataset, print the means, write the files, and end with the exit code.

    The code is 1 where a mean is too low, a score could not be had, or nothing was scored.

    Raises:
        typer.Exit: With the exit code, unless it is 0.
        ScouterError: A file, a name or an argument is wrong.
    """
    if run.output is not None and run.output.exists() and not run.output.is_dir():
        raise ConfigError(f"--output {run.output}: this is a file; expected a folder")
    criteria = read_criteria(run.dataset) if run.file_format == "adk" else None
    for note in () if criteria is None else criteria.notes:
        typer.echo(f"scouter: note: {one_line(note)}", err=True)
    rows = read_dataset(_rows(run))
    left_out = [*(() if criteria is None else criteria.left_out), *unread_fields(rows, "row")]
    if run.metrics:  # the user says what is judged
        if left_out:
            typer.echo(f"scouter: note: not judged: {one_line(', '.join(left_out))}", err=True)
        criteria, left_out = None, []
    if criteria is not None and criteria.left_out and not criteria.least:
        _stop([unjudged_reason(left_out), "nothing was scored"])
    by_case: Mapping[str, float] = {} if criteria is None else criteria.least
    task = EvalTask(rows, [*_metrics(run.metrics or [*by_case])], **_rules(run, criteria))
    least = _least(run.min_scores, [metric.name for metric in task.metrics])
    agent = None if run.agent is None else load_object(run.agent, "--agent")
    user = named_user(run.judging)
    try:
        with redirect_stdout(sys.stderr):  # what the agent prints is no result
            result = task.evaluate(
                agent, judge=_judge(run, task), concurrency=run.concurrency, simulated_user=user
            )
    except KeyboardInterrupt:
        typer.echo("scouter: interrupted", err=True)
        raise typer.Exit(_INTERRUPTED) from None
    if run.output is not None:
        folder = folder_by_time(run.output)
        write_results(folder, result)
        typer.echo(f"wrote {folder}", err=True)
    names = [metric.name for metric in task.metrics]
    if not run.quiet:
        _print_means(run, names, result)
    problems = list(_problems(run, names, least, result.summary_metrics))
    problems += _low_cases(by_case, result.rows)
    if left_out and not run.allow_unjudged:
        problems.append(unjudged_reason(left_out))
    if problems:
        _stop(problems)
    typer.echo(f"passed: {counted(len(result.rows), 'row')}, {counted(len(names), 'metric')}")


def _stop(problems: Sequence[str]) -> NoReturn:
    for problem in problems:
        typer.echo(f"failed: {one_line(problem)}")
    raise typer.Exit(1)


def _rules(run: VertexRun, criteria: Criteria | None) -> TrajectoryOptions:
    if criteria is not None and criteria.ignores_arguments:
        return {"compat": run.compat, "arguments": "ignore"}
    return {"compat": run.compat}


def _low_cases(least: Mapping[str, float], rows: Sequence[Row]) -> Iterator[str]:
    """Name the cases whose mean of a criterion is too low; each has to reach it, as in ADK."""
    for name, rate in least.items():
        scores: dict[str, list[float]] = {}
        for row in rows:
            score = row.get(f"{name}/score")
            if isinstance(score, int | float):
                scores.setdefault(str(row.get("eval_id")), []).append(float(score))
        means = {case: fmean(found) for case, found in scores.items()}
        low = [case for case, mean in means.items() if mean < rate and not isclose(mean, rate)]
        if low:
            first, more = low[0], f", and {len(low) - 1} more cases are lower" * (len(low) > 1)
            yield (
                f"{name}: the mean of the case {first!r} is {means[first]:.4f}, and has to be "
                f"{rate:g} at least{more}"
            )


def _rows(run: VertexRun) -> object:
    return read_eval_set(run.dataset) if run.file_format == "adk" else run.dataset


def _metrics(named: Sequence[str]) -> Iterator[Metric]:
    """The metrics of `--metrics`; without any, all that hold a trajectory against a reference."""
    if not named:
        yield from TrajectoryMetric
    for name in (part.strip() for text in named for part in text.split(",")):
        if found := _TOOL.fullmatch(name):
            yield TrajectorySingleToolUse(found[1])
        elif ":" in name:
            yield load_object(name, "--metrics")
        elif name == SINGLE_TOOL_USE:
            raise ConfigError(f"--metrics {name}: expected the tool, too: '{name}(tool)'")
        else:
            yield name


def _least(given: Sequence[str], names: Sequence[str]) -> Mapping[str, float]:
    """The means to reach, by metric."""
    found: dict[str, float] = {}
    for text in given:
        name, _, number = text.rpartition("=")
        try:
            rate = float(number)
        except ValueError:
            rate = nan
        if not name or not isfinite(rate):
            raise ConfigError(f"--min-score {text}: expected METRIC=RATE, such as {names[0]}=0.9")
        if name not in names:
            raise ConfigError(
                f"--min-score {text}: no metric {name!r} is scored; they are {', '.join(names)}"
            )
        found[name] = max(rate, found.get(name, rate))
    return found


def _judge(run: VertexRun, task: EvalTask) -> Judge | None:
    """Build the judge for metrics that ask one: `--judge`, else the provider entries they name."""
    judging = run.judging
    own = judging.own_judge()
    if own is not None or not any(isinstance(metric, JudgeMetric) for metric in task.metrics):
        return own
    return ModelJudge(
        ProviderEntries.from_settings(judging.providers),
        budget_usd=judging.judge_budget_usd,
        timeout_s=judging.judge_timeout_s,
    )


def _print_means(run: VertexRun, names: Sequence[str], result: EvalResult) -> None:
    """Print the table of means, and to standard error why rows have no score."""
    table = table_of(str(run.dataset), "Metric", "Mean", "Std", "n", "Errors")
    summary = result.summary_metrics
    for name in names:
        count, errors = (str(int(summary[f"{name}/{key}"])) for key in ("n", "n_error"))
        table.add_row(Text(name), *_mean(summary, name), count, errors)
    if run.agent is not None:
        measured = [row for row in result.rows if row["latency_in_seconds"] is not None]
        failed = sum(row["failure"] == 1 for row in result.rows)
        for name, count in (("latency_in_seconds", len(measured)), ("failure", len(result.rows))):
            table.add_row(name, *_mean(summary, name), str(count), "")
        if failed:
            table.caption = f"The agent failed in {failed} of {counted(len(result.rows), 'row')}."
    emit(table)
    faults = list(_faults(names, result))
    for line in faults[:_FAULTS]:
        typer.echo(clip(one_line(line), _MESSAGE), err=True)
    if len(faults) > _FAULTS:
        typer.echo(f"and {len(faults) - _FAULTS} more", err=True)


def _mean(summary: Summary, name: str) -> Iterator[str]:
    for key in ("mean", "std"):
        value = summary[f"{name}/{key}"]
        yield "-" if isnan(value) else f"{value:.4f}"


def _faults(names: Sequence[str], result: EvalResult) -> Iterator[str]:
    """A line for each row without a score: the agent's failure, or what metrics say."""
    for at, row in enumerate(result.rows, start=1):
        if row.get(FAULT) is not None:
            yield f"row {at}: the agent failed: {row[FAULT]}"
            continue
        told: dict[str, list[str]] = {}
        for name in names:
            if error := row.get(f"{name}/error"):
                told.setdefault(str(error), []).append(name)
        for error, among in told.items():
            yield f"row {at}: {', '.join(among)}: {error}"


def _problems(
    run: VertexRun, names: Sequence[str], least: Mapping[str, float], summary: Summary
) -> Iterator[str]:
    """Reasons to stop a release."""
    for name, rate in least.items():
        mean = summary[f"{name}/mean"]
        if isnan(mean):
            yield f"{name}: no row has a score, and the mean has to be {rate:g} at least"
        elif mean < rate and not isclose(mean, rate):
            yield f"{name}: the mean is {mean:.4f}, and has to be {rate:g} at least"
    errors = {name: int(summary[f"{name}/n_error"]) for name in names}
    if any(errors.values()) and not run.allow_errors:
        told = ", ".join(f"{name} {count}" for name, count in errors.items() if count)
        yield f"rows without a score: {told}"
    elif not any(summary[f"{name}/n"] for name in names):
        yield "nothing was scored"
