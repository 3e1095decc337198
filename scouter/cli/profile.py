"""The commands `scouter profile …`."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from scouter.cli.asking import (
    Json,
    TokenFile,
    Url,
    check_known,
    clock,
    connect,
    print_lines,
    print_table,
)
from scouter.cli.check_options import Checks, group
from scouter.cli.mutate import mutate
from scouter.errors import ConfigError, ScouterError
from scouter.model.visible import one_line, visible

if TYPE_CHECKING:
    from scouter.client.models.records import ProfileItem
    from scouter.drift.profile import AgentEvalProfile

profile = group("profile", "Look after profiles: files, and those of a collector.")
profile.command()(mutate)


@profile.command()
def check(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE|NAME…", help="Profile files, or names of ready-made ones."),
    ],
    *,
    checks: Checks = None,
    json: Json = False,
) -> None:
    """Check profiles without running anything.

    Prints each one's alias, digest and tasks, and expected values that can never work. The exit
    code is 2 if one is wrong; all are looked at.

        scouter profile check geographer.yaml agent_health
    """
    from scouter.drift.profile import AgentEvalProfile  # the engine takes most of the start
    from scouter.evaluate.tasks.expected_doubts import doubts

    broken = 0
    for file in files:
        row: dict[str, object] = {"file": file, "error": None, "doubts": []}
        try:
            found = AgentEvalProfile.from_file(file)
        except ScouterError as error:
            typer.echo(f"scouter: {one_line(error)}", err=True)
            row["error"] = str(error)
            broken += 1
        else:
            kinds = Counter(task.task_type for task in found.tasks)
            doubted = list(doubts(found.tasks))
            row |= {"alias": found.alias, "digest": found.digest, "tasks": dict(kinds)}
            row["doubts"] = [{"task_id": task_id, "why": doubt} for task_id, doubt in doubted]
            if not json:
                tasks = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
                typer.echo(
                    f"{file}: alias {found.alias!r}, digest {found.digest[:12]}, "
                    f"{len(found.tasks)} tasks ({tasks}){_watched(found)}"
                )
            for task_id, doubt in doubted:
                said = f"{file}: task {task_id!r}: expected_value: {doubt}"
                typer.echo(f"scouter: {visible(said)}", err=True)
                broken += 1
        if json:
            print_lines([row])
    if broken:
        raise typer.Exit(2)


@profile.command()
def schema() -> None:
    """Print the JSON schema of profile files, for editors that complete and check them.

        scouter profile schema > profile.schema.json

    Then begin a profile with `# yaml-language-server: $schema=profile.schema.json`.
    """
    from json import dumps

    from scouter.drift.profile import AgentEvalProfile

    typer.echo(dumps(AgentEvalProfile.model_json_schema(), indent=2))


@profile.command()
def healthy(
    file: Annotated[
        str, typer.Argument(metavar="FILE|NAME", help="Profile file, or a ready-made one.")
    ],
    run: Annotated[
        Path | None, typer.Argument(metavar="RESULTS", help="File of `scouter eval --save`.")
    ] = None,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Where the profile goes, as JSON.")
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="TIME", help="Take live results from then on instead, such as 30d."),
    ] = None,
    until: Annotated[
        str | None, typer.Option(metavar="TIME", help="Live results before this time.")
    ] = None,
    version: Annotated[
        str | None, typer.Option(metavar="VERSION", help="Live results of this version alone.")
    ] = None,
    margin: Annotated[
        float,
        typer.Option(
            min=0,
            max=1,
            metavar="SHARE",
            help="How far below its own rate a run of fewer than 1,000 units is healthy.",
        ),
    ] = 0.05,
    checks: Checks = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Let a profile say that a saved run, or a past time, is healthy: a collector holds to it.

    Prints for each task what falls these results can tell from chance. The collector learns of it
    by `scouter profile push`; it holds for versions that begin after that.

        scouter eval scenarios.yaml --profile desk.yaml --save run.json
        scouter profile healthy desk.yaml run.json --save desk.json
        scouter profile healthy desk.yaml --since 30d --until 2d --save desk.json
        scouter profile push desk.json --activate
    """
    from scouter.cli.healthy import of_run, of_time
    from scouter.drift.config import Healthy
    from scouter.drift.detect.detector import ALPHA
    from scouter.drift.profile import AgentEvalProfile
    from scouter.drift.series.reference import Stated

    if save is None:
        raise ConfigError("--save: name the file that the profile goes to")
    if (run is None) == (since is None):
        raise ConfigError("give either RESULTS or --since, which says what is healthy")
    found = AgentEvalProfile.from_file(file)
    if run is not None:
        saved = of_run(found, run, margin)
    else:
        with connect(url, token_file) as client:
            saved = of_time(client, found, since, until, version)
    before = found.config.healthy or Healthy()
    config = found.config.model_copy(update={"healthy": before.model_copy(update={"run": saved})})
    AgentEvalProfile(
        found.tasks, config, found.alias, found.watch, description=found.description,
        calls_told_by=found.calls_told_by,
    ).save_to_json(save)  # fmt: skip
    for each in Stated.of(Healthy(run=saved)).standards:
        said = each.reference(ALPHA).sentence()
        typer.echo(visible(f"{each.task or '(record)'}: {said}"))


