"""The commands `scouter results …`."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from scouter.cli.asking import (
    ProfileName,
    RecordId,
    Since,
    TokenFile,
    Until,
    Url,
    clock,
    connect,
    for_output,
    moment,
    print_table,
)

if TYPE_CHECKING:
    from pydantic import BaseModel

    from scouter.client.models import Evaluation

Json = Annotated[bool, typer.Option("--json", help="One JSON object a line, for programs.")]
Outcome = Annotated[
    str | None, typer.Option(metavar="OUTCOME", help="passed, failed, errored, skipped or pending.")
]

results = typer.Typer(
    name="results",
    help="Show what the collector found.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",
)


@results.callback()
def _group() -> None:
    """Show what the collector found."""


@results.command()
def evaluations(
    profile: ProfileName = None,
    outcome: Outcome = None,
    task: Annotated[
        str | None, typer.Option(metavar="TASK", help="Verdicts in which this task was judged.")
    ] = None,
    task_outcome: Annotated[
        str | None, typer.Option(metavar="OUTCOME", help="How that task, or any task, ended.")
    ] = None,
    record: RecordId = None,
    session: Annotated[str | None, typer.Option(metavar="SESSION_ID")] = None,
    trace: Annotated[str | None, typer.Option(metavar="TRACE_ID")] = None,
    since: Since = None,
    until: Until = None,
    limit: Annotated[int, typer.Option(min=1, help="Most lines.")] = 20,
    json: Json = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List verdicts, newest first, with the tasks that did not pass.

    The table shows a record's id, or its uid where it has none; `--record` takes either, and
    `--json` has both.

        scouter results evaluations --outcome failed --since 24h
        scouter results evaluations --task right --task-outcome errored
        scouter results evaluations --limit 100000 --json | jq .uid
    """
    with connect(url, token_file) as client:
        found = client.evaluations(
            profile=profile,
            outcome=outcome,
            task_id=task,
            task_outcome=task_outcome,
            record_id=record,
            session_id=session,
            trace_id=trace,
            since=moment(since, "--since"),
            until=moment(until, "--until"),
            limit=min(limit, 1000),
        )
        some = islice(found, limit)
        if json:
            _print_lines(some)
        else:
            columns = ("evaluated", "profile", "record", "outcome", "not passed", "trace")
            print_table(columns, map(_row, some))


def _row(each: "Evaluation") -> tuple[str, ...]:
    wrong = (task for task in each.tasks if task.outcome in ("failed", "errored"))
    return (
        clock(each.evaluated_at),
        each.profile,
        each.record_id or (each.uid if each.scope == "record" else f"session {each.session_id}"),
        each.outcome,
        ", ".join(f"{task.task_id} ({task.reason or task.outcome})" for task in wrong),
        each.trace_id or "",
    )


@results.command()
def tasks(
    profile: ProfileName = None,
    service_version: Annotated[str | None, typer.Option(metavar="VERSION")] = None,
    since: Since = None,
    until: Until = None,
    json: Json = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Show the pass rate of every task, with its 95 % interval.

    scouter results tasks --profile airline --since 7d
    """
    with connect(url, token_file) as client:
        found = client.tasks(
            profile=profile,
            service_version=service_version,
            since=moment(since, "--since"),
            until=moment(until, "--until"),
        ).items
    if json:
        _print_lines(found)
        return
    columns = (
        "profile", "version", "task", "passed", "failed", "errored", "skipped", "rate", "95 %",
    )  # fmt: skip
    print_table(
        columns,
        (
            (
                each.alias,
                each.profile_version[:12],
                each.task_id,
                each.passed,
                each.failed,
                each.errored,
                each.skipped,
                "" if each.pass_rate is None else f"{each.pass_rate:.3f}",
                "" if each.pass_rate is None else f"{each.lower:.3f} to {each.upper:.3f}",
            )
            for each in found
        ),
    )


def _print_lines(items: "Iterable[BaseModel]") -> None:
    for each in items:
        typer.echo(for_output(each.model_dump_json()))
