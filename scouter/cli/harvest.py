"""The command `scouter scenarios harvest`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from scouter.cli.asking import ProfileName, Since, TokenFile, Until, Url, connect, moment
from scouter.cli.outputs import check_writable
from scouter.errors import ConfigError
from scouter.model.visible import visible

if TYPE_CHECKING:
    from scouter.client.harvest import Harvest

_NOTHING = 1


def harvest(
    output: Annotated[
        Path, typer.Argument(metavar="FILE", help="Scenario file to write: .yaml or .jsonl.")
    ],
    failed: Annotated[
        bool, typer.Option("--failed", help="Only records that failed or errored.")
    ] = False,
    sample: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="N records of all, the same at every call."),
    ] = None,
    limit: Annotated[
        int, typer.Option(min=1, metavar="N", help="Without --sample: the newest N.")
    ] = 100,
    profile: ProfileName = None,
    session: Annotated[str | None, typer.Option(metavar="SESSION_ID")] = None,
    since: Since = None,
    until: Until = None,
    with_profile: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILE|NAME",
            help="Profile that judged, where the collector does not give its content. Can be "
            "given several times.",
        ),
    ] = None,
    save_profiles: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write the profiles that judged, for `scouter eval`."),
    ] = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace FILE if it is there, with what was corrected."),
    ] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Write stored traffic as scenarios, so that its failures become release checks.

    Each asks what the user asked and carries the checks that did not pass, where they can be
    made without the record; the others need the profile. `expected_outcome` is what the record or
    a task says was expected; what the agent answered and called is marked as observed, for a
    person to correct. The same records give the same file.
    The exit code is 1 if there was nothing to write. An agent whose module sets up a queue of its
    own is judged by the profiles there, and is run without --profile.

        scouter scenarios harvest failures.yaml --failed --since 24h
        scouter scenarios harvest airline.yaml --profile airline --sample 50 --save-profiles .
        scouter eval failures.yaml --agent desk:answer --profile airline-5f2c1e0d9b8a.json
    """
    check_writable("FILE", output)
    if save_profiles is not None and not save_profiles.is_dir():
        raise ConfigError(f"--save-profiles {save_profiles}: there is no such folder")
    from scouter.client.harvest import Wanted  # the engine takes most of the start
    from scouter.client.harvest import harvest as gather
    from scouter.client.harvest_file import check_scenario_path, write_scenarios
    from scouter.drift.profile import AgentEvalProfile

    check_scenario_path(output)
    if output.exists() and not overwrite:
        raise ConfigError(
            f"FILE {output}: it is there, and may hold what somebody corrected; give another name, "
            "or --overwrite to replace it"
        )
    wanted = Wanted(
        failed=failed,
        profile=profile,
        session_id=session,
        since=moment(since, "--since"),
        until=moment(until, "--until"),
        limit=limit if sample is None else sample,
        is_sample=sample is not None,
    )
    known = [AgentEvalProfile.from_file(file) for file in with_profile or ()]
    with connect(url, token_file) as client:
        found = gather(client, wanted, known)
    _tell(found)
    if not found.items:
        typer.echo("no record to make a scenario of; nothing was written", err=True)
        raise typer.Exit(_NOTHING)
    write_scenarios(output, found.items)
    typer.echo(f"wrote {output}: {len(found.items)} scenarios")
    if save_profiles is not None:
        for digest, each in sorted(found.profiles.items()):
            name = "".join(letter if letter.isalnum() else "_" for letter in each.alias)
            path = each.save_to_json(save_profiles / f"{name}-{digest[:12]}.json")
            typer.echo(f"wrote {path}")


def _tell(found: "Harvest") -> None:
    for each in found.silent:
        typer.echo(
            visible(f"left out {each.record_id or each.uid}: nothing stored says what was asked"),
            err=True,
        )
    if found.silent:
        typer.echo(
            "what the user said is read from the messages on spans of model calls, else from the "
            "record's context: put it there as `question`",
            err=True,
        )
    for digest in sorted(found.unknown_profiles):
        typer.echo(
            visible(f"the profile {digest[:12]} cannot be read; its tasks are not in the file"),
            err=True,
        )
