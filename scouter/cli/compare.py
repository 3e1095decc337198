"""The command `scouter compare`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from scouter.cli.outputs import ALLOWS_NOTHING, Outputs
from scouter.errors import ConfigError


def compare(
    baseline: Annotated[
        Path, typer.Argument(metavar="A", help="Results of the baseline, from scouter eval --save.")
    ],
    new: Annotated[Path, typer.Argument(metavar="B", help="Results of the run in question.")],
    regression_threshold: Annotated[
        float, typer.Option(min=0, max=1, help="Smallest fall of a pass rate that counts.")
    ] = 0.05,
    gate: Annotated[
        Literal["threshold", "statistical"],
        typer.Option(help="What decides: the threshold, or the verdict of the statistics."),
    ] = "threshold",
    allow_underpowered: Annotated[
        bool,
        typer.Option(
            "--allow-underpowered",
            help="With --gate statistical: let runs pass that are too small to tell.",
        ),
    ] = False,
    allow_lost: Annotated[
        bool,
        typer.Option("--allow-lost", help="Let B pass although it lost records or spans."),
    ] = False,
    allow_unjudged: Annotated[
        bool,
        typer.Option(
            "--allow-unjudged", help="Let B pass although its budget for judges was spent."
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
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the verdict.")] = False,
) -> None:
    """Compare the results of two runs: did B get worse than A?

    Both files hold a replay (`scouter eval --save`, `results.save()`), or both the results of
    records (`EvalResults.save()`). The exit code is 0 if B did not; 1 if it did; 2 if
    the command or a file is wrong.

        scouter compare baseline.json today.json
        scouter compare baseline.json today.json --gate statistical
        scouter compare baseline.json today.json --html comparison.html
    """
    outputs = Outputs(junit=junit, markdown=markdown, html=html, json=json)
    outputs.check()
    if allow_underpowered and gate != "statistical":
        raise ConfigError(ALLOWS_NOTHING)
    from scouter.cli.saved_results import load_both
    from scouter.cli.verdict_text import print_decision  # the engine takes most of the start
    from scouter.evaluate.comparison_tables import print_scenario_comparison
    from scouter.replay.reports.decision import Policy
    from scouter.replay.reports.report import Report

    before, after = load_both(baseline, new)
    comparison = after.compare_to(before, regression_threshold)
    report = Report(
        results=after,
        comparison=comparison,
        policy=Policy(
            gate=gate,
            allow_underpowered=allow_underpowered,
            allow_errors=True,
            allow_lost=allow_lost,
            allow_unjudged=allow_unjudged,
        ),
        title=f"{new.name} compared with {baseline.name}",
    )
    outputs.write(report)
    if not quiet:
        print_scenario_comparison(comparison, threshold_decides=gate == "threshold")
    print_decision(report, quiet=quiet)
    if report.decision.exit_code:
        raise typer.Exit(report.decision.exit_code)
