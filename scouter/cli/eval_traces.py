"""The command `scouter eval-traces`."""

from pathlib import Path
from typing import Annotated

import typer

from scouter.cli.check_options import (
    AcceptChanged,
    AllowErrors,
    AllowLost,
    AllowUnjudged,
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
from scouter.cli.outputs import Outputs
from scouter.model.visible import one_line


def evaluate_traces(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES",
            help="OTLP files: traces, and the log events of them; or Parquet files of spans.",
        ),
    ],
    profile: Profiles = None,
    every_trace: Annotated[
        bool,
        typer.Option(
            "--every-trace",
            help="Judge also traces without a question, an answer and a call of an agent's own.",
        ),
    ] = False,
    judge: OwnJudge = None,
    providers: Providers = None,
    judge_cache: AnswerCache = None,
    judge_budget: JudgeBudget = None,
    judge_timeout: JudgeTimeout = None,
    checks: Checks = None,
    calibration: CalibrationFiles = None,
    baseline: BaselineFile = None,
    regression_threshold: RegressionThreshold = 0.05,
    require_ruled_out: RequireRuledOut = None,
    accept_changed: AcceptChanged = None,
    min_pass_rate: MinPassRate = None,
    min_scenario_pass_rate: MinScenarioPassRate = None,
    min_score: MinScore = None,
    allow_errors: AllowErrors = False,
    allow_lost: AllowLost = False,
    allow_unjudged: AllowUnjudged = False,
    save: SaveFile = None,
    push: Push = None,
    junit: JUnitFile = None,
    markdown: MarkdownFile = None,
    html: HtmlFile = None,
    json: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Evaluate recorded traces of agents, and decide whether they are good enough.

    The files are OTLP as SDKs send it (protobuf or JSON), or as the OpenTelemetry Collector's file
    exporter writes it (JSON lines and others); plain, gzip or zstd. Files of spans that a collector
    wrote as Parquet are read, too. The content says the format.
    Each trace becomes a record with the user's question and the agent's answer, as far as the spans
    tell them. Traces of one conversation are one session.

    The exit code is 0 if nothing stops the run; 1 if it regressed against the baseline, missed a
    gate or ran into an error, if the budget for judges ran out, if nothing was evaluated, or if a
    part of a file could not be read; 2 if the command is wrong or nothing could be read; 3 if the
    comparison with the baseline is inconclusive. Records are matched by their question, so the
    baseline may be another recording.

    **Examples**

        scouter eval-traces traces.jsonl --profile desk.yaml
        scouter eval-traces traces.jsonl --profile desk.yaml --save b.json
        scouter eval-traces today.jsonl --profile desk.yaml --baseline b.json
        scouter eval-traces spans.binpb logs.binpb --profile desk.yaml --min-pass-rate 0.9
    """
    outputs = Outputs(junit=junit, markdown=markdown, html=html, json=json, save=save)
    outputs.check()
    from scouter.cli.release_check import (  # the engine takes most of the start
        Standard,
        conclude,
        least_of,
    )
    from scouter.client.judge_cache import named_cache, usual_collector_cache
    from scouter.replay.recorded import RecordedRun, judge_recorded
    from scouter.replay.reports.decision import Policy

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
    standard.check()
    before = standard.read_baseline()
    recorded = judge_recorded(
        RecordedRun(
            files=files,
            every_trace=every_trace,
            profiles=profile or [],
            judge=judge,
            providers=providers,
            judge_cache=named_cache(judge_cache),
            usual_cache=usual_collector_cache(),
            judge_budget_usd=judge_budget,
            judge_timeout_s=judge_timeout,
            calibrations=calibration or [],
            baseline=before,
            accept_changed=accept_changed or (),
        )
    )
    for fault in recorded.faults:
        typer.echo(f"scouter: warning: {one_line(fault)}", err=True)
    if recorded.left_out:
        typer.echo(
            f"scouter: left out {recorded.left_out} traces without a question, an answer and a "
            "call of an agent's own; --every-trace judges them, too",
            err=True,
        )
    names = ", ".join(file.name for file in files[:3]) + (", …" if len(files) > 3 else "")
    conclude(recorded.results, before, standard, outputs, f"Traces of {names}")
