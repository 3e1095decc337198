"""Langfuse: observations, traces and scores of its API, its page and its blob storage.

An observation gets the attributes that Langfuse's own SDK writes, which `conventions` has. Names of
fields are in camel case (API, page) or snake case (blob storage).

Source: Langfuse's API reference, "Export from UI" and "Blob Storage Export Field Reference";
    `LangfuseOtelSpanAttributes` of its SDK.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter
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
from scouter.model.genai.messages import field as field_of
from scouter.model.genai.messages import items, text
from scouter.model.genai.wrappers import open_json
from scouter.model.span import Resource, Span, SpanEvent

LOOKS_FOR: Final = "Langfuse observations (id, traceId, type, startTime), traces or scores"

_TYPES: Final = frozenset(
    {"generation", "tool", "agent", "embedding", "retriever", "span", "event", "chain", "evaluator",
     "guardrail"}
)  # fmt: skip
_NAMES: Final = {"tool": "gen_ai.tool.name", "agent": "gen_ai.agent.name"}
_OBSERVATION: Final = frozenset({"id", "trace_id", "type", "start_time"})
_SCORE: Final = frozenset({"id", "name", "data_type"})
_TRACE: Final = frozenset({"id", "timestamp"})
_OF_TRACE: Final = frozenset(
    {"session_id", "user_id", "html_path", "release", "public", "bookmarked", "observations"}
)
_NO_SCORES: Final = frozenset(
    {"tags", "trace_tags", "comments", "scores", "observations", "tool_calls", "tool_call_names",
     "tool_definitions", "input", "output", "metadata", "model_parameters"}
)  # fmt: skip
"""Fields whose lists are no scores."""
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


def is_row(value: Mapping[str, object]) -> bool:
    """Tell whether an object is an observation, a trace or a score."""
    return bool(_kind({_snake(name): each for name, each in value.items()}))


def _kind(row: Mapping[str, object]) -> str:
    if row.keys() >= _OBSERVATION and str(row["type"]).lower() in _TYPES:
        return "observation"
    if row.keys() >= _SCORE and ("value" in row or "string_value" in row):
        return "score"
    if row.keys() >= _TRACE and not row.keys().isdisjoint(_OF_TRACE):
        return "trace"
    return ""


def _snake(name: str) -> str:
    return _CAMEL.sub("_", name).lower() if name[:1].islower() and " " not in name else name


@dataclass(slots=True)
class _Trace:
    """What rows of several files say of one trace; of rows with one id, the last."""

    row: Row | None = None
    value: Object = field(default_factory=dict[str, JsonValue])
    observations: dict[str, tuple[Row, Object]] = field(
        default_factory=dict[str, tuple[Row, Object]]
    )
    scores: dict[str, tuple[Row, Object]] = field(default_factory=dict[str, tuple[Row, Object]])


def traces(rows: Iterable[Row], tell: Tell) -> Iterator[list[Span]]:
    """Put rows together to traces.

    A trace whose row is known gets a root of its own where it has no observation, or several that
    are below none: it then has the trace's input and output. Observations whose parent was not
    exported stay without it.

    Args:
        rows: Those that `is_row` knows, of any number of files.
        tell: Takes rows that cannot be used.
    """
    found: dict[str, _Trace] = {}
    for row in rows:
        _sort(row, {_snake(name): value for name, value in row.value.items()}, found, tell)
    for name, trace in found.items():
        yield (spans := _spans(name, trace, tell))
        for row, score in trace.scores.values() if not spans else ():
            whose = f"of the trace {name}" if name else "of no trace"
            tell(row.fault(f"the score {score.get('name')} is {whose}, which is in no file"))


def _sort(row: Row, value: Object, found: dict[str, _Trace], tell: Tell) -> None:
    kind, subject = _kind(value), value.get("subject")
    if isinstance(subject, dict):  # of the newest API, in place of the ids
        of_observation = subject.get("kind") == "observation"
        whose = {"trace_id": subject.get("traceId")} if of_observation else {}
        if subject.get("kind") in ("trace", "observation"):
            value = value | {f"{subject['kind']}_id": subject.get("id")} | whose
    name = text(value.get("id" if kind == "trace" else "trace_id"))
    if kind != "score" and not (name and text(value.get("id"))):
        tell(row.fault("expected texts as ids of the trace and of the observation"))
        return
    trace = found.setdefault(name, _Trace())
    if kind == "observation":
        trace.observations[text(value["id"])] = row, value
    elif kind == "score":
        trace.scores[text(value.get("id")) or str(len(trace.scores))] = row, value
    else:
        trace.row, trace.value = row, value


def _spans(name: str, trace: _Trace, tell: Tell) -> list[Span]:
    spans: list[Span] = []
    for row, value in trace.observations.values():
        try:
            scores = [*_columns(row, "endTime"), *_scores(trace, tell, text(value["id"]))]
            spans.append(_span(name, value, trace.value, scores))
        except DataError as error:
            tell(row.fault(error))
    named = items(trace.value.get("observations")) if trace.observations else []
    lost = len({each for each in named if isinstance(each, str)} | trace.observations.keys())
    lost -= len(spans)
    tops = [span for span in spans if span.parent_span_id is None]
    scores = _scores(trace, tell, None)
    if trace.row is not None:
        try:
            scores += _columns(trace.row, "timestamp")
            if len(tops) != 1:
                root = _root(name, trace.value, spans)
                spans = [_below(root, span) for span in spans]
                spans, tops = [root, *spans], [root]
        except DataError as error:
            tell(trace.row.fault(error))
    top = min(tops or spans, key=attrgetter("start_ns"), default=None)
    spans = [
        replace(span, events=(*span.events, *scores)) if span is top else span for span in spans
    ]
    return with_lost(spans, lost)


def _below(root: Span, span: Span) -> Span:
    is_top = span.parent_span_id is None
    return replace(span, parent_span_id=root.span_id) if is_top else span


def _span(name: str, value: Object, trace: Object, scores: Sequence[SpanEvent]) -> Span:
    is_root, failed = value.get("is_root_observation") is True, value.get("level") == "ERROR"
    parent = "" if is_root else text(value.get("parent_observation_id"))
    of_otel = open_json(field_of(open_json(value.get("metadata")), "attributes"))
    return span_of(
        (name, text(value["id"]), parent),
        text(value.get("name")) or str(value["type"]).lower(),
        (ns_of(value.get("start_time"), "startTime"), value.get("end_time"), "endTime"),
        {
            **(attributes_of(of_otel) if isinstance(of_otel, dict) else {}),
            **_of_trace(trace, value),
            **_of_observation(value, failed=failed),
        },
        error=text(value.get("status_message")) if failed else None,
        events=scores,
        resource=_resource(trace, value),
    )


def _of_observation(value: Object, *, failed: bool) -> Attributes:
    kind, name = str(value["type"]).lower(), value.get("name")
    model = value.get("model") or value.get("provided_model_name")
    said = value.get("status_message")
    found = {
        "gen_ai.request.model": model,
        "langfuse.observation.type": kind,
        "langfuse.observation.input": value.get("input"),
        "langfuse.observation.output": value.get("output"),
        "langfuse.observation.model.name": model,
        "langfuse.observation.model.parameters": value.get("model_parameters"),
        "langfuse.observation.usage_details": _usage(value),
        "langfuse.observation.cost_details": value.get("cost_details"),
        "langfuse.observation.level": value.get("level"),
        "langfuse.observation.metadata": value.get("metadata"),
        "langfuse.observation.prompt.name": value.get("prompt_name"),
        "langfuse.observation.prompt.version": value.get("prompt_version"),
        "langfuse.version": value.get("version"),
        # Of what did not fail the message is no error, as which readers take the SDK's attribute.
        f"langfuse.observation.{'' if failed else 'metadata.'}status_message": said,
    }
    if kind in _NAMES:
        found[_NAMES[kind]] = name
    return attributes_of({key: None if each in ({}, []) else each for key, each in found.items()})


def _usage(value: Object) -> JsonValue:
    """Counts by kind; earlier versions have three fields, under one of these names."""
    details, usage = open_json(value.get("usage_details")), open_json(value.get("usage"))
    if details:
        return details
    counts = {
        "input": ("prompt_tokens", "input_usage"),
        "output": ("completion_tokens", "output_usage"),
        "total": ("total_tokens", "total_usage"),
    }
    found = {
        kind: next((each for each in (field_of(usage, kind), *map(value.get, names)) if each), None)
        for kind, names in counts.items()
    }
    return {kind: opened_number(each) for kind, each in found.items() if each is not None} or None


def _of_trace(trace: Object, value: Object) -> Attributes:
    """What an observation says of its trace, or the trace's own row."""
    tags = open_json(trace.get("tags") or value.get("trace_tags") or value.get("tags"))
    found = attributes_of(
        {
            "session.id": trace.get("session_id") or value.get("session_id"),
            "user.id": trace.get("user_id") or value.get("user_id"),
            "langfuse.trace.name": trace.get("name") or value.get("trace_name"),
        }
    )
    if named := tuple(map(text, items(tags))):
        found["langfuse.trace.tags"] = named
    return found


