"""The commands `scouter alerts …` and `scouter canary`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Final

import typer

from scouter.cli.asking import (
    JsonOfOne,
    TokenFile,
    Url,
    clock,
    connect,
    for_output,
    length_s,
    moment,
    print_lines,
    print_table,
)
from scouter.cli.check_options import group
from scouter.errors import ConfigError

if TYPE_CHECKING:
    from scouter.client.models.alerts import (
        Canary,
        CanaryVersion,
        Difference,
        DriftAlert,
        DriftSeries,
        SetupChange,
        Trouble,
    )

_WORDS: Final = {"error": "errored", "score": "low score", "amount": "over the limit"}
_UNWATCHED: Final = frozenset({"learning", "never_passed"})
"""States in which no fall can be proven."""

AlertId = Annotated[str, typer.Argument(metavar="ALERT", help="Its id.")]
Note = Annotated[str, typer.Option(metavar="TEXT", help="Why, for others.")]

alerts = group("alerts", "Look at what got worse, and say who looks after it.")


@alerts.command("list")
def list_alerts(
    every: Annotated[bool, typer.Option("--all", help="Also those that are over.")] = False,
    json: JsonOfOne = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List what keeps results from being made, the alerts, and what is watched or not yet.

    The exit code is 1 while an alert is firing or there is such trouble.

    scouter alerts list
    """
    with connect(url, token_file) as client:
        answer = client.alerts()
        watched = None if json else client.drift_series()
    found = [each for each in answer.drift if every or each.state != "resolved"]
    if watched is None:
        print_lines([answer.model_copy(update={"drift": tuple(found)})])
    else:
        _print_all(answer.trouble, found)
        _print_watch(watched.items)
        for each in watched.left_out:
            typer.echo(for_output(f"no series of its own: {each}"))
        if watched.items:
            typer.echo(for_output(f"in all: {watched.promise}"))
    if answer.trouble or any(each.state == "firing" for each in found):
        raise typer.Exit(1)


def _print_all(trouble: "Iterable[Trouble]", found: "Iterable[DriftAlert]") -> None:
    for each in trouble:
        alert = f" (alert {each.alert_id} {each.state})" if each.alert_id else ""
        line = f"{each.trouble} since {clock(each.since)}: {each.message}{alert}"
        typer.echo(for_output(line))
    trial = [each for each in found if each.state == "shadow"]
    _print_list([each for each in found if each.state != "shadow"])
    if trial:
        typer.echo("\non trial, sent to nobody (scouter alerts promote ALERT):")
        _print_list(trial)


def _print_watch(series: "Iterable[DriftSeries]") -> None:
    """Print which fall of a task would be seen; first those of which none would, with the reason.

    Of a task that is not watched no alert means nothing.
    """
    tasks: dict[tuple[bool, str, str, str], list[str]] = {}
    for each in series:
        if each.kind in ("pass", "amount") and each.state != "fallen" and not each.slice:
            is_watched = each.state not in _UNWATCHED
            words = each.summary if is_watched else each.against
            key = (is_watched, each.profile, each.version, words)
            tasks.setdefault(key, []).append(each.task or "the whole record")
    for (is_watched, profile, version, words), names in sorted(tasks.items()):
        what = f"{profile}{f' in version {version}' if version else ''} ({', '.join(names)})"
        state, colour = ("watched", None) if is_watched else ("not watched yet", "yellow")
        typer.secho(for_output(f"{state}: {what}: {words}"), fg=colour)


@alerts.command()
def show(
    alert_id: AlertId, json: JsonOfOne = False, url: Url = None, token_file: TokenFile = None
) -> None:
    """Show one alert: evidence, examples with the command that shows each, history.

    scouter alerts show 5f0c…
    """
    with connect(url, token_file) as client:
        found = client.alert(alert_id)
    if json:
        print_lines([found])
        return
    lines = [
        f"{found.title} ({found.state})",
        f"when it was proven: {found.opened.message}",
        *([f"now: {found.now.message}"] if found.now else []),
        *(f"changed just before: {_changed(each)}" for each in found.changed),
        *([f"compared with {found.opened.against}"] if found.opened.against else []),
        *(
            f"fell with it: {each.title}: {each.message}"
            + (f", over {clock(each.ended_at)}" if each.ended_at else "")
            for each in found.together
            if (each.task, each.kind, each.slice) != (found.task, found.kind, found.slice)
        ),
        *([found.explanation.sentence] if found.explanation else []),
        *(
            f"explained by {each.name}: {each.before_passed / each.before_count:.1%} before, "
            f"{each.after_passed / each.after_count:.1%} of {each.after_count:,} since"
            for each in (found.explanation.traits if found.explanation else ())
            if each.is_named
        ),
        *(
            f"{_WORDS.get(found.kind, 'failed')}{f' ({each.reason})' if each.reason else ''}: "
            f"{each.record_id or each.uid}  scouter results "
            + (f"trace {each.trace_id}" if each.trace_id else f"record {each.uid}")
            for each in found.examples
        ),
        *(
            f"{each.channel}: {each.told} {each.state} {clock(each.at)} {each.answer}".rstrip()
            for each in found.deliveries
        ),
        *(
            f"{clock(each.changed_at)} {each.state} {each.name or each.by} {each.note}".rstrip()
            for each in found.history
        ),
    ]
    for line in lines:
        typer.echo(for_output(line))


