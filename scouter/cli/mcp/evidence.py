"""Tools that find and show single things: records, traces and spans."""

import json
from typing import Annotated, Final

from pydantic import Field, JsonValue

from scouter.cli.asking import moment
from scouter.cli.look_text import SHORT, record_lines, trace_lines
from scouter.cli.mcp.reply import Cursor, Profile, Reply, Since, Step, Task, listed, shown
from scouter.cli.results import uid_of
from scouter.client.client import ScouterClient
from scouter.client.models.evaluations import Evaluation
from scouter.client.record_look import look_at_record
from scouter.client.routes.traces import SpanStatus

_PAGE: Final = 20
_MOST_SPANS: Final = 1_000
_VALUE: Final = 1_000
"""Characters of a value of a span or record."""
_WRONG: Final = frozenset({"failed", "errored"})
_EVALUATION: Final = (
    "evaluated_at", "profile", "outcome", "record_id", "uid", "session_id", "trace_id",
    "service_version",
)  # fmt: skip

Outcome = Annotated[
    str | None,
    Field(description="passed, failed, errored, skipped, pending, or not_passed: failed, errored."),
]
TraceId = Annotated[str, Field(description="32 hex digits.")]
Tool = Annotated[str | None, Field(description="Name of a tool.")]


def find_records(
    client: ScouterClient,
    profile: Profile = None,
    outcome: Outcome = None,
    task: Task = None,
    task_outcome: Outcome = None,
    service_version: Annotated[str | None, Field(description="Of the agent's service.")] = None,
    session_id: str | None = None,
    record_id: str | None = None,
    since: Since = None,
    until: Since = None,
    cursor: Cursor = None,
) -> Reply:
    """Find evaluated records and sessions, newest first, with the reason of each failure."""
    page = client.evaluations(
        profile=profile, outcome=outcome, task_id=task, task_outcome=task_outcome,
        service_version=service_version, session_id=session_id, record_id=record_id,
        since=moment(since, "since"), until=moment(until, "until"), limit=_PAGE,
    ).page(cursor)  # fmt: skip
    found = [
        {name: getattr(each, name) for name in _EVALUATION}
        | {task.task_id: task.message for task in each.tasks if task.outcome in _WRONG}
        for each in page.items
    ]
    steps = [step for each in page.items[:1] for step in _steps_of(each)]
    says = [_count(len(found), "evaluations", page.next_cursor)]
    return Reply(says=says, data=listed(found), steps=steps, cursor=page.next_cursor)


def _count(found: int, what: str, cursor: str | None) -> str:
    if found or cursor is not None:
        return f"{found} {what} on this page{', and more behind it' if cursor else ''}."
    return f"No {what} are like that. Leave a filter out, or look further back with since."


def _steps_of(each: Evaluation, *, is_traced: bool = True) -> list[Step]:
    """What shows more of an evaluation: trace, record, and the check that did not pass."""
    steps = [
        Step(
            "explain_check", "what the check wants", {"profile": each.profile, "task": task.task_id}
        )
        for task in each.tasks
        if task.outcome in _WRONG
    ][:1]
    if each.trace_id and is_traced:
        steps.insert(0, Step("show_trace", "how it came about", {"trace_id": each.trace_id}))
    if each.scope == "record":
        steps.append(Step("show_record", "expected and actual values", {"record": each.uid}))
    return steps


