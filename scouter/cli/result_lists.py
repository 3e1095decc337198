"""The commands `scouter results sessions` and `scouter results traces`."""

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from scouter.cli.asking import (
    Json,
    ProfileName,
    Since,
    TokenFile,
    Until,
    Url,
    clock,
    connect,
    moment,
    print_lines,
    print_table,
)
from scouter.errors import ConfigError
from scouter.model.pair import pair_of

if TYPE_CHECKING:
    from scouter.client.models.records import SessionItem
    from scouter.client.models.traces import TraceItem

Outcome = Annotated[
    str | None,
    typer.Option(
        metavar="OUTCOME",
        help="passed, failed, errored, skipped, pending, or not_passed: failed or errored.",
    ),
]
Task = Annotated[str | None, typer.Option(metavar="TASK", help="With a result of this task.")]
TaskOutcome = Annotated[
    str | None, typer.Option(metavar="OUTCOME", help="How that task, or any task, ended.")
]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", metavar="KEY=VALUE", help="Repeatable: all of them.")
]
User = Annotated[str | None, typer.Option(metavar="ID", help="user.id, of a span.")]
Attributes = Annotated[
    list[str] | None,
    typer.Option(
        "--attribute", metavar="KEY=VALUE", help="Of a span, any short one. Repeatable: all."
    ),
]
Tool = Annotated[str | None, typer.Option(metavar="NAME", help="Of a span.")]
Model = Annotated[str | None, typer.Option(metavar="NAME", help="That answered.")]
MinMs = Annotated[float | None, typer.Option("--min-ms", min=0, help="Shortest duration.")]
_QUESTION_CHARS: Final = 200
"""Characters of a question in the table."""
Limit = Annotated[int, typer.Option(min=1, help="Most lines.")]


def sessions(
    text: Annotated[
        list[str] | None,
        typer.Option(help="In a record, or in a span of its trace. Repeatable: all of them."),
    ] = None,
    profile: ProfileName = None,
    outcome: Outcome = None,
    task: Task = None,
    task_outcome: TaskOutcome = None,
    tags: Tags = None,
    user: User = None,
    attributes: Attributes = None,
    tool: Tool = None,
    model: Model = None,
    min_ms: MinMs = None,
    min_tokens: Annotated[int | None, typer.Option(min=0, help="Of all its calls.")] = None,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    json: Json = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List sessions, the one with the newest record first.

    Text, profile and times are those of a record; all else is that of the whole session. It failed
    or errored if one of its records did; it passed if all did.

        scouter results sessions --text "order 4711" --outcome failed --since 24h
        scouter results sessions --tool book_flight --min-tokens 50000
    """
    with connect(url, token_file) as client:
        found = client.sessions(
            text=text,
            profile=profile,
            outcome=outcome,
            task_id=task,
            task_outcome=task_outcome,
            tags=pairs(tags),
            user_id=user,
            attributes=pairs(attributes, "--attribute"),
            tool_name=tool,
            response_model=model,
            min_duration_ms=min_ms,
            min_tokens=min_tokens,
            since=moment(since, "--since"),
            until=moment(until, "--until"),
            limit=min(limit, 1000),
        )
        some = islice(found, limit)
        if json:
            print_lines(some)
            return
        columns = (
            "last record", "session", "records", "traces", "passed", "failed", "errored",
            "undecided", "seconds", "tokens in", "tokens out",
        )  # fmt: skip
        print_table(columns, map(_session, some))


def traces(
    text: Annotated[
        list[str] | None,
        typer.Option(
            help="In messages, arguments, results or events; of the last 24 hours unless --since "
            "is given. Repeatable: all of them."
        ),
    ] = None,
    profile: ProfileName = None,
    outcome: Outcome = None,
    task: Task = None,
    task_outcome: TaskOutcome = None,
    tags: Tags = None,
    user: User = None,
    attributes: Attributes = None,
    service: Annotated[str | None, typer.Option(metavar="NAME", help="Of a span.")] = None,
    tool: Tool = None,
    model: Model = None,
    without_tool: Annotated[
        str | None, typer.Option(metavar="NAME", help="That no span of the trace calls.")
    ] = None,
    status: Annotated[
        str | None, typer.Option(metavar="STATUS", help="Of a span: error, ok or unset.")
    ] = None,
    min_ms: MinMs = None,
    same_span: Annotated[
        bool, typer.Option("--same-span", help="One span meets all conditions on spans.")
    ] = False,
    since: Since = None,
    until: Until = None,
    limit: Limit = 20,
    json: Json = False,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """List traces by their spans, and by an evaluation on a record of theirs.

    Profile, outcome, task and tags are those of one evaluation. Text and all else are those of the
    spans: each may be true of another one, unless --same-span is given.

        scouter results traces --text "order 4711" --since 7d
        scouter results traces --task polite --task-outcome failed --tool book_flight
        scouter results traces --service support_desk --without-tool return_policy
        scouter results traces --user anna --tool refund --text refused --text "order 4711"
    """
    with connect(url, token_file) as client:
        found = client.traces(
            text=text,
            profile=profile,
            outcome=outcome,
            task_id=task,
            task_outcome=task_outcome,
            tags=pairs(tags),
            user_id=user,
            attributes=pairs(attributes, "--attribute"),
            service_name=service,
            tool_name=tool,
            without_tool=without_tool,
            response_model=model,
            status=status,  # pyright: ignore[reportArgumentType] the collector names the three
            min_duration_ms=min_ms,
            same_span=same_span or None,
            questions=True,
            since=moment(since, "--since"),
            until=moment(until, "--until"),
            limit=min(limit, 1000),
        )
        some = islice(found, limit)
        if json:
            print_lines(some)
            return
        columns = (
            "started", "trace", "name", "service", "version", "record", "outcome", "tools",
            "seconds", "spans", "errors", "tokens in", "tokens out", "asked",
        )  # fmt: skip
        print_table(columns, map(_trace, some))


def pairs(given: list[str] | None, option: str = "--tag") -> dict[str, str] | None:
    """Read the values of an option that is repeated as `KEY=VALUE`.

    Raises:
        ConfigError: One has another form, or a key has two values.
    """
    found: dict[str, str] = {}
    for text in given or ():
        key, sign, value = pair_of(text)
        if not sign or not key:
            raise ConfigError(f"{option}: expected KEY=VALUE, got {text!r}")
        if found.setdefault(key, value) != value:
            raise ConfigError(f"{option}: {key!r} cannot have two values at once")
    return found or None


def _session(each: "SessionItem") -> tuple[object, ...]:
    return (
        clock(each.last_at),
        each.session_id,
        each.records,
        each.traces,
        each.passed,
        each.failed,
        each.errored,
        each.undecided,
        "" if each.duration_ms is None else f"{each.duration_ms / 1000:.1f}",
        "" if each.input_tokens is None else each.input_tokens,
        "" if each.output_tokens is None else each.output_tokens,
    )


def _trace(each: "TraceItem") -> tuple[object, ...]:
    return (
        clock(each.start),
        each.trace_id,
        each.name,
        each.service_name,
        each.service_version,
        each.record_id or each.uid or "",
        " ".join(each.outcomes),
        " > ".join(each.tools[:5]),
        f"{each.duration_ms / 1000:.1f}",
        each.spans,
        each.errors,
        "" if each.input_tokens is None else each.input_tokens,
        "" if each.output_tokens is None else each.output_tokens,
        "" if each.question is None else " ".join(each.question.text.split())[:_QUESTION_CHARS],
    )