def _resource(trace: Object, value: Object) -> Resource:
    of_otel = open_json(field_of(open_json(value.get("metadata")), "resourceAttributes"))
    return resource_of(
        text(field_of(of_otel, "service.name")),
        text(trace.get("release")) or text(value.get("release")),
        text(value.get("environment")) or text(trace.get("environment")),
    )


def _root(name: str, trace: Object, spans: Sequence[Span]) -> Span:
    """Make the root of a trace whose observations have none: an agent if there is nothing else."""
    at_ns = ns_of(trace.get("timestamp"), "timestamp")
    latency = number_of(trace.get("latency")) or 0.0
    value: Object = {
        **{key: trace.get(key) for key in ("name", "input", "output", "metadata", "version")},
        "type": "span" if spans else "agent",
    }
    root = span_of(
        (name, f"langfuse trace {name}", ""),
        text(trace.get("name")) or "trace",
        (min([at_ns, *(span.start_ns for span in spans)]), None, ""),
        {**_of_trace(trace, {}), **_of_observation(value, failed=False)},
        resource=_resource(trace, {}),
    )
    ends = [span.end_ns for span in spans] or [at_ns + int(latency * 1e9)]
    return replace(root, end_ns=max(root.start_ns, *ends))


def _scores(trace: _Trace, tell: Tell, observation: str | None) -> list[SpanEvent]:
    """Give the scores of an observation; with None those of the trace, and of what is not here."""
    found: list[SpanEvent] = []
    for row, value in trace.scores.values():
        whose = text(value.get("observation_id"))
        if (whose if whose in trace.observations else None) == observation:
            try:
                found.append(_score(value))
            except DataError as error:
                tell(row.fault(error))
    return found


