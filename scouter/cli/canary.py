"""The command `scouter canary`."""

from typing import TYPE_CHECKING, Annotated, Final

import typer

from scouter.cli.asking import TokenFile, Url, connect, for_output, moment, print_table

if TYPE_CHECKING:
    from scouter.client.models.alerts import Canary, CanaryVersion, Difference

_EXIT: Final = {"promote": 0, "roll_back": 1, "hold": 3}


def canary(
    stable: Annotated[str, typer.Option(metavar="VERSION", help="The version that people have.")],
    candidate: Annotated[str, typer.Option(metavar="VERSION", help="The new one.")],
    profile: Annotated[
        str | None, typer.Option(metavar="PROFILE", help="The only active one by default.")
    ] = None,
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="The whole record by default.")
    ] = None,
    service: Annotated[str | None, typer.Option(metavar="NAME", help="Any by default.")] = None,
    environment: Annotated[str | None, typer.Option(metavar="NAME", help="Any by default.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            metavar="TIME", help="Such as 2h; by default the first result of the candidate."
        ),
    ] = None,
    margin: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", min=0, max=1, help="Fall that is accepted; 0.05 is five points."
        ),
    ] = None,
    alpha: Annotated[
        float | None,
        typer.Option(metavar="CHANCE", min=0, max=1, help="Of either wrong decision; 0.05."),
    ] = None,
    share: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE", min=0, max=1,
            help="Of the conversations, planned for the candidate; is checked.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:  # fmt: skip
    """Hold a new version against the stable one while both take traffic.

    Versions are those of the spans (`service.version`). Ask as often as you like: the chance of a
    wrong decision is that of all looks together. The exit code is 0 to promote, 1 to roll back,
    3 while nothing is proven (hold), 2 for wrong input.

        scouter canary --stable 1.4.0 --candidate 1.5.0
        scouter canary --stable 1.4.0 --candidate 1.5.0 --share 0.1 --margin 0.02 --json
    """
    with connect(url, token_file) as client:
        found = client.canary(
            stable, candidate, profile=profile, task=task, service=service,
            environment=environment, since=moment(since, "--since"), margin=margin, alpha=alpha,
            share=share,
        )  # fmt: skip
    if as_json:
        typer.echo(found.model_dump_json(indent=2))
    else:
        _print(found)
    raise typer.Exit(_EXIT[found.decision])


def _print(found: "Canary") -> None:
    typer.echo(for_output(f"{found.decision.replace('_', ' ')}: {found.reason}"))
    print_table(
        ("", "version", "conversations", "records", "pass rate", "error rate", "with a result"),
        [_row("stable", found.stable), _row("candidate", found.candidate)],
    )
    sure = f"with {1 - found.alpha:.4g} at all looks together"
    typer.echo(f"pass rate, candidate minus stable: {_points(found.pass_rate)} {sure}")
    typer.echo(f"share without errors, the same:    {_points(found.decided_rate)}")
    typer.echo(f"share with a result, the same:     {_points(found.result_rate)}")
    if found.split_chance is not None:
        typer.echo(f"chance that traffic is split as planned: {found.split_chance:.3g} at most")


def _row(name: str, version: "CanaryVersion") -> tuple[str, ...]:
    known = (version.pass_rate, version.error_rate, version.result_rate)
    rates = ("" if rate is None else f"{rate:.1%}" for rate in known)
    return name, version.version, f"{version.conversations:,}", f"{version.records:,}", *rates


def _points(difference: "Difference") -> str:
    return f"{100 * difference.lower:+.1f} to {100 * difference.upper:+.1f} points"
