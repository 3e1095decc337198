"""The commands `scouter eval --format vertex` and `--format adk`: rows, files, a decision."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

import typer

from scouter.cli.decision_text import ScoreLine, print_scores
from scouter.cli.outputs import Outputs, folder_by_time
from scouter.cli.planning import print_plan
from scouter.cli.release_check import (
    Check,
    check_together,
    finish,
    interruptible,
    note,
    refuse_without_agent,
)
from scouter.errors import ConfigError
from scouter.evaluate.trajectory.comparison import TrajectoryMetric
from scouter.evaluate.trajectory.rules import TrajectoryOptions
from scouter.formats.adk import read_eval_set
from scouter.formats.adk.criteria import Criteria, read_criteria
from scouter.formats.unread import unread_fields
from scouter.formats.vertex.cases import LATENCY, cases_of
from scouter.formats.vertex.dataset import read_dataset
from scouter.formats.vertex.eval_task import EvalTask
from scouter.formats.vertex.metrics import SINGLE_TOOL_USE, Metric, TrajectorySingleToolUse
from scouter.formats.vertex.result import EvalResult, write_results
from scouter.model.visible import one_line
from scouter.replay.loading import load_object
from scouter.replay.reports.decision import unjudged_reason

_TOOL: Final = re.compile(rf"{SINGLE_TOOL_USE}\((.+)\)")
_ALL: Final = 1.0
"""Share of the cases that have to pass where a file of criteria says when one does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VertexCheck(Check):
    """The arguments of `scouter eval --format vertex`, where they are documented."""

    file_format: Literal["vertex", "adk"] = "vertex"
    has_agent: bool
    metrics: Sequence[str] = ()
    compat: Literal["sound", "vertex"] = "sound"
    output: Path | None = None

    @property
    def source(self) -> list[str]:
        """The dataset, and what is scored of it."""
        compat = [] if self.compat == "sound" else ["--compat", self.compat]
        named = [word for name in self.metrics for word in ("--metrics", name)]
        return [str(self.scenarios), *named, *compat]


def check_vertex(check: VertexCheck, outputs: Outputs) -> None:
    """Score the rows of a dataset, write their files, report, and end with the exit code.

    Raises:
        typer.Exit: With the exit code, unless it is 0.
        ScouterError: A file, a name or an argument is wrong.
    """
    if check.output is not None and check.output.exists() and not check.output.is_dir():
        raise ConfigError(f"--output {check.output}: this is a file; expected a folder")
    if not check.has_agent:
        refuse_without_agent(check)
    check_together(check, outputs)
    is_adk, path = check.file_format == "adk", check.scenarios
    criteria = read_criteria(path) if is_adk else None
    note(*(() if criteria is None else criteria.notes))
    rows = read_eval_set(path) if is_adk else read_dataset(path)
    left_out = [*(() if criteria is None else criteria.left_out), *unread_fields(rows, "row")]
    if check.metrics:  # the user says what is judged
        if left_out:
            note(f"not judged: {', '.join(left_out)}")
        criteria, left_out = None, []
    if criteria is not None and criteria.left_out and not criteria.least:
        typer.echo(f"failed: {one_line(unjudged_reason(left_out))}\nfailed: nothing was scored")
        raise typer.Exit(1)
    by_case: Mapping[str, float] = {} if criteria is None else criteria.least
    task = EvalTask(
        rows,
        [*_metrics(check.metrics or [*by_case])],
        min_scores=check.standard.min_scores,
        criteria=by_case,
        **_rules(check, criteria),
    )
    names = [*cases_of(rows).by_name]
    check.standard.policy.check(len(names))
    if check.plan:
        print_plan(check, outputs, names)
        return
    run = check.with_baseline()
    with interruptible(run):
        ran, found = task.run(run, has_agent=check.has_agent)
    if check.output is not None:
        folder = folder_by_time(check.output)
        write_results(folder, found)
        typer.echo(f"wrote {folder}", err=True)
    standard = check.standard
    if by_case and standard.min_pass_rate is standard.min_scenario_pass_rate is None:
        standard = replace(standard, min_scenario_pass_rate=_ALL)
    if not standard.quiet:
        names = [metric.name for metric in task.metrics]
        print_scores(str(check.scenarios), "Metric", _scores(check, names, found))
    results = ran.results.model_copy(update={"left_out": tuple(left_out)})
    title = f"Rows of {path.name}" + f", answered by {run.agent}" * check.has_agent
    finish(replace(check, standard=standard), replace(ran, results=results), outputs, title)


def _rules(check: VertexCheck, criteria: Criteria | None) -> TrajectoryOptions:
    if criteria is not None and criteria.ignores_arguments:
        return {"compat": check.compat, "arguments": "ignore"}
    return {"compat": check.compat}


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


def _scores(check: VertexCheck, names: Sequence[str], result: EvalResult) -> Iterator[ScoreLine]:
    """The lines of the metrics, and of the columns that every call of an agent fills."""
    summary = result.summary_metrics
    for name in names:
        n, errors = int(summary[f"{name}/n"]), int(summary[f"{name}/n_error"])
        yield ScoreLine(name, summary[f"{name}/mean"], summary[f"{name}/std"], n, errors)
    if check.has_agent:
        measured = sum(row[LATENCY] is not None for row in result.rows)
        for name, n in ((LATENCY, measured), ("failure", len(result.rows))):
            yield ScoreLine(name, summary[f"{name}/mean"], summary[f"{name}/std"], n, None)
