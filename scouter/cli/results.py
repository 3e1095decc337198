"""The commands `scouter results …`."""

from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final, Literal

import typer

from scouter.cli.asking import (
    Json,
    JsonOfOne,
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
    print_lines,
    print_table,
)
from scouter.cli.check_options import group
from scouter.cli.look_text import (
    SHORT,
    WHOLE,
    first_reason,
    record_lines,
    session_lines,
    trace_lines,
)
from scouter.cli.result_lists import (
    Attributes,
    Limit,
    Outcome,
    Task,
    TaskOutcome,
    User,
    pairs,
    sessions,
    traces,
)
from scouter.errors import ConfigError
from scouter.model.visible import visible

if TYPE_CHECKING:
    from scouter.client.client import ScouterClient
    from scouter.client.models.evaluations import Evaluation, TaskUsage


ServiceVersion = Annotated[
    str | None, typer.Option(metavar="VERSION", help="Of the service that left the records.")
]
Full = Annotated[
    bool, typer.Option("--full", help="Values in full; of spans their attributes, too.")
]

_REASON: Final = 120
"""Characters of a reason in the table."""

results = group("results", "Show what the collector found.")


@results.command()
def evaluations(
    profile: ProfileName = None,
    outcome: Outcome = None,
    task: Task = None,
    task_outcome: TaskOutcome = None,
    record: RecordId = None,
    session: Annotated[str | None, typer.Option(metavar="SESSION_ID")] = None,
    trace: Annotated[str | None, typer.Option(metavar="TRACE_ID")] = None,
    service_version: ServiceVersion = None,
    setup: Annotated[
        str | None,
        typer.Option(
            metavar="KIND=VALUE", help="What the record ran with, such as fingerprint=fp_1."
        ),
    ] = None,
    user: User = None,
    attributes: Attributes = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    json: Json = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List evaluations, newest first, with the tasks that did not pass and the first reason.

    The table shows a record's id, or its uid where it has none; `--record` takes either, and
    `--json` has both. `--profile` takes the digest of one version, too.

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
            service_version=service_version,
            setup=setup,
            user_id=user,
            attributes=pairs(attributes, "--attribute"),
            since=moment(since, "--since"),
            until=moment(until, "--until"),
            limit=min(limit, 1000),
        )
        some = islice(found, limit)
        if json:
            print_lines(some)
        else:
            columns = (
                "evaluated", "profile", "record", "outcome", "not passed", "first reason", "trace",
            )  # fmt: skip
            print_table(columns, map(_row, some))


def _row(each: "Evaluation") -> tuple[str, ...]:
    wrong = (task for task in each.tasks if task.outcome in ("failed", "errored"))
    return (
        clock(each.evaluated_at),
        each.profile,
        each.record_id or (each.uid if each.scope == "record" else f"session {each.session_id}"),
        f"{each.outcome}, backfill" if each.is_backfill else each.outcome,
        ", ".join(f"{task.task_id} ({task.reason or task.outcome})" for task in wrong),
        first_reason(each.tasks, _REASON),
        each.trace_id or "",
    )


