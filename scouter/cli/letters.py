"""The commands `scouter letters …` and `scouter erase`."""

from collections.abc import Mapping
from itertools import islice
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
from scouter.cli.check_options import group
from scouter.errors import ConfigError, ScouterError
from scouter.model.pair import pair_of
from scouter.model.visible import visible
from scouter.replay.reports.texts import counted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from scouter.client.client import ScouterClient
    from scouter.client.models.operation import ReplayedLetter


Reason = Annotated[
    str | None, typer.Option(metavar="REASON", help="Such as unknown_profile or invalid_span.")
]
Kind = Annotated[str | None, typer.Option(metavar="KIND", help="Such as span, record or log.")]

_LOOKED_AT: Final = 10_000
"""Letters among which the known reasons are looked for."""

letters = group("letters", "Look after dead letters: what the collector could not use.")


@letters.command("list")
def list_letters(
    reason: Reason = None,
    kind: Kind = None,
    limit: Annotated[int, typer.Option(min=1, help="Most lines.")] = 20,
    json: Json = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List dead letters, newest first.

    scouter letters list --reason unknown_profile
    """
    with connect(url, token_file) as client:
        found = list(
            islice(client.dead_letters(reason=reason, kind=kind, limit=min(limit, 1000)), limit)
        )
        if not found:
            _check_reason(client, reason)
    if json:
        print_lines(found)
    else:
        print_table(
            ("letter", "received", "kind", "reason", "bytes", "message"),
            (
                (
                    each.letter_id,
                    clock(each.received_at),
                    each.kind,
                    each.reason,
                    each.size_bytes,
                    each.message,
                )
                for each in found
            ),
            "A dead letter is what was accepted and could not be evaluated",
        )


@letters.command()
def replay(
    ids: Annotated[list[str] | None, typer.Argument(metavar="LETTER…", help="Their ids.")] = None,
    reason: Reason = None,
    kind: Kind = None,
    every: Annotated[bool, typer.Option("--all", help="All letters, whatever they are.")] = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Take dead letters in again, once what was wrong is mended; needs the scope admin.

    Either by id, or all of a reason or kind. A letter that is refused again stays. The exit code
    is 1 if one was.

        scouter letters replay 0f3a…
        scouter letters replay --reason unknown_profile
        scouter letters replay --all
    """
    has_filter = reason is not None or kind is not None
    if sum((bool(ids), every, has_filter)) != 1:
        raise ConfigError("letters replay: pass ids, or --reason and --kind, or --all")
    counts = {"accepted": 0, "waiting": 0, "refused": 0}
    with connect(url, token_file) as client:
        done = map(client.replay_letter, ids) if ids else _replay_all(client, reason, kind)
        try:
            for each in done:
                counts[each.result] = counts.get(each.result, 0) + 1
                if each.result == "refused":
                    typer.echo(visible(f"refused {each.letter_id}: {each.message}"), err=True)
        except ScouterError:
            if any(counts.values()):  # what was done stays done, and is in no answer any more
                _print(counts)
            raise
        if not any(counts.values()):
            _check_reason(client, reason)
    _print(counts)
    if counts["refused"]:
        raise typer.Exit(1)


def _check_reason(client: "ScouterClient", reason: str | None) -> None:
    """Refuse a reason that no letter has, where there are letters."""
    known = {each.reason for each in islice(client.dead_letters(limit=1000), _LOOKED_AT)}
    if reason is not None and known:
        check_known("no dead letter has the reason", reason, sorted(known))


def _print(counts: Mapping[str, int]) -> None:
    typer.echo(", ".join(f"{count} {visible(result)}" for result, count in counts.items()))


def _replay_all(
    client: "ScouterClient", reason: str | None, kind: str | None
) -> "Iterator[ReplayedLetter]":
    cursor = None
    while True:
        page = client.replay_letters(reason=reason, kind=kind, limit=100, cursor=cursor)
        yield from page.items
        cursor = page.next_cursor
        if cursor is None:
            return


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
    key, equals, value = pair_of(tag or "")
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