def _score(value: Object) -> SpanEvent:
    at_ns = ns_of(value.get("timestamp") or value.get("created_at"), "timestamp")
    kind, given = value.get("data_type"), opened_number(value.get("value"))
    label, why = value.get("string_value"), value.get("comment")
    if kind == "CATEGORICAL":  # a number is the place of the category
        given = label or given
    elif kind in ("TEXT", "CORRECTION"):
        given, why = None, label or given
    elif (given := number_of(given)) is None:
        raise DataError(f"the score {value['name']} has no number in value")
    elif kind == "BOOLEAN":
        given = bool(given)
    person = value.get("source") == "ANNOTATION"
    return score_of(text(value["name"]), at_ns, given, explanation=why, by_person=person)


def _columns(row: Row, timed: str) -> list[SpanEvent]:
    """Read the columns of scores that tables of the page have: lists of numbers or of labels."""
    found: list[SpanEvent] = []
    for name, cell in row.value.items():
        if _snake(name) in _NO_SCORES:
            continue
        listed = items(open_json(cell) if isinstance(cell, str) else cell)
        if listed and all(isinstance(each, str | float | int) for each in listed):
            time = row.value.get(timed) or row.value.get("startTime")
            found += [score_of(name, ns_of(time, timed), each) for each in listed]
    return found