@results.command()
def tasks(
    profile: ProfileName = None,
    service_version: ServiceVersion = None,
    environment: Annotated[
        str | None, typer.Option(metavar="NAME", help="Of the service, such as production.")
    ] = None,
    since: Since = None,
    until: Until = None,
    json: Json = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Show the pass rate of every task with its 95 % interval, and the mean of its scores.

    Where judges were called, it shows their calls, tokens and cost, too.

        scouter results tasks --profile airline --since 24h
    """
    with connect(url, token_file) as client:
        found = client.tasks(
            profile=profile,
            service_version=service_version,
            environment=environment,
            since=moment(since, "--since"),
            until=moment(until, "--until"),
            usage=True,
        ).items
    if json:
        print_lines(found)
        return
    columns = (
        "profile", "its version", "task", "passed", "failed", "errored", "skipped", "rate", "95 %",
        "score", "sd",
    )  # fmt: skip
    if has_judges := any(each.usage for each in found):
        columns += ("judge calls", "input", "output", "judge USD")
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
                "" if each.score.mean is None else f"{each.score.mean:.3g}",
                "" if each.score.sd is None else f"{each.score.sd:.3g}",
                *(_taken(each.usage) if has_judges else ()),
            )
            for each in found
        ),
    )


def _taken(usage: "TaskUsage | None") -> tuple[object, ...]:
    """Calls, tokens and cost of judges; a cost is unknown where that of any call is."""
    if usage is None:
        return ("",) * 4
    cost = "unknown" if usage.cost_usd is None or usage.unpriced_calls else f"{usage.cost_usd:.4f}"
    return usage.calls, usage.input_tokens, usage.output_tokens, cost


@results.command()
def usage(
    by: Annotated[
        Literal[
            "model", "provider", "service", "version", "agent", "tool", "operation",
            "conversation", "finish_reason", "error", "route",
        ],
        typer.Option(help="What has a line of its own."),
    ] = "model",
    bucket: Annotated[
        str | None,
        typer.Option(metavar="LENGTH", help="A line for each such time: 5m, 1h, 7d."),
    ] = None,
    since: Since = None,
    until: Until = None,
    json: Json = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:  # fmt: skip
    """Show calls, errors, durations, tokens and cost of models, tools, agents or versions.

    scouter results usage --by version --since 24h

    A cost is unknown where that of any call is: the last column names the models. Give them a price
    in the collector's `price_file`.
    """
    with connect(url, token_file) as client:
        found = client.genai_usage(
            by,
            bucket=bucket,
            since=moment(since, "--since"),
            until=moment(until, "--until"),
        )
        if json:
            print_lines(found)
            return
        print_table(
            ("start", by, "calls", "errors", "p50 ms", "p95 ms", "p99 ms", "input", "cached",
             "output", "reasoning", "cost USD", "unknown cost of"),
            (
                (
                    clock(each.start) if each.start else "",
                    each.key or "",
                    each.calls,
                    each.errors,
                    *(
                        "" if took is None else f"{took:.0f}"
                        for took in (each.p50_ms, each.p95_ms, each.p99_ms)
                    ),
                    each.input_tokens,
                    each.cached_tokens,
                    each.output_tokens,
                    each.reasoning_tokens,
                    "unknown" if each.unpriced_calls else
                    "" if each.cost is None else f"{each.cost:.4f}",
                    ", ".join(each.unpriced_models),
                )
                for each in found
            ),
        )  # fmt: skip


results.command()(sessions)
results.command()(traces)


@results.command()
def trace(
    trace_id: Annotated[str, typer.Argument(metavar="TRACE_ID", help="32 hex digits.")],
    full: Full = False,
    joined: Annotated[
        bool,
        typer.Option(
            "--joined", help="With the traces that belong to it, such as an MCP server's own."
        ),
    ] = False,
    json: JsonOfOne = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Show one trace as a tree, with the results beside the spans that they are about.

    A span has its duration, what a tool was given and gave back, what a model read and wrote, and
    its error. Long values are cut; `--full` shows all of them.

        scouter results trace 0af7651916cd43dd8448eb211c80319c
        scouter results trace 0af7651916cd43dd8448eb211c80319c --joined
    """
    with connect(url, token_file) as client:
        found = client.trace_view(trace_id, joined=joined or None)
        links = () if json else client.trace_links(trace_id).items
    if json:
        print_lines([found])
    else:
        _print_text(trace_lines(found, WHOLE if full else SHORT, links, joined=joined))


@results.command()
def record(
    uid: Annotated[str, typer.Argument(metavar="RECORD", help="A record's uid, or its id.")],
    full: Full = False,
    json: JsonOfOne = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Show one record: its context, every task with what it compared, and earlier revisions.

    It says why a record is not evaluated yet. The question to a judge is not stored; it is made
    anew from the record and the profile's version. Long values are cut; `--full` shows all.

        scouter results record 0197a2b4-77aa-7cc3-9b1e-1d5a6f1f0c55
    """
    from pydantic import TypeAdapter

    from scouter.client.record_look import RecordLook, look_at_record

    with connect(url, token_file) as client:
        found = look_at_record(client, uid_of(client, uid))
    if json:
        typer.echo(for_output(TypeAdapter(RecordLook).dump_json(found).decode()))
    else:
        _print_text(record_lines(found, WHOLE if full else SHORT))


def uid_of(client: "ScouterClient", named: str) -> str:
    """The uid of the one record that is called so, by its uid or its id.

    Raises:
        ConfigError: Several records have that id.
    """
    uids = [each.uid for each in islice(client.records(record_id=named, limit=10), 10)]
    if named in uids or not uids:
        return named  # where it is unknown, the collector says so
    if len(uids) > 1:
        raise ConfigError(
            f"several records have the id {named!r}; name one by its uid: {', '.join(uids)}"
        )
    return uids[0]


@results.command()
def session(
    session_id: Annotated[str, typer.Argument(metavar="SESSION_ID")],
    full: Full = False,
    json: JsonOfOne = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Show one session: its records by time, with their traces and what did not pass.

    scouter results session chat-17
    """
    with connect(url, token_file) as client:
        found = client.session(session_id)
    if json:
        print_lines([found])
    else:
        _print_text(session_lines(found, WHOLE if full else SHORT))


def _print_text(lines: "Iterable[str]") -> None:
    for line in lines:
        typer.echo(visible(line))
