"""Phoenix: frames of spans and of annotations, and the answers of its API.

The attributes are OpenInference's as they are. A frame has each in a column `attributes.NAME`,
where Phoenix has put lists of messages together; here they get their numbered names again.

Source: `Client.spans.get_spans_dataframe`, `get_spans` and `get_span_annotations_dataframe` of
    arize-phoenix-client; OpenInference's semantic conventions.
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
    opened_number,
    resource_of,
    score_of,
    span_of,
    with_lost,
)
from scouter.model.genai.messages import field, items, text
from scouter.model.genai.wrappers import open_json
from scouter.model.span import Span, SpanEvent

LOOKS_FOR: Final = (
    "Phoenix spans (context.trace_id, context.span_id, start_time) or annotations (span_id, "
    "annotation_name)"
)

_KIND: Final = "openinference.span.kind"
_PREFIX: Final = "attributes."


def is_row(value: Mapping[str, object]) -> bool:
    """Tell whether an object is a span or an annotation."""
    return _is_span(value) or _is_annotation(value)


def _is_span(value: Mapping[str, object]) -> bool:
    context = value.get("context")
    has_id = "context.span_id" in value or (isinstance(context, dict) and "span_id" in context)
    return has_id and "start_time" in value


def _is_annotation(value: Mapping[str, object]) -> bool:
    names = ("annotation_name", "annotator_kind")
    return any(name in value for name in names) and "span_id" in value


def traces(rows: Iterable[Row], tell: Tell) -> Iterator[list[Span]]:
    """Put spans together to traces, and annotations to their spans.

    Args:
        rows: Those that `is_row` knows, of any number of files.
        tell: Takes rows that cannot be used.
    """
    scores: dict[str, list[Row]] = {}
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        if not _is_span(row.value):
            scores.setdefault(text(row.value["span_id"]), []).append(row)
            continue
        trace, span = _ids(row.value)
        if trace and span:
            found.setdefault(trace, {})[span] = row
        else:
            tell(row.fault("expected texts as context.trace_id and context.span_id"))
    for trace, members in found.items():
        spans: list[Span] = []
        for span_id, row in members.items():
            try:
                reported = _scores(scores.pop(span_id, ()), tell)
                spans.append(_span(trace, span_id, row.value, reported))
            except DataError as error:
                tell(row.fault(error))
        yield with_lost(spans, len(members) - len(spans))
    for span_id, its in scores.items():
        for row in its:
            tell(row.fault(f"an annotation of the span {span_id}, which is in no file"))


def _ids(value: Object) -> tuple[str, str]:
    context = value.get("context")
    return (
        text(value.get("context.trace_id")) or text(field(context, "trace_id")),
        text(value.get("context.span_id")) or text(field(context, "span_id")),
    )


def _span(trace: str, span_id: str, value: Object, scores: Iterable[SpanEvent]) -> Span:
    start_ns = ns_of(value.get("start_time"), "start_time")
    failed = text(value.get("status_code")).upper() == "ERROR"
    return span_of(
        (trace, span_id, text(value.get("parent_id"))),
        text(value.get("name")),
        (start_ns, value.get("end_time"), "end_time"),
        _attributes(value),
        error=text(value.get("status_message")) if failed else None,
        events=(*_events(value.get("events"), start_ns), *scores),
        resource=resource_of(text(value.get("project_name"))),
    )


def _attributes(value: Object) -> Attributes:
    given = open_json(value.get("attributes"))
    nested = dict(given) if isinstance(given, dict) else {}
    for name, each in value.items():
        if name.startswith(_PREFIX):
            nested[name.removeprefix(_PREFIX)] = each
    found: Attributes = {}
    for name, each in nested.items():
        _put(found, name, each)
    if kind := text(value.get("span_kind")):
        found.setdefault(_KIND, kind)
    return found


def _put(found: Attributes, name: str, value: JsonValue) -> None:
    """Add an attribute; of objects and lists of objects each part, under a name of its own."""
    if value is None:
        return
    if isinstance(value, dict) and name != "metadata":
        for key, each in value.items():
            _put(found, f"{name}.{key}", each)
    elif isinstance(value, list) and any(isinstance(each, dict) for each in value):
        for at, each in enumerate(value):
            _put(found, f"{name}.{at}", each)
    elif isinstance(value, list) and not any(isinstance(each, list) for each in value):
        found[name] = tuple(each for each in value if not isinstance(each, list | dict))
    else:
        found.update(attributes_of({name: value}))


def _events(value: JsonValue, at_ns: int) -> Iterator[SpanEvent]:
    for each in items(open_json(value)):
        reported, time = field(each, "attributes"), field(each, "timestamp")
        attributes = dict(reported) if isinstance(reported, dict) else {}
        attributes.setdefault("exception.message", field(each, "message"))
        yield SpanEvent(
            name=text(field(each, "name")) or "event",
            time_ns=ns_of(time, "timestamp") if time else at_ns,
            attributes=attributes_of(attributes),
        )


def _scores(rows: Iterable[Row], tell: Tell) -> Iterator[SpanEvent]:
    for row in rows:
        value, result = row.value, open_json(row.value.get("result"))
        reported = {
            name: value.get(f"result.{name}", field(result, name))
            for name in ("score", "label", "explanation")
        }
        time = value.get("updated_at") or value.get("created_at")
        score, label = opened_number(reported["score"]), reported["label"]
        if score is None and label is None:
            tell(row.fault("neither score nor label"))
            continue
        try:
            yield score_of(
                text(value.get("annotation_name")) or text(value.get("name")),
                ns_of(time, "updated_at"),
                label if score is None else score,
                label=None if score is None else label,
                explanation=reported["explanation"],
                by_person=value.get("annotator_kind") == "HUMAN",
            )
        except DataError as error:
            tell(row.fault(error))
