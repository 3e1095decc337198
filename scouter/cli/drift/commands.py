"""The commands `scouter drift …`."""

from pathlib import Path
from typing import Annotated, Final

import typer

from scouter.cli.asking import (
    ProfileName,
    Since,
    TokenFile,
    Until,
    Url,
    for_output,
    moment_ns,
    print_table,
    status,
)
from scouter.cli.check_options import group
from scouter.cli.drift.reading import (
    Alpha,
    Data,
    Deadline,
    Quiet,
    Source,
    Space,
    replayed,
)
from scouter.errors import ConfigError

FIRED: Final = 1
"""A series would have fired."""
UNKNOWN: Final = 3
"""There was nothing that a series could be compared with."""

drift = group("drift", "Replay stored results through the detectors.")


@drift.command()
def backtest(
    since: Since = None,
    until: Until = None,
    profile: ProfileName = None,
    healthy_until: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="History is known to be healthy up to here: alarms are false."
        ),
    ] = None,
    fall: Annotated[
        list[float] | None,
        typer.Option(metavar="POINTS", help="Fall to put in; several may be given: 5, 10, 20."),
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=999, help="Histories that are drawn.")] = 19,
    alpha: Alpha = 0.01,
    quiet_s: Quiet = 60.0,
    deadline_s: Deadline = 3600.0,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    data: Data = None,
    space: Space = "default",
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Say when each series would have fired on history, and how soon it sees a fall.

    Other histories are drawn from blocks of this one: whole days, or twentieths. `false alarms`
    counts those with an alarm, and, with --healthy-until, the alarms on history before that time.
    Falls are put into the second half of each: passes become fails by lot. Delays are the median of
    the draws, with the interval of nine in ten.

    The exit code is 0 if no series would have fired, 1 if one would have, 3 if no series had
    anything to be compared with.

        scouter drift backtest --since 30d --profile answers

        scouter drift backtest --data /var/lib/scouter --healthy-until 2026-11-01T00:00:00Z --json
    """
    from scouter.cli.drift.backtest_text import COLUMNS, as_json, notes, row
    from scouter.drift.history.backtest import FALLS
    from scouter.drift.history.backtest import backtest as look
    from scouter.drift.history.replay import Period

    falls = sorted({points / 100 for points in fall}) if fall else FALLS
    if not all(0 < each < 1 for each in falls):
        raise ConfigError("--fall: expected points above 0 and below 100, such as --fall 10")
    healthy_until_ns = moment_ns(healthy_until, "--healthy-until")
    period = Period(
        profile=profile,
        since_ns=moment_ns(since, "--since"),
        until_ns=moment_ns(until, "--until"),
    )
    source = Source(data=data, space=space, url=url, token_file=token_file)
    with status("reading") as tell, source.open() as history:
        known = replayed(history, period, alpha, (quiet_s, deadline_s), tell)
        count = len(known.series)
        found = list(
            look(
                known.series,
                healthy_until_ns=healthy_until_ns,
                falls=falls,
                seeds=seeds,
                progress=lambda done: tell(f"tested {done} of {count} series"),
            )
        )
    found.sort(key=lambda each: known.name(each.series))
    if json:
        typer.echo(for_output(as_json(found, known)))
    else:
        print_table(
            (*COLUMNS, *(f"fall of {each * 100:g}" for each in falls)),
            (row(each, known, falls) for each in found),
        )
        for line in notes(found, known):
            typer.echo(for_output(line))
    if any(each.alarms for each in found):
        raise typer.Exit(FIRED)
    if all(each.series.compared_from is None for each in found):
        raise typer.Exit(UNKNOWN)


@drift.command()
def report(
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="HTML file; nothing else is needed to read it."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object, for programs.")] = False,
    since: Since = None,
    until: Until = None,
    profile: ProfileName = None,
    alpha: Alpha = 0.01,
    quiet_s: Quiet = 60.0,
    deadline_s: Deadline = 3600.0,
    data: Data = None,
    space: Space = "default",
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Show rate and alarms of each series and what explains them; in a file with plots over time.

    Tools, models, agents and errors of the calls, and routes of the traces, are compared before and
    since the first change.

        scouter drift report --since 30d

        scouter drift report --since 30d --profile answers --output drift.html

        scouter drift report --data /var/lib/scouter --json
    """
    from scouter.cli.drift.report_page import COLUMNS, Report, as_json, notes, render, rows
    from scouter.drift.history.replay import Period
    from scouter.drift.history.report import mixes, report_of
    from scouter.evaluate.files.versioned import write_whole

    begin_ns = moment_ns(since, "--since")
    period = Period(profile=profile, since_ns=begin_ns, until_ns=moment_ns(until, "--until"))
    source = Source(data=data, space=space, url=url, token_file=token_file)
    with status("reading") as tell, source.open() as history:
        known = replayed(history, period, alpha, (quiet_s, deadline_s), tell)
        series = sorted(known.series, key=lambda each: (not each.alarms, known.name(each)))
        found = [report_of(each, history) for each in series]
        changes = [each.alarms[0].fall.since_ns for each in found if each.alarms]
        change_ns = min(changes, default=None)
        made = Report(
            known=known,
            series=found,
            alpha=alpha,
            since_ns=change_ns,
            mixes={} if change_ns is None else mixes(history, change_ns, begin_ns, known.end_ns),
        )
    if output is not None:
        write_whole(output, render(made))
    if json:
        typer.echo(for_output(as_json(made)))
    if output is None and not json:
        print_table(COLUMNS, rows(made))
        for line in notes(made):
            typer.echo(for_output(line))
