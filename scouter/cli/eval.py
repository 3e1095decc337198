"""The command `scouter eval`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from scouter.cli.check_options import (
    BASELINE,
    REPORTS,
    AcceptChanged,
    AllowErrors,
    AllowLost,
    AllowUnjudged,
    AllowUnreviewed,
    AnswerCache,
    BaselineFile,
    CalibrationFiles,
    Checks,
    HtmlFile,
    JsonFile,
    JudgeBudget,
    JudgeTimeout,
    JUnitFile,
    MarkdownFile,
    MinPassRate,
    MinScenarioPassRate,
    MinScore,
    OwnJudge,
    Profiles,
    Providers,
    Push,
    Quiet,
    RegressionThreshold,
    RequireRuledOut,
    SaveFile,
    Verbose,
)
from scouter.cli.outputs import Outputs, check_writable
from scouter.errors import ConfigError

_RUNNING = "How it runs"
_FOREIGN = "Files of other systems"
_TRACES = "Recorded traces"


def evaluate(
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME|URL|FILE",
            help="The agent: a function from the message to the answer, or what else the text "
            "above names; the address of one, or a file that describes it. --traces, "
            "--format vertex, --config and --recorded work without.",
        ),
    ] = None,
    scenarios: Annotated[
        Path | None,
        typer.Argument(
            metavar="SCENARIOS",
            help="Scenario file: .yaml, .json or .jsonl; with --format what that system has; with "
            "--config a dataset in the place of the file's.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Config file of NeMo Agent Toolkit; without --agent the answers that its dataset "
            "holds are scored.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    traces: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|URL",
            help="Traces that were recorded, in place of --agent and scenarios: an OTLP file, a "
            "folder or a pattern of such files, or the address of a collector. Can be given "
            "several times.",
            rich_help_panel=_TRACES,
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Only traces that began at this time or later: RFC 3339, 30m, 24h or 7d ago, or "
            "seconds since 1970.",
            rich_help_panel=_TRACES,
        ),
    ] = None,
    every_trace: Annotated[
        bool,
        typer.Option(
            "--every-trace",
            help="Judge also traces that no watch selects, or without a question, an answer and "
            "a call of an agent's own.",
            rich_help_panel=_TRACES,
        ),
    ] = False,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the token for the collector of --traces; else SCOUTER_AUTH_TOKEN.",
            rich_help_panel=_TRACES,
        ),
    ] = None,
    profile: Profiles = None,
    judge: OwnJudge = None,
    providers: Providers = None,
    judge_cache: AnswerCache = None,
    judge_budget: JudgeBudget = None,
    judge_timeout: JudgeTimeout = None,
    checks: Checks = None,
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
        Literal["watsonx", "vertex", "adk"] | None,
        typer.Option(
            "--format",
            help="Format of another system. watsonx: a ground-truth dataset, a folder of them, or "
            "a config.yml, of watsonx Orchestrate. vertex: a dataset of Vertex AI (.jsonl, .json, "
            ".csv, .parquet); without --agent what it holds is scored. adk: an eval set of ADK.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    compat: Annotated[
        Literal["sound", "wxo-1.6.9", "vertex"],
        typer.Option(
            help="Rules of --format: those documented, or the numbers of the original.",
            rich_help_panel=_FOREIGN,
        ),
    ] = "sound",
    recorded: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Conversations that were recorded, in place of --agent: with --format watsonx "
            "the files <case>.messages.json.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Result files of --format, in a folder of their own by time.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME,NAME…",
            help="Metrics of --format vertex and adk: names, 'trajectory_single_tool_use(tool)', "
            "or MODULE:NAME; by default those that hold a trajectory against a reference.",
            rich_help_panel=_FOREIGN,
        ),
    ] = None,
    min_score: MinScore = None,
    baseline: BaselineFile = None,
    confirm: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=1000,
            metavar="K",
            help="Most further attempts of a scenario, those of the whole suite among them, when a "
            "fall is looked into. By default as many as the decision takes; 0 for none.",
            rich_help_panel=BASELINE,
        ),
    ] = None,
    plan: Annotated[
        bool,
        typer.Option(
            "--plan",
            help="Runs nothing: prints what this check and others would see and cost, by the runs "
            "that --baseline stores.",
            rich_help_panel=BASELINE,
        ),
    ] = False,
    sequential: Annotated[
        bool,
        typer.Option(
            "--sequential",
            help="Makes the --repeats in rounds of the whole suite, and stops after the round that "
            "decides, for a go or against it.",
            rich_help_panel=BASELINE,
        ),
    ] = False,
    interleave: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:NAME",
            help="The version to compare with, called in turn with the agent, in place of a "
            "baseline.",
            rich_help_panel=BASELINE,
        ),
    ] = None,
    regression_threshold: RegressionThreshold = 0.05,
    require_ruled_out: RequireRuledOut = None,
    accept_changed: AcceptChanged = None,
    min_pass_rate: MinPassRate = None,
    min_scenario_pass_rate: MinScenarioPassRate = None,
    allow_errors: AllowErrors = False,
    allow_lost: AllowLost = False,
    allow_unjudged: AllowUnjudged = False,
    allow_unreviewed: AllowUnreviewed = False,
    repeats: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Runs of each scenario.", rich_help_panel=_RUNNING),
    ] = 1,
    concurrency: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Scenarios at once; 1 by default, and what a --config says.",
            rich_help_panel=_RUNNING,
        ),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS", help="Longest time of one conversation.", rich_help_panel=_RUNNING
        ),
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
            help="Keeps finished attempts; the same command then does only the rest.",
            rich_help_panel=_RUNNING,
        ),
    ] = None,
    agent_version: Annotated[
        str,
        typer.Option(
            metavar="TEXT",
            help="Name of the agent's version, instead of the git revision: --save keeps all runs "
            "of one version.",
            rich_help_panel=_RUNNING,
        ),
    ] = "",
    save: SaveFile = None,
    save_baseline: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Results of the version that --interleave names.",
            rich_help_panel=REPORTS,
        ),
    ] = None,
    push: Push = None,
    junit: JUnitFile = None,
    markdown: MarkdownFile = None,
    html: HtmlFile = None,
    json: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Run scenarios against an agent, evaluate the answers, and decide about its release.

    The exit code is 0 if nothing stops the release; 1 if the agent regressed against the baseline,
    missed a gate or raised an error, if records were lost, if the budget for judges ran out, or if
    nothing was evaluated; 2 if the command or a file is wrong; 3 if the comparison with the
    baseline is inconclusive; 130 after Ctrl-C. Without baseline and gates a failed check stops
    nothing. Progress and the agent's output go to standard error.

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
    gives back the agent. An object with `query(input=…)` is called by that. A subclass of
    `EvalOrchestrator` runs the scenarios itself. A module that sets up a queue with profiles of its
    own needs no `--profile`. The working folder is on the import path.

    **Traces** that exist are judged with `--traces`, and nothing is stored: files of OTLP (protobuf
    or JSON, as SDKs send it or the OpenTelemetry Collector's file exporter writes it; plain, gzip
    or zstd; traces and the log events of them), Parquet files of a collector, or the traces of a
    collector that runs. A trace becomes a record with the user's question and the agent's answer;
    traces of one conversation are one scenario. It is the way to try a profile. The exit code is 2
    if there was nothing to judge, and 1 if a part could not be read.

    An agent behind HTTP is a file with `url`, `headers`, `body` and the path of the `answer`
    (`docs/eval.md`), or an address alone: that gets `{"message", "session", "history"}` as JSON.

    **Examples**

        scouter eval shop.yaml --agent shop:answer --save b.json
        scouter eval shop.yaml --agent shop:answer --baseline b.json --plan
        scouter eval shop.yaml --agent shop:answer --baseline b.json
        scouter eval shop.yaml --agent shop:answer --baseline b.json --confirm 8
        scouter eval s.yaml --agent s:ask --baseline b.json --repeats 5 --sequential
        scouter eval shop.yaml --agent shop:answer --interleave shop_1:answer
        scouter eval shop.yaml --agent shop:answer --profile shop_profile.yaml
        scouter eval shop.yaml --agent shop:answer --repeats 5 --html report.html
        scouter eval shop.yaml --agent shop:answer --min-scenario-pass-rate 0.9
        scouter eval shop.yaml --agent shop:answer --push http://127.0.0.1:4318
        scouter eval shop.yaml --agent shop:answer --judge-budget 0.50
        scouter eval shop.yaml --agent shop:answer --judge-cache none
        scouter eval shop.yaml --agent shop:answer --calibration judge.json
        scouter eval shop.yaml --agent http://127.0.0.1:8000/chat
        scouter eval --profile desk.yaml --traces traces.jsonl --save b.json
        scouter eval --profile desk.yaml --traces http://127.0.0.1:4318 --since 1d
        scouter eval --config config.yml --agent shop:answer --min-score qa=0.8
        scouter eval hr.json --format watsonx --agent hr:answer
        scouter eval hr.json --format watsonx --recorded results/messages
        scouter eval data.jsonl --format vertex --min-score trajectory_recall=0.9
        scouter eval data.jsonl --format vertex --agent home:agent --output results
    """
    is_rows, has_agent = file_format in ("vertex", "adk"), agent is not None
    _check_answers(agent, recorded, file_format, config, traces)
    others = scenarios or agent or file_format or config
    _check_traces(
        traces, has_others=bool(others), has_more=bool(since or every_trace or token_file)
    )
    if not is_rows and (metrics or compat == "vertex"):
        raise ConfigError("--metrics and --compat vertex belong to --format vertex")
    if compat == "wxo-1.6.9" and file_format != "watsonx":
        raise ConfigError(f"--compat {compat} belongs to --format watsonx")
    outputs = Outputs(
        junit=junit,
        markdown=markdown,
        html=html,
        json=json,
        save=save,
        save_baseline=save_baseline,
    )
    outputs.check()
    if output is not None and file_format is None and config is None:
        raise ConfigError("--output has result files of another system; it needs --format")
    if allow_unreviewed and (file_format is not None or config is not None or traces):
        raise ConfigError("--allow-unreviewed: only scenario files have the mark; leave it out")
    if resume is not None:
        check_writable("--resume", resume)
    from scouter.cli.release_check import (  # the engine takes most of the start
        Check,
        Standard,
        least_of,
        run_check,
    )
    from scouter.client.judge_cache import named_cache, usual_collector_cache
    from scouter.replay.named_run import NamedRun
    from scouter.replay.reports.decision import Policy

    run = NamedRun(
        agent=agent or "",
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
        concurrency=concurrency or 1,
        timeout_s=timeout,
        retries=retries,
        resume=resume,
        progress=False if quiet else None,
        confirm=confirm,
        sequential=sequential,
        interleave=interleave,
        agent_version=agent_version,
        allow_unreviewed=allow_unreviewed,
    )
    standard = Standard(
        policy=Policy(
            require_ruled_out=require_ruled_out,
            allow_errors=allow_errors,
            allow_lost=allow_lost,
            allow_unjudged=allow_unjudged,
        ),
        baseline=baseline or (),
        regression_threshold=regression_threshold,
        accept_changed=accept_changed or (),
        min_pass_rate=min_pass_rate,
        min_scenario_pass_rate=min_scenario_pass_rate,
        min_scores=least_of(min_score or ()),
        push=push,
        quiet=quiet,
        verbose=verbose,
    )
    standard.check(has_other=interleave is not None)
    if traces:
        from scouter.cli.eval_traces import TraceCheck, check_traces

        stored = TraceCheck(
            scenarios=Path(), run=run, standard=standard, plan=plan, traces=traces, since=since,
            every_trace=every_trace, concurrency=concurrency, token_file=token_file,
        )  # fmt: skip
        check_traces(stored, outputs)
        return
    if config is not None:
        from scouter.cli.eval_nvidia import ConfigCheck, check_config

        described = ConfigCheck(
            scenarios=config, run=run, standard=standard, has_agent=has_agent,
            dataset=scenarios, concurrency=concurrency, plan=plan,
        )  # fmt: skip
        refused = {"--format": file_format, "--output": output}
        check_config(described, outputs, [name for name, value in refused.items() if value])
        return
    if scenarios is None:
        raise ConfigError("missing argument SCENARIOS, or --config FILE in its place")
    if file_format == "vertex" or file_format == "adk":
        from scouter.cli.eval_vertex import VertexCheck, check_vertex

        rows = VertexCheck(
            scenarios=scenarios, file_format=file_format, run=run, standard=standard,
            has_agent=has_agent, metrics=metrics or (),
            compat="vertex" if compat == "vertex" else "sound", output=output, plan=plan,
        )  # fmt: skip
        check_vertex(rows, outputs)
        return
    if file_format is not None:
        from scouter.cli.eval_watsonx import WatsonxCheck, check_watsonx

        foreign = WatsonxCheck(
            scenarios=scenarios, file_format=file_format, run=run, standard=standard,
            recorded=recorded, output=output, plan=plan,
            compat="wxo-1.6.9" if compat == "wxo-1.6.9" else "sound",
        )  # fmt: skip
        check_watsonx(foreign, outputs)
        return
    check = Check(scenarios=scenarios, run=run, standard=standard)
    if plan:
        from scouter.cli.planning import print_plan
        from scouter.evaluate.scenario import EvalScenarios

        print_plan(check, outputs, [each.id for each in EvalScenarios.from_path(scenarios)])
    else:
        run_check(check, outputs)


def _check_answers(
    agent: str | None,
    recorded: Path | None,
    file_format: str | None,
    config: Path | None,
    traces: list[str] | None,
) -> None:
    """Refuse a command without answers to judge, or with answers of two kinds."""
    if recorded is not None and (file_format != "watsonx" or agent is not None):
        raise ConfigError("--recorded belongs to --format watsonx, and takes the place of --agent")
    if not (agent or recorded or config or traces or file_format in ("vertex", "adk")):
        raise ConfigError(
            "missing option --agent MODULE:NAME; only --traces, --format vertex, --config and "
            "--recorded need none"
        )


def _check_traces(traces: list[str] | None, *, has_others: bool, has_more: bool) -> None:
    """Refuse traces beside other cases, and their options without them."""
    if traces and has_others:
        raise ConfigError(
            "--traces takes the place of --agent, SCENARIOS, --format and --config; give it before "
            "each file, or the pattern of several in quotes"
        )
    if has_more and not traces:
        raise ConfigError("--since, --every-trace and --token-file belong to --traces")
