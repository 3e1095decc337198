"""The command `scouter reevaluate`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from scouter.cli.asking import RecordId, Since, TokenFile, Url, connect, moment, print_table
from scouter.errors import ConfigError

if TYPE_CHECKING:
    from scouter.client.client import ScouterClient
    from scouter.client.models import Flip

_PAGE: Final = 100
_SHOWN: Final = 50
_FILES: Final = (".json", ".yaml", ".yml")


def reevaluate(
    profile: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE",
            help="A profile's file, which is registered and not activated; or uid or digest of a "
            "registered version; by alias or name, the active one.",
        ),
    ],
    apply: Annotated[
        bool,
        typer.Option("--apply", help="Make the new verdicts the next revisions of the old ones."),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="End with 1 if any verdict is another one.")
    ] = False,
    outcome: Annotated[
        str | None,
        typer.Option(metavar="OUTCOME", help="Only what passed, failed, errored or was skipped."),
    ] = None,
    record: RecordId = None,
    session: Annotated[str | None, typer.Option(metavar="SESSION_ID")] = None,
    trace: Annotated[str | None, typer.Option(metavar="TRACE_ID")] = None,
    since: Since = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Judge what is stored by a version of its profile, and say which verdicts flip.

    Changes nothing without --apply. Needs the scope admin, and for a file the scope profile. The
    exit code is 0, also where verdicts flip, unless --check is given.

        scouter reevaluate geographer.json --since 7d
        scouter reevaluate geographer.json --outcome failed --check
        scouter reevaluate 5f0c…e1 --apply
    """
    checked = flipped = stored = gone = 0
    shown: list[Flip] = []
    cursor: str | None = None
    with connect(url, token_file) as client:
        ref, moved = _registered(client, profile), moment(since, "--since")
        while True:
            page = client.reevaluate(
                ref, outcome=outcome, record_id=record, session_id=session, trace_id=trace,
                since=moved, dry_run=not apply, limit=_PAGE, cursor=cursor,
            )  # fmt: skip
            checked, flipped = checked + page.checked, flipped + page.flipped
            stored, gone = stored + page.stored, gone + page.gone
            shown += page.items[: _SHOWN - len(shown)]
            typer.echo(f"\r{checked} verdicts judged again, {flipped} flipped", err=True, nl=False)
            cursor = page.next_cursor
            if cursor is None:
                break
    typer.echo("", err=True)
    if shown:
        print_table(("record", "before", "after", "tasks", "trace"), map(_row, shown))
    if flipped > len(shown):
        typer.echo(f"and {flipped - len(shown)} more")
    kept = f"; {stored} revisions stored" if apply else "; nothing was changed"
    lost = f"; what {gone} are about is stored no more" if gone else ""
    typer.echo(f"{flipped} of {checked} verdicts flip{kept}{lost}")
    if check and flipped:
        raise typer.Exit(1)


def _registered(client: "ScouterClient", profile: str) -> str:
    """Register a profile that is a file.

    Raises:
        ConfigError: There is no such file, and the name can be nothing else.
    """
    if not Path(profile).is_file():
        if Path(profile).suffix in _FILES:
            raise ConfigError(f"no profile file {profile!r}")
        return profile
    from scouter.drift.profile import AgentEvalProfile

    return client.register_profile(AgentEvalProfile.from_file(profile)).uid


def _row(flip: "Flip") -> tuple[str, ...]:
    tasks = ", ".join(f"{each.task_id}: {each.before} -> {each.after}" for each in flip.tasks)
    return flip.record_id or flip.uid, flip.before, flip.after, tasks, flip.trace_id or ""
