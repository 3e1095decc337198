"""Lines for people: `scouter results trace`, `record` and `session` print them."""

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pydantic import JsonValue

from scouter.cli.asking import clock
from scouter.evaluate.results.task_result import own_score
from scouter.replay.reports.plain import MAX_INDENT, detail, tokens_text, values
from scouter.replay.reports.texts import counted, duration, quoted, value_text

if TYPE_CHECKING:
    from scouter.client.models.evaluations import Evaluation, TaskResult
    from scouter.client.models.records import Session
    from scouter.client.models.traces import TraceLink, TraceTree
    from scouter.client.record_look import RecordLook
    from scouter.evaluate.show.trace_view import ResultView, SpanView

SHORT: Final = 400
"""Characters of a value, where not all of it is wanted."""
WHOLE: Final = 10**9
_MARKS: Final = {"passed": "✓", "failed": "✗", "errored": "!"}
_OTHER_MARK: Final = "·"


def trace_lines(
    tree: "TraceTree", most: int, links: Iterable["TraceLink"] = (), *, joined: bool = False
) -> Iterator[str]:
    """Write a trace: what it is, the evaluations on it, its spans with values and results.

    Args:
        tree: The trace.
        most: Characters of a value.
        links: Traces that belong to it.
        joined: Their spans are in the tree.
    """
    view = tree.view
    parts = [f"trace {tree.trace_id}", duration(view.duration_ns)]
    parts.append(counted(len(view.spans) + view.left_out, "span"))
    if view.errors:
        parts.append(f"{view.errors} in error")
    if view.input_tokens is not None or view.output_tokens is not None:
        parts.append(tokens_text(view.input_tokens, view.output_tokens))
    yield ", ".join(parts)
    for link in links:
        yield (
            f"{'called by' if link.is_caller else 'calls'} the trace {link.trace.trace_id},"
            f" {link.trace.name} of {link.trace.service_name or 'no service'}, by"
            f" {link.by} {link.value}".rstrip()
            + ("" if joined else "; --joined shows both")
        )
    for each in tree.evaluations:
        yield f"{_mark(each.outcome)} {each.outcome}  {each.profile}, record {_named(each)}"
    yield ""
    for span in view.spans:
        yield from _span(span, most)
    if view.left_out:
        yield f"and {counted(view.left_out, 'more span')}"
    if view.tasks:
        yield ""
        yield "results that name none of these spans"
        for task in view.tasks:
            yield from _result(task, "  ", most)


def _span(span: "SpanView", most: int) -> Iterator[str]:
    indent = "  " * min(span.depth, MAX_INDENT)
    parts = [f"{indent}{span.name}", duration(span.duration_ns), span.kind]
    if shown := detail(span):
        parts.append(shown)
    if span.is_orphan:
        parts.append(f"below {span.parent_span_id}, which is not here")
    if span.error:
        parts.append(f"ERROR {value_text(span.error, most)}")
    yield from _indented(f"{'  '.join(parts)}  [{span.span_id}]", f"{indent}  ")
    for task in span.tasks:
        yield from _result(task, f"{indent}  ", most)
    for name, value in values(span):
        if name != "attributes" or most == WHOLE:
            yield from _value(name, value, f"{indent}    ", most)


def _result(task: "ResultView", indent: str, most: int) -> Iterator[str]:
    reason = f" ({task.reason})" if task.reason else ""
    head = f"{indent}{_mark(task.outcome)} {task.task_id}: {task.outcome}{reason}"
    score = own_score(task.score, task.outcome)
    head += "" if score is None else f", score {score:g}"
    head += f", {task.profile}, record {task.record}"
    said = "" if task.outcome == "passed" else f": {value_text(task.message, most)}"
    yield from _indented(head + said, f"{indent}  ")


def record_lines(look: "RecordLook", most: int) -> Iterator[str]:
    """Write a record: what it is, its context, its latest evaluation by task, earlier revisions.

    Args:
        look: The record, with paths and prompts.
        most: Characters of a value.
    """
    record = look.record
    yield f"record {record.record_id or record.uid}, {record.state}"
    fields: list[tuple[str, str]] = [
        ("uid", record.uid),
        ("profile", record.profile),
        ("session", record.session_id),
        ("trace", record.trace_id or ""),
        ("created", clock(record.created_at)),
        ("accepted", clock(record.received_at)),
        ("tags", ", ".join(f"{key}={value}" for key, value in record.tags.items())),
        ("not evaluated", record.waits_for),
    ]
    if record.dead_letter is not None:
        letter = record.dead_letter
        fields.append(("dead letter", f"{letter.letter_id}, {letter.reason}: {letter.message}"))
    for name, text in fields:
        if text:
            yield from _indented(f"  {name}: {text}", "    ")
    yield from _value("context", record.context, "", most)
    if not record.evaluations:
        return
    latest, *earlier = record.evaluations
    yield ""
    yield f"{_mark(latest.outcome)} {_revision(latest)}"
    for task in latest.tasks:
        yield from _task(task, look, most)
    if look.missing:
        yield f"paths and prompts are not shown: {look.missing}"
    for each in earlier:
        yield f"before: {_revision(each)}"


