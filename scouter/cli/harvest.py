"""The command `scouter scenarios harvest`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from scouter.cli.asking import ProfileName, Since, TokenFile, Until, Url, connect, moment
from scouter.cli.outputs import check_writable
from scouter.errors import ConfigError
from scouter.model.visible import visible

if TYPE_CHECKING:
    from pydantic import JsonValue

    from scouter.client.harvest import Harvest
    from scouter.evaluate.journey.evaluate import Compat

_NOTHING = 1


def harvest(
    output: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="Scenario file to write: .yaml or .jsonl; with --format a folder.",
        ),
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
    whole_sessions: Annotated[
        bool,
        typer.Option(
            "--whole-sessions",
            help="One scenario of each session, with what the user said in all its records; "
            "--limit and --sample count sessions.",
        ),
    ] = False,
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
    file_format: Annotated[
        Literal["watsonx"] | None,
        typer.Option(
            "--format",
            help="Write ground-truth datasets of watsonx Orchestrate, of records that passed.",
        ),
    ] = None,
    compat: Annotated[
        Literal["sound", "wxo-1.6.9"],
        typer.Option(help="Datasets of --format: as documented, or as the original records them."),
    ] = "sound",
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace an existing FILE, corrections included."),
    ] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Write stored traffic as scenarios, so that its failures become release checks.

    Each scenario repeats the user's question. It carries the failed tasks that need no record; the
    others need the profile. `expected_outcome` comes from the record or a task, if they state one.
    The agent's own answer and calls are marked as observed, for a person to correct. The same
    records give the same file. The exit code is 1 if there was nothing to write. An agent whose
    module sets up a queue with profiles is run without --profile.

        scouter scenarios harvest failures.yaml --failed --since 24h
        scouter scenarios harvest airline.yaml --profile airline --sample 50 --save-profiles .
        scouter scenarios harvest talk.yaml --session chat-7 --whole-sessions
        scouter scenarios harvest datasets --format watsonx --profile airline
        scouter eval failures.yaml --agent desk:answer --profile airline-5f2c1e0d9b8a.json
    """
    if file_format is None:
        check_writable("FILE", output)
    elif failed:
        raise ConfigError("--failed: a dataset wants what the agent did; what failed is no example")
    if file_format is None and compat != "sound":
        raise ConfigError(f"--compat {compat} belongs to --format watsonx")
    if save_profiles is not None and not save_profiles.is_dir():
        raise ConfigError(f"--save-profiles {save_profiles}: there is no such folder")
    from scouter.client.harvest import (
        Wanted,  # the engine takes most of the start
        write_scenarios,
    )
    from scouter.client.harvest import harvest as gather
    from scouter.drift.profile import AgentEvalProfile
    from scouter.evaluate.files.scenario_text import check_scenario_path

    if file_format is None:
        check_scenario_path(output)
    if file_format is None and output.exists() and not overwrite:
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
        whole_sessions=whole_sessions,
    )
    known = [AgentEvalProfile.from_file(file) for file in with_profile or ()]
    with connect(url, token_file) as client:
        found = gather(client, wanted, known)
    _tell(found)
    if not found.items:
        typer.echo("no record to make a scenario of; nothing was written", err=True)
        raise typer.Exit(_NOTHING)
    if file_format is None:
        write_scenarios(output, found.items)
        typer.echo(f"wrote {output}: {len(found.items)} scenarios")
    else:
        _write_datasets(output, found, compat, overwrite=overwrite)
    if save_profiles is not None:
        for digest, each in sorted(found.profiles.items()):
            name = "".join(letter if letter.isalnum() else "_" for letter in each.alias)
            path = each.save_to_json(save_profiles / f"{name}-{digest[:12]}.json")
            typer.echo(f"wrote {path}")


def _write_datasets(folder: Path, found: "Harvest", compat: "Compat", *, overwrite: bool) -> None:
    """Write the records that passed as datasets; the others are no examples."""
    from scouter.evaluate.outcome import Outcome
    from scouter.formats.watsonx.recorded import dataset_of, write_datasets

    datasets: dict[str, dict[str, JsonValue]] = {}
    for each in found.items:
        said = (each.scenario.metadata or {}).get("observed_answer")
        asked = [each.scenario.initial_query, *each.scenario.predefined_turns]
        answer = said if isinstance(said, str) else None
        dataset = dataset_of(each.scenario.id, asked, each.tool_calls, answer, compat=compat)
        was_right = all(one.outcome is Outcome.PASSED for one in (*each.earlier, each.evaluation))
        if was_right and dataset is not None:
            datasets[each.scenario.id] = dataset
    left = len(found.items) - len(datasets)
    if left:
        typer.echo(f"left out {left} records that did not pass, or did nothing", err=True)
    if not datasets:
        raise typer.Exit(_NOTHING)
    write_datasets(folder, datasets, overwrite=overwrite)
    typer.echo(f"wrote {folder}: {len(datasets)} datasets")


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
