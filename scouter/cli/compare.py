"""The command `scouter compare`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from scouter.cli.asking import TokenFile, Url
from scouter.cli.check_options import (
    AcceptChanged,
    AllowLost,
    AllowUnjudged,
    Checks,
    HtmlFile,
    JsonFile,
    JUnitFile,
    MarkdownFile,
    Quiet,
    RegressionThreshold,
    RequireRuledOut,
    Verbose,
)
from scouter.cli.compare_live import compare_live, is_live
from scouter.cli.outputs import Outputs
from scouter.errors import ConfigError

_LIVE: Final = "Live sides"


def compare(
    baseline: Annotated[
        str,
        typer.Argument(
            metavar="A",
            help="Results of the baseline, from scouter eval --save; a log of Inspect; or a side "
            "that the collector has: version:1.4, run:ID, last:24h or before:24h.",
        ),
    ],
    new: Annotated[
        str, typer.Argument(metavar="B", help="Results of the run in question; or a live side.")
    ],
    regression_threshold: RegressionThreshold = 0.05,
    require_ruled_out: RequireRuledOut = None,
    accept_changed: AcceptChanged = None,
    checks: Checks = None,
    allow_lost: AllowLost = False,
    allow_unjudged: AllowUnjudged = False,
    junit: JUnitFile = None,
    markdown: MarkdownFile = None,
    html: HtmlFile = None,
    json: JsonFile = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
    profile: Annotated[
        str | None,
        typer.Option(metavar="PROFILE", help="Of live sides: its alias.", rich_help_panel=_LIVE),
    ] = None,
    environment: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Of live sides: only its records.", rich_help_panel=_LIVE
        ),
    ] = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Compare the results of two runs: did B get worse than A?

    Both files hold a replay (`scouter eval --save`, `results.save()`), or both the results of
    records (`EvalResults.save()`), or both are logs of Inspect, whose samples are paired by id.
    The exit code is 0 if no regression is seen, which says how large a fall is ruled out; 1 if B
    regressed; 2 if the command or a file is wrong; 3 if the evidence is inconclusive, or if a check
    changed that cannot be compared. There is no agent to ask again: scenarios that passed and fail
    now are listed, and stop nothing unless the test does.

    Live sides are compared by the collector: each record counts, conversations are the unit of
    chance, and while a side takes traffic the intervals hold at every look.

        scouter compare baseline.json today.json
        scouter compare version:1.3 version:1.4 --profile desk
        scouter compare before:24h last:24h --profile desk
        scouter compare baseline.json today.json --require-ruled-out 10
        scouter compare baseline.json today.json --html comparison.html
        scouter compare gpt-4.eval gpt-5.eval
    """
    if is_live(baseline) or is_live(new):
        if junit or markdown or html or accept_changed:
            raise ConfigError(
                "live sides have --json FILE; --junit, --markdown, --html and "
                "--accept-changed are for two files of results"
            )
        code = compare_live(
            baseline, new, profile=profile, environment=environment, json=json, quiet=quiet,
            require_ruled_out=require_ruled_out, url=url, token_file=token_file,
        )  # fmt: skip
        raise typer.Exit(code)
    outputs = Outputs(junit=junit, markdown=markdown, html=html, json=json)
    outputs.check()
    from scouter.cli.decision_text import print_check  # the engine takes most of the start
    from scouter.evaluate.api.saved import load_both
    from scouter.formats.exports.inspect_log import is_log
    from scouter.replay.reports.decision import Policy
    from scouter.replay.reports.report import Report

    files = Path(baseline), Path(new)
    if any(map(is_log, files)):
        from scouter.formats.exports.inspect_runs import runs_of

        before, after = runs_of(*files)
    else:
        before, after = load_both(*files)
    comparison = after.compare_to(before, regression_threshold, accept_changed or ())
    report = Report(
        results=after,
        comparison=comparison,
        policy=Policy(
            require_ruled_out=require_ruled_out,
            allow_errors=True,
            allow_lost=allow_lost,
            allow_unjudged=allow_unjudged,
        ),
        title=f"{Path(new).name} compared with {Path(baseline).name}",
    )
    outputs.write(report)
    print_check(report, quiet=quiet, verbose=verbose, html=html)
    if report.decision.exit_code:
        raise typer.Exit(report.decision.exit_code)
