"""The command `scouter compare`."""

from pathlib import Path
from typing import Annotated

import typer

from scouter.cli.check_options import AcceptChanged, Checks, Quiet, Verbose
from scouter.cli.outputs import Outputs


def compare(
    baseline: Annotated[
        Path, typer.Argument(metavar="A", help="Results of the baseline, from scouter eval --save.")
    ],
    new: Annotated[Path, typer.Argument(metavar="B", help="Results of the run in question.")],
    regression_threshold: Annotated[
        float,
        typer.Option(min=0, max=1, help="Smallest fall of a pass rate that is listed one by one."),
    ] = 0.05,
    require_ruled_out: Annotated[
        float | None,
        typer.Option(
            min=0,
            max=100,
            metavar="POINTS",
            help="Exit with 3 where a fall of more points than this is not ruled out.",
        ),
    ] = None,
    accept_changed: AcceptChanged = None,
    checks: Checks = None,
    allow_lost: Annotated[
        bool,
        typer.Option("--allow-lost", help="Let B pass although it lost records or spans."),
    ] = False,
    allow_unjudged: Annotated[
        bool,
        typer.Option(
            "--allow-unjudged",
            help="Let B pass although its budget for judges was spent, or a profile got no record.",
        ),
    ] = False,
    junit: Annotated[Path | None, typer.Option(metavar="FILE", help="JUnit XML.")] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="For a comment on a pull request.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="One page with everything in it.")
    ] = None,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="For programs.")] = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Compare the results of two runs: did B get worse than A?

    Both files hold a replay (`scouter eval --save`, `results.save()`), or both the results of
    records (`EvalResults.save()`). The exit code is 0 if no regression is seen, which says how
    large a fall is ruled out; 1 if B regressed; 2 if the command or a file is wrong; 3 if the
    evidence is inconclusive, or if a check changed that cannot be compared. There is no agent to
    ask again: scenarios that passed and fail now are listed, and stop nothing unless the test does.

        scouter compare baseline.json today.json
        scouter compare baseline.json today.json --require-ruled-out 10
        scouter compare baseline.json today.json --html comparison.html
    """
    outputs = Outputs(junit=junit, markdown=markdown, html=html, json=json)
    outputs.check()
    from scouter.cli.decision_text import print_check  # the engine takes most of the start
    from scouter.cli.saved_results import load_both
    from scouter.replay.reports.decision import Policy
    from scouter.replay.reports.report import Report

    before, after = load_both(baseline, new)
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
        title=f"{new.name} compared with {baseline.name}",
    )
    outputs.write(report)
    print_check(report, quiet=quiet, verbose=verbose, html=html)
    if report.decision.exit_code:
        raise typer.Exit(report.decision.exit_code)
