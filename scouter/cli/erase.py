"""The command `scouter erase`."""

from typing import Annotated

import typer

from scouter.cli.asking import TokenFile, Url, clock, connect
from scouter.errors import ConfigError
from scouter.model.visible import visible
from scouter.replay.reports.texts import counted


def erase(
    session: Annotated[
        str | None, typer.Option(metavar="ID", help="All records of a session.")
    ] = None,
    trace: Annotated[str | None, typer.Option(metavar="ID", help="A trace.")] = None,
    record: Annotated[str | None, typer.Option(metavar="UID", help="A record, by its uid.")] = None,
    tag: Annotated[
        str | None, typer.Option(metavar="KEY=VALUE", help="All records with a tag.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Remove data for good, from the store, its logs and the dead letters; needs the scope admin.

    Prints what went, and which backups may still hold it. The exit code is 1 if nothing was found,
    as where it was erased before, and 2 if the question was not answered with yes.

        scouter erase --session s-17
        scouter erase --tag customer=4711 --yes
    """
    key, equals, value = (tag or "").partition("=")
    if tag is not None and not (key and equals):
        raise ConfigError(f"--tag {tag}: expected KEY=VALUE")
    given = {"session": session, "trace": trace, "record": record, "tag": tag}
    named = [f"{kind} {text!r}" for kind, text in given.items() if text is not None]
    if len(named) != 1:
        raise ConfigError("erase: pass exactly one of --session, --trace, --record, --tag")
    with connect(url, token_file) as client:
        if not yes:
            what = visible(f"the {named[0]} and all that belongs to it from {client.url}")
            if not _confirmed(f"Erase {what}? Nothing brings it back."):
                typer.echo("nothing was erased; --yes does not ask", err=True)
                raise typer.Exit(2)
        gone = client.erase(
            session_id=session,
            trace_id=trace,
            record_uid=record,
            tag=None if tag is None else (key, value),
        )
    is_found = any((gone.records, gone.spans, gone.evaluations, gone.dead_letters, gone.runs))
    if is_found:
        typer.echo(
            f"erased {counted(gone.records, 'record')}, {counted(gone.spans, 'span')}, "
            f"{counted(gone.evaluations, 'evaluation')}, "
            f"{counted(gone.dead_letters, 'dead letter')}"
            + (f", {counted(gone.runs, 'run')}" if gone.runs else "")
        )
    else:
        typer.echo(visible(f"nothing was found: {named[0]} is not stored, or was erased before"))
    if not gone.is_gone:
        typer.echo(
            "files may hold bytes of it: of a collector until its next housekeeping, within ten "
            "minutes; of a fleet until Kafka and PostgreSQL have dropped them"
        )
    for backup in gone.backups:
        where = backup.path or backup.name
        typer.echo(visible(f"it may still be in the backup {where} of {clock(backup.made_at)}"))
    if not is_found:
        raise typer.Exit(1)


def _confirmed(question: str) -> bool:
    try:
        return typer.confirm(question, err=True)
    except typer.Abort:  # nobody is there to answer
        typer.echo(err=True)
        return False
