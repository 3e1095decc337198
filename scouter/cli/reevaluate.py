"""The command `scouter reevaluate`."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from scouter.cli.asking import (
    RecordId,
    Since,
    TokenFile,
    Url,
    connect,
    for_output,
    moment,
    print_table,
)
from scouter.cli.profile import line_of
from scouter.errors import ScouterError

if TYPE_CHECKING:
    from scouter.client.models.reevaluations import Flip, TaskCount
    from scouter.drift.profile import AgentEvalProfile

_PAGE: Final = 100
_SHOWN: Final = 50
_FILES: Final = (".json", ".yaml", ".yml")


def reevaluate(
    profile: Annotated[
        str,
        typer.Argument(
            metavar="PROFILE",
            help="A profile file; the uid or digest of a registered version; or an alias or name, "
            "for the active version.",
        ),
    ],
    apply: Annotated[
        bool,
        typer.Option(
            "--apply",
            help="Register the file, and store each new evaluation as the next revision.",
        ),
    ] = False,
    check: Annotated[
        bool, typer.Option("--check", help="End with 1 if any evaluation flips.")
    ] = False,
    outcome: Annotated[
        str | None,
        typer.Option(
            metavar="OUTCOME",
            help="Only evaluations with this outcome: passed, failed, errored or skipped.",
        ),
    ] = None,
    record: RecordId = None,
    session: Annotated[str | None, typer.Option(metavar="SESSION_ID")] = None,
    trace: Annotated[str | None, typer.Option(metavar="TRACE_ID")] = None,
    since: Since = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Evaluate stored records by a version of their profile, and list the evaluations that flip.

    An evaluation flips if a task of both versions ends differently. New and removed tasks are
    counted apart, because there is nothing to compare them with.

    Without --apply nothing changes, and a file is not registered. With --apply it is registered
    as by `scouter profile push` without --activate. Needs the scope admin, and for a file the scope
    profile too. The exit code is 0, also if evaluations flip, unless --check is given.

        scouter reevaluate geographer.json --since 7d
        scouter reevaluate geographer.json --outcome failed --check
        scouter reevaluate geographer.json --apply
    """
    checked = flipped = stored = gone = moved = 0
    new: dict[str, Counter[str]] = {}
    removed: dict[str, Counter[str]] = {}
    shown: list[Flip] = []
    cursor: str | None = None
    found, began = _read(profile), moment(since, "--since")
    with connect(url, token_file) as client:
        if apply and not isinstance(found, str):
            known = client.register_profile(found)
            taken = "; its alert and sampling are now the file's" if known.is_active else ""
            typer.echo(f"registered {line_of(known)}{taken}")
            found = known.uid
        while True:
            try:
                page = client.reevaluate(
                    found, outcome=outcome, record_id=record, session_id=session, trace_id=trace,
                    since=began, dry_run=not apply, limit=_PAGE, cursor=cursor,
                )  # fmt: skip
            except ScouterError:
                if checked:  # the error stands on a line of its own, behind what is done already
                    typer.echo(f"; {stored} revisions stored" if apply else "", err=True)
                raise
            checked, flipped = checked + page.checked, flipped + page.flipped
            stored, gone = stored + page.stored, gone + page.gone
            moved += page.moved
            _add(new, page.new_tasks)
            _add(removed, page.removed_tasks)
            shown += page.items[: _SHOWN - len(shown)]
            told = f"\r{checked} evaluated again, {flipped} flipped"
            typer.echo(told, err=True, nl=False)
            cursor = page.next_cursor
            if cursor is None:
                break
    typer.echo("", err=True)
    if shown:
        print_table(("record", "before", "after", "tasks", "trace"), map(_row, shown))
    if flipped > len(shown):
        typer.echo(f"and {flipped - len(shown)} more")
    kept = f"; {stored} revisions stored" if apply else "; nothing was changed"
    lost = f"; the records of {gone} are no longer stored" if gone else ""
    typer.echo(f"{flipped} of {checked} evaluations flip{kept}{lost}")
    for word, counts in (("new", new), ("removed", removed)):
        for task, outcomes in counts.items():
            ends = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
            typer.echo(for_output(f"{word} task {task}: {ends}"))
    if moved:
        typer.echo(f"{moved} evaluations have another outcome for new and removed tasks alone")
    if check and flipped:
        raise typer.Exit(1)


def _read(profile: str) -> "AgentEvalProfile | str":
    """Read a profile that is a file; what is none names a registered one.

    Raises:
        ConfigError: There is no such file, and the name can be nothing else.
    """
    from scouter.drift.shipped import find_profile

    if not Path(profile).is_file():
        if Path(profile).suffix in _FILES:
            find_profile(profile)
        return profile
    from scouter.drift.profile import AgentEvalProfile

    return AgentEvalProfile.from_file(profile)


def _add(counts: "dict[str, Counter[str]]", page: "Iterable[TaskCount]") -> None:
    for each in page:
        counts.setdefault(each.task_id, Counter()).update(each.outcomes)


def _row(flip: "Flip") -> tuple[str, ...]:
    tasks = ", ".join(f"{each.task_id}: {each.before} -> {each.after}" for each in flip.tasks)
    return flip.record_id or flip.uid, flip.before, flip.after, tasks, flip.trace_id or ""
