"""The command `scouter eval --format watsonx`: journeys run, their files written, a decision."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import typer

from scouter.agent.entries import ProviderEntries
from scouter.agent.model_judge import ModelJudge
from scouter.cli.outputs import Outputs, folder_by_time
from scouter.cli.release_check import INTERRUPTED, Standard, conclude, interrupted
from scouter.errors import ConfigError
from scouter.evaluate.files.read import read_document
from scouter.evaluate.journey.evaluate import Compat
from scouter.evaluate.judge.port import JudgeReply, JudgeRequest
from scouter.formats.unread import unread_fields
from scouter.formats.watsonx.config import (
    Provider,
    ReadConfig,
    config_of_document,
    config_of_paths,
    is_config,
)
from scouter.formats.watsonx.datasets import find_datasets, read_cases
from scouter.formats.watsonx.journeys import Journeys, run_journeys
from scouter.formats.watsonx.names import DISPLAY_NAMES
from scouter.formats.watsonx.result_files import average_metrics, write_results
from scouter.model.visible import one_line
from scouter.replay.named_run import NamedRun
from scouter.replay.reports.texts import counted

_SHOWN: Final = (
    "is_success", "journey_completion", "tool_call_recall", "tool_call_precision",
    "tool_parameter_f1", "orchestrate_agent_routing_accuracy", "text_match", "assert_llm",
    "total_steps", "average_agent_response_time",
)  # fmt: skip
"""Measures of which the means are printed; result files have all."""
_ALL: Final = 1.0
"""Pass rate that stops a release where nothing else says what does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatsonxCheck:
    """The arguments of `scouter eval --format watsonx`, where they are documented."""

    path: Path
    run: NamedRun
    standard: Standard
    compat: Compat = "sound"
    output: Path | None = None


def check_watsonx(check: WatsonxCheck, outputs: Outputs) -> None:
    """Run journeys, write their files, report, and end with the exit code.

    Unless a rate is given every journey has to succeed, as none is asked again.

    Raises:
        typer.Exit: With the exit code, unless it is 0.
        ScouterError: A file, a name or an argument is wrong.
    """
    if check.run.profiles:
        raise ConfigError("--profile: journeys are judged by their goals; leave it out")
    if outputs.save_baseline is not None:
        raise ConfigError("--save-baseline needs --interleave, which journeys do not have")
    run = check.run
    if run.confirm is not None or run.interleave is not None or run.sequential:
        raise ConfigError(
            "--confirm, --sequential and --interleave: journeys are not asked again; leave it out"
        )
    read = _config(check.path)
    config = read.config
    files, left_out = find_datasets(config.test_paths, is_recursive=config.enable_recursive_search)
    _note(*read.notes, *left_out)
    cases = read_cases(files, config.tags)
    datasets = [each for file in files if isinstance(each := read_document(file).value, dict)]
    left_out = (*read.left_out, *unread_fields(datasets, "dataset"))
    judge, more = _judge(check.run, config.judge)
    _note(*more)
    run = replace(
        check.run,
        repeats=max(check.run.repeats, config.n_runs),
        concurrency=max(check.run.concurrency, config.num_workers),
    )
    baseline = check.standard.read_baseline()
    try:
        journeys = run_journeys(cases, run, config, compat=check.compat, judge=judge)
    except KeyboardInterrupt:
        typer.echo(interrupted(run), err=True)
        raise typer.Exit(INTERRUPTED) from None
    parent = check.output or (Path(config.output_dir) if config.output_dir else None)
    if parent is not None:
        folder = folder_by_time(parent)
        write_results(folder, journeys.runs, config, check.compat)
        typer.echo(f"wrote {folder}", err=True)
    standard = check.standard
    rates = (standard.min_pass_rate, standard.min_scenario_pass_rate)
    if rates == (None, None):
        standard = replace(standard, min_pass_rate=_ALL)
    if not standard.quiet:
        _tell(journeys, check.compat)
    results = journeys.results.model_copy(update={"left_out": left_out})
    conclude(results, baseline, standard, outputs, f"Journeys of {check.run.agent}")


def _config(path: Path) -> ReadConfig:
    """The configuration that a path is, or one for the dataset or the folder that it is."""
    if path.is_dir():
        return config_of_paths(path)
    document = read_document(path)
    return config_of_document(document) if is_config(document.value) else config_of_paths(path)


def _judge(run: NamedRun, provider: Provider | None) -> tuple[Any, list[str]]:
    """Build the judge: `--judge`, else the model of the configuration, if it can be asked."""
    own = run.own_judge()
    if own is not None or provider is None or not provider.model_id:
        return own, []
    models = ModelJudge(
        ProviderEntries.from_settings(run.providers),
        budget_usd=run.judge_budget_usd,
        timeout_s=run.judge_timeout_s,
    )
    try:
        models.check(provider.provider, None, provider.model_id)
    except ConfigError as error:
        return None, [
            f"provider_config: {error}; nobody is asked, and fuzzy values are compared offline"
        ]
    return _OneModel(models, provider), []


class _OneModel:
    """A judge that asks one model of one provider, whatever a request says."""

    def __init__(self, models: ModelJudge, provider: Provider) -> None:
        self._models, self._provider = models, provider

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Ask that model."""
        named = replace(request, model=self._provider.model_id, provider=self._provider.provider)
        return await self._models.ask(named)


def _note(*notes: str) -> None:
    for note in notes:
        typer.echo(f"scouter: note: {one_line(note)}", err=True)


def _tell(journeys: Journeys, compat: Compat) -> None:
    """Print a line for each journey that did not succeed, what could not be decided, and means."""
    for run in journeys.runs:
        attempt = f", run {run.attempt + 1}" if journeys.results.repeats > 1 else ""
        name = f"{run.result.name}{attempt}"
        if run.result.success is not True:
            typer.echo(f"{name}: {one_line(run.result.message)}")
        _note(*(f"{name}: {problem}" for problem in run.result.problems))
    means = average_metrics(journeys.runs, compat)
    shown = [
        f"{name} {value:.3g}"
        for name in map(DISPLAY_NAMES.__getitem__, _SHOWN)
        if (value := means.get(name)) is not None
    ]
    typer.echo(f"Means of {counted(len(journeys.runs), 'run')}: {', '.join(shown)}\n")