@profile.command()
def push(
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE|NAME…", help="Profile files, or names of ready-made ones."),
    ],
    activate: Annotated[
        bool,
        typer.Option("--activate", help="Also make them the active versions of their aliases."),
    ] = False,
    checks: Checks = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Register profiles with a collector; needs the scope profile.

    Registering does not activate: records that name only the alias are still evaluated by the
    active version. All files are checked before the first one is sent.

        scouter profile push geographer.yaml
        scouter profile push geographer.yaml --activate
    """
    from scouter.drift.profile import AgentEvalProfile  # the engine takes most of the start

    found = [AgentEvalProfile.from_file(file) for file in files]
    with connect(url, token_file) as client:
        for each in found:
            _print_profiles([client.register_profile(each, set_active=activate)])


@profile.command("activate")
def activate_profile(
    uids: Annotated[
        list[str], typer.Argument(metavar="UID…", help="As `scouter profile list` shows them.")
    ],
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Make a registered profile the active version of its alias; needs the scope profile.

    It replaces the version that was active until then.

        scouter profile activate 0a1b2c3d4e5f60718293a4b5c6d7e8f9
    """
    with connect(url, token_file) as client:
        _print_profiles(client.activate_profile(uid) for uid in uids)


@profile.command("deactivate")
def deactivate_profile(
    uids: Annotated[
        list[str], typer.Argument(metavar="UID…", help="As `scouter profile list` shows them.")
    ],
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Leave an alias without an active version; needs the scope profile.

    scouter profile deactivate 0a1b2c3d4e5f60718293a4b5c6d7e8f9
    """
    with connect(url, token_file) as client:
        _print_profiles(client.deactivate_profile(uid) for uid in uids)


@profile.command()
def rules(
    files: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FILE|NAME]…", help="Profile files, or names of ready-made ones."),
    ] = None,
    objective: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            min=0,
            max=1,
            help="Of results that should pass; of the profile's alert condition by default.",
        ),
    ] = None,
    fewest: Annotated[
        int | None,
        typer.Option(
            "--min-results", metavar="N", min=1, help="No ticket on fewer results of a task; 30."
        ),
    ] = None,
    checks: Checks = None,
) -> None:
    """Write recording rules and alerts for Prometheus.

    They page when a collector has proven that a task fails more, and when evaluation stands
    still. They write tickets when a profile's objective is missed, and when results, records or
    spans are missing. Without a profile they are about all that a collector has, and know no
    objective.

        scouter profile rules geographer.yaml > rules.yml
        scouter profile rules geographer.yaml --objective 0.95 > rules.yml
    """
    from scouter.drift.profile import AgentEvalProfile  # the engine takes most of the start
    from scouter.drift.prometheus.rules import FEWEST, Objective, objective_of, rules_text

    if objective in (0, 1):
        raise ConfigError("--objective: expected a share between 0 and 1, such as 0.95")
    objectives: list[Objective] = []
    found = [AgentEvalProfile.from_file(file) for file in files or ()]
    for each in found:
        share = objective or objective_of(each)
        if share is not None:
            objectives.append(Objective(name=each.name, alias=each.alias, share=share))
        if share is None or not objectives[-1].burns:
            said = (
                "it states no objective; give --objective, or an alert condition `Below`"
                if share is None
                else f"an objective of {share:.1%} allows so many failures that no rate is too fast"
            )
            typer.echo(visible(f"scouter: {each.alias}: no rule on its budget: {said}"), err=True)
    typer.echo(rules_text([each.alias for each in found], objectives, fewest or FEWEST), nl=False)


@profile.command()
def dashboard() -> None:
    """Write a Grafana dashboard of all profiles of a collector.

    Import it in Grafana, and choose the Prometheus there.

        scouter profile dashboard > scouter.json
    """
    from scouter.drift.prometheus.rules import dashboard_text

    typer.echo(dashboard_text(), nl=False)


_COLUMNS: Final = (
    "alias", "name", "version", "active", "alert", "tasks", "registered", "digest", "uid",
)  # fmt: skip


@profile.command("list")
def list_profiles(
    alias: Annotated[str | None, typer.Option(metavar="ALIAS")] = None,
    json: Json = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List the profiles that a collector knows, in all their versions.

    scouter profile list --alias geographer
    """
    with connect(url, token_file) as client:
        known = list(client.profiles(alias=alias))
        if alias is not None and not known:
            check_known(
                "no profile has the alias", alias, (each.alias for each in client.profiles())
            )
    if json:
        print_lines(known)
    else:
        print_table(
            _COLUMNS,
            (
                (
                    each.alias,
                    each.name,
                    each.version,
                    "unusable" if each.unusable else "yes" if each.is_active else "",
                    _alert_of(each),
                    len(each.tasks),
                    clock(each.registered_at),
                    each.profile_version[:12],
                    each.uid,
                )
                for each in known
            ),
            "Register one with scouter profile push FILE --activate",
        )
    for each in known:
        if each.unusable:
            typer.echo(visible(f"{each.alias} cannot be used any more: {each.unusable}"), err=True)


def _alert_of(known: "ProfileItem") -> str:
    """The condition of its alert, or that nothing is watched."""
    if known.alert is None or known.is_active:
        return known.alert or ""
    return f"watches nothing, not active ({known.alert})"


def _print_profiles(profiles: "Iterable[ProfileItem]") -> None:
    for each in profiles:
        typer.echo(line_of(each))


def line_of(known: "ProfileItem") -> str:
    """One line on a profile: its names, its digest, and its state."""
    state = "active" if known.is_active else "not active"
    if known.alert is not None and not known.is_active:
        state += ": its alert watches nothing"
    digest = known.profile_version[:12]
    return visible(f"{known.uid}: alias {known.alias!r}, digest {digest}, {state}")


def _watched(found: "AgentEvalProfile") -> str:
    """Say which traces a profile watches, if any."""
    watch = found.watch
    if watch is None:
        return ""
    said = [f"watches {100 * watch.sample:.4g}% of the traces that match"]
    if found.plan.asks:
        said.append(f"asks judges about {100 * watch.judge_sample:.4g}% of those")
    return ", " + ", ".join(said)
