"""The command `scouter eval`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from scouter.cli.judge_options import JudgeBudget, JudgeTimeout, Providers
from scouter.cli.outputs import ALLOWS_NOTHING, Outputs, check_writable
from scouter.errors import ConfigError

_BASELINE = "What the run is held against"
_RUNNING = "How it runs"
_REPORTS = "Reports"

GateMode = Literal["threshold", "statistical"]


def evaluate(
    scenarios: Annotated[
        Path, typer.Argument(metavar="SCENARIOS", help="Scenario file: .yaml, .json or .jsonl.")
    ],
    agent: Annotated[
        str,
        typer.Option(
            metavar="MODULE:NAME",
            help="The agent: a function from the message to the answer, or what else the text "
            "above names.",
        ),
    ],
    profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[ALIAS=]FILE|NAME",
            help="Profile that judges the agent's records: a file or a ready-made one's name. "
            "Can be given several times.",
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="Judge for tasks that ask a model, instead of the providers that they name.",
        ),
    ] = None,
    providers: Providers = None,
    judge_cache: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL|none",
            help="Keeps what models answered, so that the same question is not asked again: a "
            "file, or a collector. By default the collector at SCOUTER_URL where that is set, else "
            "~/.cache/scouter/judge.db.",
        ),
    ] = None,
    judge_budget: JudgeBudget = None,
    judge_timeout: JudgeTimeout = None,
    calibration: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE|FOLDER",
            help="From scouter judge calibrate: corrects the pass rates of that judge. Can be "
            "given several times.",
        ),
    ] = None,
    simulated_user: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME|ENTRY/MODEL|judge",
            help="Plays the user in interactive scenarios: a function, a model of a provider "
            "entry, or the judge.",
        ),
    ] = None,
    baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Earlier results to compare with.", rich_help_panel=_BASELINE
        ),
    ] = None,
    regression_threshold: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="RATE",
            help="Smallest fall of a pass rate that counts.",
            rich_help_panel=_BASELINE,
        ),
    ] = 0.05,
    gate: Annotated[
        GateMode,
        typer.Option(
            metavar="threshold|statistical",
            help="What decides: the threshold, or the verdict of the statistics.",
            rich_help_panel=_BASELINE,
        ),
    ] = "threshold",
    allow_underpowered: Annotated[
        bool,
        typer.Option(
            "--allow-underpowered",
            help="With --gate statistical: let a run pass that is too small to tell.",
            rich_help_panel=_BASELINE,
        ),
    ] = False,
    min_pass_rate: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=1,
            metavar="RATE",
            help="Pass rate of all checks to reach; wins over the scenario file's.",
            rich_help_panel=_BASELINE,
        ),
    ] = None,
    allow_errors: Annotated[
        bool,
        typer.Option(
            "--allow-errors",
            help="Let errors be failed checks like others, left to baseline and gates.",
            rich_help_panel=_BASELINE,
        ),
    ] = False,
    allow_lost: Annotated[
        bool,
        typer.Option(
            "--allow-lost",
            help="Let a run pass although records or spans are in no result.",
            rich_help_panel=_BASELINE,
        ),
    ] = False,
    allow_unjudged: Annotated[
        bool,
        typer.Option(
            "--allow-unjudged",
            help="Let a run pass although the budget was spent before every judge task was asked.",
            rich_help_panel=_BASELINE,
        ),
    ] = False,
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
    save: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Results, for --baseline later.", rich_help_panel=_REPORTS
        ),
    ] = None,
    junit: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="JUnit XML.", rich_help_panel=_REPORTS),
    ] = None,
    markdown: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="For a comment on a pull request.", rich_help_panel=_REPORTS
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="One page with everything in it.", rich_help_panel=_REPORTS
        ),
    ] = None,
    json: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For programs.", rich_help_panel=_REPORTS)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the verdict.")] = False,
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
    """
    outputs = Outputs(junit=junit, markdown=markdown, html=html, json=json, save=save)
    outputs.check()
    if allow_underpowered and gate != "statistical":
        raise ConfigError(ALLOWS_NOTHING)
    if gate == "statistical" and baseline is None:
        raise ConfigError(
            "--gate statistical needs --baseline FILE, which it compares the run with"
        )
    if resume is not None:
        check_writable("--resume", resume)
    from scouter.cli.release_check import Check, run_check  # the engine takes most of the start
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
    check = Check(
        scenarios=scenarios,
        run=run,
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
    run_check(check, outputs)
