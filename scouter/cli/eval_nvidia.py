"""The command `scouter eval --config`: a config file of NeMo Agent Toolkit, files, a decision."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from statistics import stdev
from typing import Final

import typer

from scouter.cli.decision_text import ScoreLine, print_scores
from scouter.cli.outputs import Outputs
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
from scouter.evaluate.report.evaluator import EvaluatorOutput
from scouter.formats.nvidia.run import ConfigEval
from scouter.model.visible import one_line
from scouter.replay.reports.decision import unjudged_reason


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigCheck(Check):
    """The arguments of `scouter eval --config`, where they are documented."""

    has_agent: bool
    dataset: Path | None = None
    """In the place of the dataset of the file, which `scenarios` names."""
    concurrency: int | None = None
    """None for what the file says."""

    @property
    def source(self) -> list[str]:
        """The words of a command that name the cases."""
        dataset = [] if self.dataset is None else [str(self.dataset)]
        return [*dataset, "--config", str(self.scenarios)]


_NOT_HERE: Final = {
    "--format": "the file is a format of its own",
    "--output": "the file names the folder of its results itself, as eval.general.output_dir",
}
"""Options that cannot be, and why."""


def check_config(check: ConfigCheck, outputs: Outputs, refused: Sequence[str] = ()) -> None:
    """Judge as a config file says, write its result files, report, and end with the exit code.

    Args:
        check: The arguments.
        outputs: Paths of the reports.
        refused: Options that are given and cannot be.

    Raises:
        typer.Exit: With the exit code, unless it is 0.
        ScouterError: A file, a name or an argument is wrong.
    """
    for option in refused:
        raise ConfigError(f"{option} cannot be with --config: {_NOT_HERE[option]}")
    if check.has_agent and check.run.simulated_user is not None:
        raise ConfigError("--simulated-user cannot be with --config: rows have all their turns")
    if not check.has_agent:
        refuse_without_agent(check)
    if check.run.calibrations and not check.run.profiles:
        raise ConfigError(
            "--calibration corrects the pass rates of judge tasks, and evaluators of --config give "
            "scores; leave it out, or give the --profile whose judge it is of"
        )
    check_together(check, outputs)
    path, standard = check.scenarios, check.standard
    evaluation = ConfigEval(
        path,
        dataset=check.dataset,
        has_agent=check.has_agent,
        min_scores=standard.min_scores,
        providers=check.run.providers,
        note=note,
    )
    if not evaluation.evaluators:
        left_out = evaluation.file.left_out
        unjudged = f"failed: {unjudged_reason(left_out)}\n" if left_out else ""
        typer.echo(
            f"{unjudged}failed: nothing was judged, as no evaluator of {path} is one of ours"
        )
        raise typer.Exit(1)
    standard.policy.check(len(evaluation.cases.by_name))
    if check.plan:
        print_plan(check, outputs, list(evaluation.cases.by_name))
        return
    run = replace(check.with_baseline(), concurrency=check.concurrency or evaluation.concurrency)
    run = evaluation.prepared(run)
    with interruptible(run):
        ran, found = evaluation.run(run)
    typer.echo(f"wrote {evaluation.file.output_dir}", err=True)
    if not standard.quiet:
        print_scores(str(path), "Evaluator", _scores(found))
    title = f"Rows of {path.name}" + f", answered by {run.agent}" * check.has_agent
    finish(replace(check, run=run), ran, outputs, one_line(title))


def _scores(found: Mapping[str, EvaluatorOutput]) -> Iterator[ScoreLine]:
    for name, output in found.items():
        scores = [item.score for item in output.items if item.score is not None]
        mean, std = output.average_score, stdev(scores) if len(scores) > 1 else nan
        n_scored, n_errored = output.n_scored, output.n_errored
        yield ScoreLine(name, nan if mean is None else mean, std, n_scored, n_errored)
