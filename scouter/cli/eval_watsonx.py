"""The command `scouter eval --format watsonx`: journeys run or recorded, files, a decision."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

import typer

from scouter.agent.entries import ProviderEntries
from scouter.agent.model_judge import ModelJudge
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
from scouter.evaluate.compare.gates import Gates
from scouter.evaluate.files.read import read_document
from scouter.evaluate.journey.case import Compat
from scouter.formats.unread import unread_fields
from scouter.formats.watsonx.cases import GIVEN, SUCCESS, JourneyOrchestrator, scenarios_of
from scouter.formats.watsonx.config import (
    Provider,
    ReadConfig,
    config_of_document,
    config_of_paths,
    is_config,
)
from scouter.formats.watsonx.conversations import collect_recorded, read_conversations
from scouter.formats.watsonx.recorded import find_datasets, read_cases
from scouter.formats.watsonx.result_files import (
    DISPLAY_NAMES,
    JourneyRun,
    average_metrics,
    journeys_of,
    write_results,
)
from scouter.replay.named_run import NamedRun, Ran, run_both
from scouter.replay.recorded import judge_stored
from scouter.replay.reports.texts import counted

_SHOWN: Final = (
    "is_success", "journey_completion", "tool_call_recall", "tool_call_precision",
    "tool_parameter_f1", "orchestrate_agent_routing_accuracy", "text_match", "assert_llm",
    "total_steps", "average_agent_response_time",
)  # fmt: skip
"""Measures of which the means are printed; result files have all."""
_ALL: Final = 1.0
"""Share of the journeys that have to succeed where nothing else says when a release stops."""
_OWN: Final = Provider(provider="judge", model_id="judge")
"""Stands for the model of a judge of the user's own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatsonxCheck(Check):
    """The arguments of `scouter eval --format watsonx`, where they are documented."""

    compat: Compat = "sound"
    recorded: Path | None = None
    output: Path | None = None

    @property
    def source(self) -> list[str]:
        """The datasets, and the rules."""
        compat = [] if self.compat == "sound" else ["--compat", self.compat]
        return [str(self.scenarios), *compat]


def check_watsonx(check: WatsonxCheck, outputs: Outputs) -> None:
    """Judge journeys, write their files, report, and end with the exit code.

    Raises:
        typer.Exit: With the exit code, unless it is 0.
        ScouterError: A file, a name or an argument is wrong.
    """
    check_together(check, outputs)
    if check.recorded is not None:
        refuse_without_agent(
            check,
            f"the conversations of {check.recorded} were recorded once, and no agent is called; "
            "give --agent in place of --recorded",
        )
    if check.run.calibrations and not check.run.profiles:
        raise ConfigError(
            "--calibration corrects the pass rates of judge tasks, and a judge decides only about "
            "parts of a journey; leave it out, or give the --profile whose judge it is of"
        )
    read = _config(check.scenarios)
    config = read.config
    files, left_out = find_datasets(config.test_paths, is_recursive=config.enable_recursive_search)
    note(*read.notes, *left_out)
    cases = read_cases(files, config.tags)
    check.standard.policy.check(len(cases))
    if check.plan:
        print_plan(check, outputs, [case.name for case in cases])
        return
    datasets = [case.source for case in cases]
    left_out = (*read.left_out, *unread_fields(datasets, "dataset"))
    judge, more = _judge(check.run, config.judge)
    note(*more)
    scenarios = scenarios_of(cases, config, compat=check.compat, judge=judge)
    run = replace(
        check.with_baseline(),
        repeats=max(check.run.repeats, config.n_runs),
        concurrency=max(check.run.concurrency, config.num_workers),
        orchestrator=partial(JourneyOrchestrator, cases),
        arguments=GIVEN,
    )
    gates = _gates(check)
    scenarios = scenarios.model_copy(update={"gates": gates})  # names are looked at before the run
    title = f"Journeys of {run.agent}"
    with interruptible(run):
        if check.recorded is None:
            ran = run_both(scenarios, run)
        else:
            conversations = read_conversations(check.recorded, cases)
            collect = partial(collect_recorded, conversations=conversations)
            ran = Ran(results=judge_stored(scenarios, run, collect), baseline=run.baseline)
            title = f"Journeys recorded in {check.recorded}"
    journeys = [*journeys_of(ran.results, cases, scenarios)]
    parent = check.output or (Path(config.output_dir) if config.output_dir else None)
    if parent is not None:
        folder = folder_by_time(parent)
        write_results(folder, journeys, config, check.compat)
        typer.echo(f"wrote {folder}", err=True)
    if not check.standard.quiet:
        _print_means(journeys, check.compat)
    ran = replace(ran, results=ran.results.model_copy(update={"left_out": left_out}))
    standard = replace(check.standard, min_pass_rate=None)  # a gate on journeys, in its place
    finish(replace(check, standard=standard), ran, outputs, title, gates)


def _gates(check: WatsonxCheck) -> Gates:
    """The gates of the command; the pass rate is that of the journeys, as measures decide nothing.

    Without a rate and a baseline nothing says when a release stops; then every journey has to
    succeed.
    """
    standard = check.standard
    rate = standard.min_pass_rate
    is_compared = standard.baseline or check.run.interleave is not None
    if rate is None and standard.min_scenario_pass_rate is None and not is_compared:
        rate = _ALL
    return Gates(
        min_scenario_pass_rate=standard.min_scenario_pass_rate,
        tasks={} if rate is None else {SUCCESS: rate},
        min_scores=dict(standard.min_scores),
    )


def _config(path: Path) -> ReadConfig:
    """The configuration that a path is, or one for the dataset or the folder that it is."""
    if path.is_dir():
        return config_of_paths(path)
    document = read_document(path)
    return config_of_document(document) if is_config(document.value) else config_of_paths(path)


def _judge(run: NamedRun, provider: Provider | None) -> tuple[Provider | None, list[str]]:
    """Choose the model that is called: of `--judge`, else of the configuration, if it can be."""
    named = provider is not None and provider.provider and provider.model_id
    if run.judge is not None:
        return (provider if named else _OWN), []
    if provider is None or not named:
        return None, []
    try:
        models = ModelJudge(ProviderEntries.from_settings(run.providers))
        models.check(provider.provider, None, provider.model_id)
    except ConfigError as error:
        return None, [
            f"provider_config: {error}; nobody is called, and fuzzy values are compared offline"
        ]
    return provider, []


def _print_means(journeys: list[JourneyRun], compat: Compat) -> None:
    """Print the documented means, and what could not be decided."""
    for run in journeys:
        if run.error is None:  # the report says what ended the others
            note(*(f"{run.result.name}: {problem}" for problem in run.result.problems))
    means = average_metrics(journeys, compat)
    shown = [
        f"{name} {value:.3g}"
        for name in map(DISPLAY_NAMES.__getitem__, _SHOWN)
        if (value := means.get(name)) is not None
    ]
    typer.echo(f"Means of {counted(len(journeys), 'run')}: {', '.join(shown)}\n")
