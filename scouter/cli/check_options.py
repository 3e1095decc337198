"""Options that several commands have: about judges, and about decisions."""

from pathlib import Path
from typing import Annotated

import typer

Providers = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Provider entries of judges: .yaml or .json; else those of your settings.",
    ),
]

JudgeTimeout = Annotated[
    float | None,
    typer.Option(
        min=0.001,
        metavar="SECONDS",
        help="Longest time for one answer of a judge; else the timeout_s of its provider entry, "
        "or the time_limit_s of --judge: 60 where neither says otherwise.",
    ),
]

JudgeBudget = Annotated[
    float | None,
    typer.Option(
        min=0,
        metavar="USD",
        help="Most that this run may spend on judges; what does not fit is skipped.",
    ),
]

JudgeProfile = Annotated[
    str, typer.Option(metavar="FILE|NAME", help="Profile with the judge task.")
]

JudgeTask = Annotated[
    str | None,
    typer.Option(metavar="ID", help="The judge task, where the profile has several."),
]


BASELINE = "Baseline and gates"
REPORTS = "Reports"

Profiles = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[ALIAS=]FILE|NAME",
        help="Profile for the agent's records: a file, or the name of a ready-made one. "
        "Can be given several times.",
    ),
]
OwnJudge = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:NAME",
        help="Judge for tasks that ask a model, instead of the providers that they name.",
    ),
]


def _use_checks(module: str | None) -> str | None:
    """Start the process of checks at once: profiles are read with their names known."""
    if module is not None:
        from scouter.evaluate.engine.checks import use_checks  # the engine loads late

        use_checks(module)
    return module


Checks = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE",
        help="Module whose functions tasks of the type Code may name, beside the checks of "
        "installed packages.",
        callback=_use_checks,
        expose_value=False,
    ),
]
AnswerCache = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|URL|none",
        help="Stores the answers of models, so that no question is sent twice: a "
        "file, or a collector. By default the collector at SCOUTER_URL where that is set, else "
        "~/.cache/scouter/judge.db.",
    ),
]
CalibrationFiles = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE|FOLDER",
        help="From scouter judge calibrate: corrects the pass rates of that judge. Can be "
        "given several times.",
    ),
]
BaselineFile = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Earlier results to compare with. Given several times: all their runs together.",
        rich_help_panel=BASELINE,
    ),
]
RegressionThreshold = Annotated[
    float,
    typer.Option(
        min=0,
        max=1,
        metavar="RATE",
        help="Smallest fall of a pass rate that is listed one by one.",
        rich_help_panel=BASELINE,
    ),
]
RequireRuledOut = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=100,
        metavar="POINTS",
        help="End with 3 (inconclusive) if a fall of more points than this is not ruled out.",
        rich_help_panel=BASELINE,
    ),
]
AcceptChanged = Annotated[
    list[str] | None,
    typer.Option(
        metavar="ID",
        help="A task, scenario or alias that changed since the baseline and cannot be compared "
        "with it, and that you looked at; without this the check ends with 3. Can be given "
        "several times.",
        rich_help_panel=BASELINE,
    ),
]
MinPassRate = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="RATE",
        help="Pass rate of all checks to reach; wins over the scenario file's.",
        rich_help_panel=BASELINE,
    ),
]
MinScenarioPassRate = Annotated[
    float | None,
    typer.Option(
        min=0,
        max=1,
        metavar="RATE",
        help="Share of scenarios that have to pass; wins over the scenario file's.",
        rich_help_panel=BASELINE,
    ),
]
MinScore = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TASK=MEAN",
        help="Mean that the scores of a task have to reach; wins over the scenario file's. Can be "
        "given several times.",
        rich_help_panel=BASELINE,
    ),
]
AllowErrors = Annotated[
    bool,
    typer.Option(
        "--allow-errors",
        help="Count errors as failed checks; baseline and gates decide.",
        rich_help_panel=BASELINE,
    ),
]
AllowUnjudged = Annotated[
    bool,
    typer.Option(
        "--allow-unjudged",
        help="Let a run pass although the budget was spent before every judge task was called, no "
        "record came for a profile, or a file of another system wants other checks.",
        rich_help_panel=BASELINE,
    ),
]
AllowUnreviewed = Annotated[
    bool,
    typer.Option(
        "--allow-unreviewed",
        help="Run scenarios that a model made and nobody has looked at (unreviewed: true).",
        rich_help_panel=BASELINE,
    ),
]
SaveFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Results, for a later --baseline.", rich_help_panel=REPORTS),
]
JUnitFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="JUnit XML.", rich_help_panel=REPORTS),
]
MarkdownFile = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="A comment for a pull request.", rich_help_panel=REPORTS),
]
HtmlFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="One page for people, with everything.", rich_help_panel=REPORTS
    ),
]
JsonFile = Annotated[
    Path | None, typer.Option(metavar="FILE", help="JSON for programs.", rich_help_panel=REPORTS)
]
Push = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Address of a collector that keeps the results, to be compared there; the token is "
        "SCOUTER_AUTH_TOKEN. A failure is reported and decides nothing.",
        rich_help_panel=REPORTS,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print only the decision.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print all tables, and all that broke.")
]
AllowLost = Annotated[
    bool,
    typer.Option(
        "--allow-lost",
        help="Let a run pass although records or spans are in no result.",
        rich_help_panel=BASELINE,
    ),
]


def group(name: str, text: str) -> typer.Typer:
    """Make a group of commands, which has its name even where it has one command only.

    Args:
        name: The word behind `scouter`.
        text: Its help.
    """
    made = typer.Typer(
        name=name,
        help=text,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode="markdown",
    )
    made.callback(help=text)(lambda: None)
    return made
