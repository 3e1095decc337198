"""LangSmith: runs of its SDK, its API and its bulk export, and feedback.

A run gets the attributes that LangSmith's own OpenTelemetry exporter writes, which `conventions`
has.

Source: LangSmith's "Run (span) data format" and "Bulk export trace data"; `Run` and `Feedback` of
    its SDK, `langsmith._internal.otel` for the attributes.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.formats.exports.spans import (
    Attributes,
    Object,
    Row,
    Tell,
    attributes_of,
    ns_of,
    number_of,
    opened_number,
    resource_of,
    score_of,
    span_of,
    with_lost,
)
from scouter.model.genai.messages import field, items, text
from scouter.model.genai.wrappers import open_json
from scouter.model.span import Span, SpanEvent

LOOKS_FOR: Final = "LangSmith runs (id, run_type, start_time) or feedback (key, run_id)"

_RUN: Final = frozenset({"id", "run_type", "start_time"})
_FEEDBACK: Final = frozenset({"id", "key", "run_id", "score"})
_USER: Final = ("user_id", "user", "ls_user_id")


def is_row(value: Mapping[str, object]) -> bool:
    """Tell whether an object is a run or a feedback."""
    return value.keys() >= _RUN or value.keys() >= _FEEDBACK


def traces(rows: Iterable[Row], tell: Tell) -> Iterator[list[Span]]:
    """Put runs together to traces, and feedback to its runs.

    Feedback counts once: rows of feedback, or else the statistics that a run has of its own.

    Args:
        rows: Those that `is_row` knows, of any number of files.
        tell: Takes rows that cannot be used.
    """
    feedback: dict[str, dict[str, Row]] = {}
    runs: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.value.keys() >= _RUN:
            _sort(row, runs, tell)
        else:
            by_id = feedback.setdefault(text(row.value["run_id"]), {})
            by_id[text(row.value["id"])] = row
    for name, members in runs.items():
        spans: list[Span] = []
        for run_id, row in members.items():
            try:
                reported = list(_feedback_events(feedback.pop(run_id, {}), tell)) or _stats(
                    row.value
                )
                spans.append(_span(name, row.value, reported))
            except DataError as error:
                tell(row.fault(error))
        yield with_lost(spans, len(members) - len(spans))
    for by_id in feedback.values():
        for row in by_id.values():
            whose = f"of the run {run}" if (run := text(row.value["run_id"])) else "of no run"
            tell(row.fault(f"the feedback {row.value['key']} is {whose}, which is in no file"))


def _sort(row: Row, runs: dict[str, dict[str, Row]], tell: Tell) -> None:
    run, run_id = row.value, text(row.value.get("id"))
    first = text(run.get("dotted_order")).split(".")[0].rpartition("Z")[2]
    trace = text(run.get("trace_id")) or first or ("" if run.get("parent_run_id") else run_id)
    if run_id and trace:
        runs.setdefault(trace, {})[run_id] = row
    else:
        tell(row.fault("a run without id, or without trace_id and dotted_order below another run"))


def _span(trace: str, run: Object, events: Iterable[SpanEvent]) -> Span:
    failed = bool(run.get("error")) or run.get("status") == "error"
    return span_of(
        (trace, text(run["id"]), text(run.get("parent_run_id"))),
        text(run.get("name")) or text(run.get("run_type")),
        (ns_of(run.get("start_time"), "start_time"), run.get("end_time"), "end_time"),
        _attributes(run),
        error=text(run.get("error")) if failed else None,
        events=events,
        resource=resource_of(text(run.get("session_name")) or text(run.get("project_name"))),
    )


def _attributes(run: Object) -> Attributes:
    kind, extra = text(run.get("run_type")), open_json(run.get("extra"))
    metadata, parameters = open_json(field(extra, "metadata")), field(extra, "invocation_params")
    metadata = metadata if isinstance(metadata, dict) else {}
    inputs, outputs = open_json(run.get("inputs")), open_json(run.get("outputs"))
    parameters = parameters or open_json(field(metadata, "invocation_params"))
    models = field(inputs, "model"), metadata.get("ls_model_name"), field(parameters, "model")
    model = next(filter(None, models), field(parameters, "model_name"))
    is_tool = kind == "tool"
    called = (
        field(extra, "tool_call_id")
        or metadata.get("tool_call_id")
        or field(field(outputs, "output"), "tool_call_id")
    )
    tags = tuple(map(text, items(open_json(run.get("tags")))))
    return {
        **attributes_of({f"langsmith.metadata.{name}": value for name, value in metadata.items()}),
        **attributes_of(
            {
                "gen_ai.request.model": model if kind in ("llm", "embedding") else None,
                "gen_ai.tool.name": run.get("name") if is_tool else None,
                "gen_ai.tool.call.id": called if is_tool else None,
                "gen_ai.tool.definitions": field(parameters, "tools"),
                "gen_ai.prompt": inputs,
                "gen_ai.completion": outputs,
                "gen_ai.conversation.id": run.get("thread_id"),
                "user.id": next((metadata[name] for name in _USER if metadata.get(name)), None),
                "langsmith.span.kind": kind,
                "langsmith.trace.name": run.get("name"),
                **(_usage(run, outputs) if kind == "llm" else {}),
            }
        ),
        **({"langsmith.span.tags": tags} if tags else {}),
    }


def _usage(run: Object, outputs: JsonValue) -> Object:
    """Tokens of a model's call, as the server counts them, else as the answer has them.

    Those of the runs around it are sums.
    """
    if run.get("prompt_tokens") is None:
        return {"langsmith.metadata.usage_metadata": _find(outputs, "usage_metadata")}
    given = open_json(run.get("prompt_token_details"))
    made = open_json(run.get("completion_token_details"))
    return {
        "gen_ai.usage.input_tokens": run.get("prompt_tokens"),
        "gen_ai.usage.output_tokens": run.get("completion_tokens"),
        "gen_ai.usage.total_tokens": run.get("total_tokens"),
        "gen_ai.usage.cache_read.input_tokens": field(given, "cache_read"),
        "gen_ai.usage.cache_creation.input_tokens": field(given, "cache_creation"),
        "gen_ai.usage.reasoning.output_tokens": field(made, "reasoning"),
    }


def _find(value: JsonValue, name: str, depth: int = 6) -> JsonValue:
    """Find a field of a value or of a part of it, the outermost first."""
    if (found := field(value, name)) is not None or not depth:
        return found
    inner = value.values() if isinstance(value, dict) else items(value)
    return next((found for each in inner if (found := _find(each, name, depth - 1))), None)


def _feedback_events(rows: Mapping[str, Row], tell: Tell) -> Iterator[SpanEvent]:
    for row in rows.values():
        value = row.value
        time = value.get("created_at") or value.get("modified_at")
        score, label = opened_number(value.get("score")), value.get("value")
        try:
            yield score_of(
                text(value["key"]),
                ns_of(time, "created_at"),
                label if score is None else score,
                label=label if isinstance(label, str) and score is not None else None,
                explanation=value.get("comment"),
                by_person=field(open_json(value.get("feedback_source")), "type") == "app",
            )
        except DataError as error:
            tell(row.fault(error))


def _stats(run: Object) -> list[SpanEvent]:
    """Read what a run has of its feedback: a mean, or how often each label was given."""
    found: list[SpanEvent] = []
    stats = open_json(run.get("feedback_stats"))
    at_ns = ns_of(run.get("end_time") or run.get("start_time"), "end_time")
    for name, each in stats.items() if isinstance(stats, dict) else ():
        count, mean, labels = field(each, "n"), field(each, "avg"), field(each, "values")
        label: JsonValue = None
        if isinstance(labels, dict) and len(labels) == 1:
            label = next(iter(labels))
        if number_of(mean) is not None or label is not None:
            several = isinstance(count, int) and count > 1
            why = f"the mean of {count}" if several else None
            found.append(score_of(name, at_ns, label if mean is None else mean, explanation=why))
    return found