@alerts.command()
def promote(
    alert_id: AlertId, note: Note = "", url: Url = None, token_file: TokenFile = None
) -> None:
    """Let an alert that is on trial fire, so that people are notified; needs the scope profile.

    scouter alerts promote 5f0c… --note "it is right"
    """
    with connect(url, token_file) as client:
        _print(client.promote_alert(alert_id, note))


@alerts.command()
def ack(alert_id: AlertId, note: Note = "", url: Url = None, token_file: TokenFile = None) -> None:
    """Say that somebody looks after an alert; needs the scope profile.

    scouter alerts ack 5f0c… --note "looking at the search tool"
    """
    with connect(url, token_file) as client:
        _print(client.acknowledge_alert(alert_id, note))


@alerts.command()
def silence(
    alert_id: AlertId,
    length: Annotated[str, typer.Option("--for", metavar="LENGTH", help="Such as 30m, 8h, 2d.")],
    note: Note = "",
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Tell nobody of an alert for a while; needs the scope profile.

    scouter alerts silence 5f0c… --for 8h
    """
    with connect(url, token_file) as client:
        _print(client.silence_alert(alert_id, _seconds(length), note))


@alerts.command()
def resolve(
    alert_id: AlertId,
    note: Note = "",
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Results from now on are healthy: learn them anew."),
    ] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """End an alert; needs the scope profile. A fall that goes on alarms again.

    scouter alerts resolve 5f0c… --accept --note "harder questions since Monday"
    """
    with connect(url, token_file) as client:
        _print(client.resolve_alert(alert_id, note, accept=accept))


@alerts.command("test")
def send_test(
    channel: Annotated[
        str | None, typer.Argument(metavar="[CHANNEL]", help="Such as slack; all by default.")
    ] = None,
    resolved: Annotated[
        bool,
        typer.Option("--resolved", help="Say that the test is over: ends what a test opened."),
    ] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Send a test message and print the answers of the far sides; needs the scope admin.

    The exit code is 1 if one of them did not take it.

    scouter alerts test pagerduty
    """
    with connect(url, token_file) as client:
        found = client.send_test_alert(channel, resolved=resolved).items
    for each in found:
        word = "sent" if each.sent else "not sent"
        typer.echo(for_output(f"{each.channel}: {word}: {each.answer}"))
    if not all(each.sent for each in found):
        raise typer.Exit(1)


def _print_list(found: "Iterable[DriftAlert]") -> None:
    print_table(
        ("alert", "state", "since", "stands", "what", "evidence", "changed just before"),
        (
            (
                each.alert_id,
                each.state,
                clock(each.opened.since),
                "-" if each.condition else "yes" if each.stands else "alone",
                _with_others(each),
                (each.now or each.opened).message,
                ", ".join(f"{one.kind} {one.name}" for one in each.changed),
            )
            for each in found
        ),
        "Nothing has alarmed; --all lists also alerts that are over",
    )


def _with_others(each: "DriftAlert") -> str:
    more = len(each.together) - 1
    return f"{each.title} (with {more} more)" if more > 0 else each.title


def _changed(each: "SetupChange") -> str:
    return (
        f"{each.kind} {each.name} since {clock(each.first_at)}: {each.before:.0%} of the records "
        f"before, {each.share:.0%} since"
    )


def _print(found: "DriftAlert") -> None:
    until = f" until {clock(found.silenced_until)}" if found.silenced_until else ""
    typer.echo(for_output(f"{found.alert_id} {found.state}{until}: {found.title}"))


def _seconds(text: str) -> float:
    found = length_s(text)
    if not found:
        raise ConfigError(f"--for: {text!r} is no length of time; expected such as 30m, 8h or 2d")
    return found


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
        _print_canary(found)
    raise typer.Exit(_EXIT[found.decision])


def _print_canary(found: "Canary") -> None:
    typer.echo(for_output(f"{found.decision.replace('_', ' ')}: {found.reason}"))
    print_table(
        ("", "version", "conversations", "records", "pass rate", "error rate", "with a result"),
        [_version_row("stable", found.stable), _version_row("candidate", found.candidate)],
    )
    sure = f"with {1 - found.alpha:.4g} at all looks together"
    typer.echo(f"pass rate, candidate minus stable: {_points(found.pass_rate)} {sure}")
    typer.echo(f"share without errors, the same:    {_points(found.decided_rate)}")
    typer.echo(f"share with a result, the same:     {_points(found.result_rate)}")
    if found.split_chance is not None:
        typer.echo(f"chance that traffic is split as planned: {found.split_chance:.3g} at most")


def _version_row(name: str, version: "CanaryVersion") -> tuple[str, ...]:
    known = (version.pass_rate, version.error_rate, version.result_rate)
    rates = ("" if rate is None else f"{rate:.1%}" for rate in known)
    return name, version.version, f"{version.conversations:,}", f"{version.records:,}", *rates


def _points(difference: "Difference") -> str:
    return f"{100 * difference.lower:+.1f} to {100 * difference.upper:+.1f} points"