def find_traces(
    client: ScouterClient,
    text: Annotated[
        list[str] | None,
        Field(description="All of them, in messages, results, errors; of 24 hours without since."),
    ] = None,
    user_id: str | None = None,
    tool_name: Tool = None,
    without_tool: Tool = None,
    status: Annotated[SpanStatus | None, Field(description="Of a span.")] = None,
    attributes: Annotated[
        dict[str, JsonValue] | None, Field(description="Attributes of spans, each of some span.")
    ] = None,
    profile: Profile = None,
    outcome: Outcome = None,
    task: Task = None,
    task_outcome: Outcome = None,
    since: Since = None,
    until: Since = None,
    cursor: Cursor = None,
) -> Reply:
    """Find traces by their spans and by the evaluations on their records, newest first."""
    given = (attributes or {}).items()
    texts = {name: each if isinstance(each, str) else json.dumps(each) for name, each in given}
    page = client.traces(
        text=text, user_id=user_id, tool_name=tool_name, without_tool=without_tool, status=status,
        attributes=texts, profile=profile, outcome=outcome, task_id=task,
        task_outcome=task_outcome, since=moment(since, "since"), until=moment(until, "until"),
        limit=_PAGE, questions=True,
    ).page(cursor)  # fmt: skip
    steps = [
        Step("show_trace", "the first one", {"trace_id": each.trace_id}) for each in page.items[:1]
    ]
    says = [_count(len(page.items), "traces", page.next_cursor)]
    return Reply(says=says, data=listed(page.items), steps=steps, cursor=page.next_cursor)


def show_trace(
    client: ScouterClient,
    trace_id: TraceId,
    joined: Annotated[
        bool, Field(description="With the traces that belong to it, as those of MCP servers.")
    ] = False,
    cursor: Cursor = None,
) -> Reply:
    """Show a trace as a tree: messages, tool calls with arguments and results, errors, checks.

    Long values are cut; show_span has more of them, by the span's id in brackets.
    """
    found = client.trace_view(trace_id, limit=_MOST_SPANS, joined=joined or None)
    view, links = found.view, client.trace_links(trace_id).items
    steps = [step for each in found.evaluations[:2] for step in _steps_of(each, is_traced=False)]
    steps += [
        Step("show_span", "the first error", {"trace_id": trace_id, "span_id": span.span_id})
        for span in [span for span in view.spans if span.error][:1]
    ]
    if links and not joined:
        with_others = {"trace_id": trace_id, "joined": True}
        steps.append(Step("show_trace", "with the traces that belong to it", with_others))
    says = [f"{len(view.spans)} spans, {view.errors} in error; {view.left_out} more are left out."]
    lines = trace_lines(found, SHORT, links, joined=joined)
    return Reply(says=says, data=lines, steps=steps).part(cursor)


def show_span(
    client: ScouterClient,
    trace_id: TraceId,
    span_id: Annotated[str, Field(description="16 hex digits.")],
    pointer: Annotated[
        str | None, Field(description="JSON pointer to one value, which is then shown whole.")
    ] = None,
    cursor: Cursor = None,
) -> Reply:
    """Show one span with its messages, arguments, result and attributes, or one value of it."""
    given = {"trace_id": trace_id, "span_id": span_id}
    if pointer is not None:
        value = b"".join(client.span_value(trace_id, span_id, pointer)).decode(errors="replace")
        return Reply(says=["One value."], data=value.splitlines()).part(cursor)
    found = client.span(trace_id, span_id, text_limit=_VALUE)
    steps = [
        Step("show_span", "this value whole", {**given, "pointer": each.pointer})
        for each in found.cut
        if not each.is_binary
    ]
    steps.append(Step("show_trace", "the whole trace", {"trace_id": trace_id}))
    says = [f"One span; {len(found.cut)} values are cut."]
    return Reply(says=says, data=shown(found.span), steps=steps).part(cursor)


def show_record(
    client: ScouterClient,
    record: Annotated[str, Field(description="Its uid or its id.")],
    cursor: Cursor = None,
) -> Reply:
    """Show a record: its context, and every check with path, expected and actual value."""
    found = look_at_record(client, uid_of(client, record))
    one = found.record
    steps = [step for each in one.evaluations[:1] for step in _steps_of(each)[:2]]
    if one.session_id:
        of = {"session_id": one.session_id}
        steps.append(Step("find_records", "the whole conversation", of))
    says = [f"The record is {one.state}; {len(one.evaluations)} evaluations, the newest first."]
    return Reply(says=says, data=record_lines(found, _VALUE), steps=steps).part(cursor)