def _revision(evaluation: "Evaluation") -> str:
    version = evaluation.profile_version[:12]
    mark = ", backfill" if evaluation.is_backfill else ""
    return (
        f"revision {evaluation.revision}: {evaluation.outcome}, {evaluation.completeness}{mark}, "
        f"{clock(evaluation.evaluated_at)}, by version {version} of {evaluation.profile}"
    )


def _task(task: "TaskResult", look: "RecordLook", most: int) -> Iterator[str]:
    reason = f" ({task.reason})" if task.reason else ""
    yield f"  {_mark(task.outcome)} {task.task_id}: {task.outcome}{reason}"
    yield from _value("message", task.message, "      ", most)
    if look.paths.get(task.task_id) is not None:
        yield from _value("path", look.paths[task.task_id], "      ", most)
    yield from _indented(
        f"      expected: {task.operator} {quoted(task.expected, most)}", "        "
    )
    yield from _indented(f"      actual: {quoted(task.actual, most)}", "        ")
    score = own_score(task.score, task.outcome)
    if score is not None:
        yield f"      score: {score:g}"
    if task.span_ids:
        yield f"      spans: {' '.join(task.span_ids)}"
    if not task.question:
        return
    for message in look.prompts.get(task.task_id, ()):
        yield from _value(f"asked, as {message.role}", message.content, "      ", most)
    if task.task_id not in look.prompts:
        yield f"      asked: not stored, and cannot be made anew; its digest is {task.question}"
    yield from _value("the judge answered", task.answer, "      ", most)


def session_lines(session: "Session", most: int) -> Iterator[str]:
    """Write a session: its counts, then its records by time with what did not pass.

    Args:
        session: The session.
        most: Characters of a value.
    """
    counts = {name: getattr(session, name) for name in (
        "passed", "failed", "errored", "skipped", "undecided",
    )}  # fmt: skip
    decided = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    yield (
        f"session {session.session_id}, {counted(session.records, 'record')}"
        f" in {counted(session.traces, 'trace')}: {decided or 'nothing decided'}"
    )
    yield f"  {clock(session.first_at)} to {clock(session.last_at)}"
    evaluations = {each.uid: each for each in session.evaluations}
    for record in sorted(session.items, key=lambda each: each.created_at):
        evaluation = evaluations.pop(record.uid, None)
        yield ""
        ended = record.outcome or record.state
        parts = [f"{_mark(ended)} {ended}  {record.profile}, record {record.record_id}".rstrip()]
        parts += [f"uid {record.uid}", *([f"trace {record.trace_id}"] if record.trace_id else [])]
        yield from _indented(", ".join(parts), "  ")
        yield from _not_passed(evaluation, most)
    for evaluation in evaluations.values():
        if evaluation.scope == "session":
            yield ""
            outcome = evaluation.outcome
            yield f"{_mark(outcome)} {outcome}  {evaluation.profile}, the session"
            yield from _not_passed(evaluation, most)
    if session.records > len(session.items):
        yield f"and {counted(session.records - len(session.items), 'older record')}"


def _not_passed(evaluation: "Evaluation | None", most: int) -> Iterator[str]:
    for task in () if evaluation is None else evaluation.tasks:
        if task.outcome != "passed":
            reason = f" ({task.reason})" if task.reason else ""
            head = f"  {_mark(task.outcome)} {task.task_id}: {task.outcome}{reason}: "
            yield from _indented(head + value_text(task.message, most), "    ")


def first_reason(tasks: "Sequence[TaskResult]", most: int) -> str:
    """Message of the first task that failed or errored, in one line; empty if none did."""
    wrong = (task for task in tasks if task.outcome in ("failed", "errored"))
    first = next(wrong, None)
    return "" if first is None else value_text(" ".join(first.message.split()), most)


def _named(evaluation: "Evaluation") -> str:
    return f"{evaluation.record_id} ({evaluation.uid})" if evaluation.record_id else evaluation.uid


def _mark(outcome: str) -> str:
    return _MARKS.get(outcome, _OTHER_MARK)


def _value(name: str, value: JsonValue, indent: str, most: int) -> Iterable[str]:
    return _indented(f"{indent}{name}: {value_text(value, most)}", f"{indent}  ")


def _indented(text: str, indent: str) -> Iterator[str]:
    """The first line as it is, the others behind an indent."""
    first, *others = text.splitlines() or [""]
    yield first
    for line in others:
        yield f"{indent}{line}"
