"""The command `scouter eval`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from scouter.cli.check_options import (
    AllowErrors,
    AllowLost,
    AllowUnderpowered,
    AllowUnjudged,
    AnswerCache,
    BaselineFile,
    CalibrationFiles,
    GateOption,
    HtmlFile,
    JsonFile,
    JUnitFile,
    MarkdownFile,
    MinPassRate,
    OwnJudge,
    Profiles,
    Quiet,
    RegressionThreshold,
    SaveFile,
)
from scouter.cli.judge_options import JudgeBudget, JudgeTimeout, Providers
from scouter.cli.outputs import Outputs, check_writable
from scouter.errors import ConfigError

_RUNNING = "How it runs"
_FOREIGN = "Files of other systems"


def evaluate(
    scenarios: Annotated[
        Path,
        typer.Argument(
            metavar="SCENARIOS",
            help="Scenario file: .yaml, .json or .jsonl; with --format what that system has.",
        ),
    ],
    agent: Annotated[
        str,
        typer.Option(
            metavar="MODULE:NAME",
            help="The agent: a function from the message to the answer, or what else the text "
            "above names.",
        ),
    ],
    profile: Profiles = None,
    judge: OwnJudge = None,
    providers: Providers = None,
    judge_cache: AnswerCache = None,
    judge_budget: JudgeBudget = None,
    judge_timeout: JudgeTimeout = None,
    calibration: CalibrationFiles = None,
    simulated_user: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME|ENTRY/MODEL|judge",
            help="Plays the user in interactive scenarios: a function, a model of a provider "
            "entry, or the judge.",
        ),
    ] = None,
    file_format: Annotated[
        Literal["watsonx"] | None,
        typer.Option(
            "--format",
            help="Whose file it is. watsonx: a ground-truth dataset, a folder of them, or a "
            "config.yml, of watsonx Orchestrate.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    compat: Annotated[
        Literal["sound", "wxo-1.6.9"],
        typer.Option(
            help="Rules of --format watsonx: those documented, or that version's numbers.",
            rich_help_panel=_FOREIGN,
        ),
    ] = "sound",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Result files of --format, in a folder of their own by time.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    baseline: BaselineFile = None,
    regression_threshold: RegressionThreshold = 0.05,
    gate: GateOption = "threshold",
    allow_underpowered: AllowUnderpowered = False,
    min_pass_rate: MinPassRate = None,
    allow_errors: AllowErrors = False,
    allow_lost: AllowLost = False,
    allow_unjudged: AllowUnjudged = False,
    repeats: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Runs of each scenario.", rich_help_panel=_RUNNING),
    ] = 1,
    concurrency: Annotated[
        int, typer.Option(min=1, metavar="N", help="Scenarios at once.", rich_help_panel=_RUNNING)
    ] = 1,
    timeout: Annotated[
        float | None,
        typer.Option(metavar="SECONDS", help="Per scenario.", rich_help_panel=_RUNNING),
    ] = None,
    retries: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="N",
            help="More tries for a scenario whose agent raised.",
            rich_help_panel=_RUNNING,
        ),
    ] = 0,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Keeps what is done; a run with the same file goes on where one was interrupted.",
            rich_help_panel=_RUNNING,
        ),
    ] = None,
    save: SaveFile = None,
    junit: JUnitFile = None,
    markdown: MarkdownFile = None,
    html: HtmlFile = None,
    json: JsonFile = None,
    quiet: Quiet = False,
) -> None:
    """Run scenarios against an agent, judge what it did, and say whether it may be released.

    The exit code is 0 if it may; 1 if it got worse than the baseline, missed a gate, ran into an
    error, lost records, ran out of its budget for judges or was judged by nothing; 2 if the
    command or a file is wrong; 130 after Ctrl-C. Without baseline and gates a failed check stops
    nothing. Progress goes to standard error, with what the agent prints.

    **The agent** is a function from a message to the answer, plain or async. It leaves records
    on the spans that it makes, and those go to the profiles given here:

        from scouter.evaluate import EvalRecord
        from scouter.tracing import get_tracer

        tracer = get_tracer("shop")

        def answer(message):
            with tracer.start_as_current_span("answer") as span:
                text = f"You asked: {message}"
                span.add_queue_item("shop", EvalRecord(context={"answer": text}))
                return text

    Parameters called `session`, `history` and `queue` get the conversation's id, its turns so far
    as chat messages, and the queue. A class is made once for each attempt, and its instance
    answers. A function that requires `queue` and takes no message is called for each attempt and
    gives back the agent. A subclass of `EvalOrchestrator` runs the scenarios itself. A module that
    sets up a queue with profiles of its own needs no `--profile`. The working folder is on the
    import path.

    **Examples**

        scouter eval shop.yaml --agent shop:answer --save b.json
        scouter eval shop.yaml --agent shop:answer --baseline b.json
        scouter eval shop.yaml --agent shop:answer --profile shop_profile.yaml
        scouter eval shop.yaml --agent shop:answer --repeats 5 --html report.html
        scouter eval shop.yaml --agent shop:answer --min-pass-rate 0.9
        scouter eval shop.yaml --agent shop:answer --judge-budget 0.50
        scouter eval shop.yaml --agent shop:answer --judge-cache none
        scouter eval shop.yaml --agent shop:answer --calibration judge.json
        scouter eval hr.json --format watsonx --agent hr:answer
    """
    outputs = Outputs(junit=junit, markdown=markdown, html=html, json=json, save=save)
    outputs.check()
    if output is not None and file_format is None:
        raise ConfigError("--output has result files of another system; it needs --format")
    if resume is not None:
        check_writable("--resume", resume)
    from scouter.cli.release_check import (  # the engine takes most of the start
        Check,
        Standard,
        run_check,
    )
    from scouter.client.named_cache import named_cache, usual_collector_cache
    from scouter.replay.named_run import NamedRun
    from scouter.replay.reports.decision import Policy

    run = NamedRun(
        agent=agent,
        profiles=profile or [],
        judge=judge,
        providers=providers,
        judge_cache=named_cache(judge_cache),
        usual_cache=usual_collector_cache(),
        judge_budget_usd=judge_budget,
        judge_timeout_s=judge_timeout,
        calibrations=calibration or [],
        simulated_user=simulated_user,
        repeats=repeats,
        concurrency=concurrency,
        timeout_s=timeout,
        retries=retries,
        resume=resume,
        progress=False if quiet else None,
    )
    standard = Standard(
        policy=Policy(
            gate=gate,
            allow_underpowered=allow_underpowered,
            allow_errors=allow_errors,
            allow_lost=allow_lost,
            allow_unjudged=allow_unjudged,
        ),
        baseline=baseline,
        regression_threshold=regression_threshold,
        min_pass_rate=min_pass_rate,
        quiet=quiet,
    )
    standard.check()
    if file_format is not None:
        from scouter.cli.eval_watsonx import WatsonxCheck, check_watsonx

        foreign = WatsonxCheck(
            path=scenarios, run=run, standard=standard, compat=compat, output=output
        )
        check_watsonx(foreign, outputs)
        return
    run_check(Check(scenarios=scenarios, run=run, standard=standard), outputs)
