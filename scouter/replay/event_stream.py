"""The stream of events in which a workflow of NeMo Agent Toolkit answers: its answer, its steps.

Each event is a line. `data` has a part of the answer as `value`; `intermediate_data` has a step,
whose `payload` is JSON in a text. Steps become spans with the names of the toolkit's own exporter.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from opentelemetry import context as otel
from opentelemetry import trace
from pydantic import JsonValue

from scouter.errors import DataError

CONTENT_TYPE: Final = "text/event-stream"
_ANSWER: Final = "data:"
_STEP: Final = "intermediate_data:"
_NANO: Final = 1_000_000_000
_WHOLE: Final = (
    "ask for the whole answer at once (`stream: false` in the body), or ask a workflow of NeMo "
    "Agent Toolkit at its address /generate/full"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step of a workflow: a model's call, a tool's, a function's."""

    uid: str
    parent: str
    attributes: Mapping[str, str | int]
    start_ns: int
    end_ns: int


def read_stream(text: str) -> tuple[JsonValue, list[Step]]:
    """Read the answer and the steps of a stream, in the order of their start.

    Parts of an answer that are texts are joined.

    Raises:
        DataError: It is another stream, or it has no answer.
    """
    parts: list[JsonValue] = []
    steps: dict[str, Step] = {}
    for line in text.split("\n"):
        if line.startswith(_STEP):
            step = _step(_object(line.removeprefix(_STEP)))
            if step is not None:  # the end comes behind the start, and knows more
                steps[step.uid] = step
        elif line.startswith(_ANSWER):
            event = _object(line.removeprefix(_ANSWER))
            if "value" not in event:
                raise DataError(f"a stream of events without `value` is not read; {_WHOLE}")
            parts.append(event["value"])
    if not parts:
        raise DataError(f"a stream of events without an answer; {_WHOLE}")
    texts = [part for part in parts if isinstance(part, str)]
    answer = "".join(texts) if len(texts) == len(parts) else parts[-1]
    return answer, sorted(steps.values(), key=lambda each: each.start_ns)


def trace_steps(steps: Iterable[Step], tracer: trace.Tracer, begin_ns: int, end_ns: int) -> None:
    """Make a span of each step below the running span.

    Args:
        steps: In the order of their start.
        tracer: Makes the spans.
        begin_ns: Moment of the question, in ns since the epoch. Steps outside of question and
            answer were timed by another clock, and are moved to the question.
        end_ns: Moment of the answer.
    """
    listed = list(steps)
    first = min((each.start_ns for each in listed), default=begin_ns)
    last = max((each.end_ns for each in listed), default=end_ns)
    moved = 0 if begin_ns <= first and last <= end_ns else begin_ns - first
    made: dict[str, otel.Context] = {}
    for each in listed:
        span = tracer.start_span(
            str(each.attributes["nat.subspan.name"]),
            context=made.get(each.parent),
            attributes=each.attributes,
            start_time=each.start_ns + moved,
        )
        span.end(each.end_ns + moved)
        made[each.uid] = trace.set_span_in_context(span)


def _step(event: Mapping[str, Any]) -> Step | None:
    """Read a step that began or ended; None of an event in the middle of one."""
    payload = _object(str(event.get("payload") or "{}"))
    data, used = _fields(payload.get("data")), _fields(payload.get("usage_info"))
    usage = _fields(used.get("token_usage"))
    kind, _, state = str(payload.get("event_type") or event.get("type") or "").rpartition("_")
    if state not in ("START", "END"):
        return None
    at_s = float(payload.get("event_timestamp") or 0)
    begin_s = float(payload.get("span_event_timestamp") or at_s)
    name = str(payload.get("name") or event.get("name") or "")
    attributes: dict[str, str | int] = {
        "nat.span.kind": kind, "nat.subspan.name": name, "nat.event_type": f"{kind}_START",
    }  # fmt: skip
    if kind == "LLM":
        attributes["llm.model_name"] = name
        for short in ("prompt", "completion"):
            if count := usage.get(f"{short}_tokens"):
                attributes[f"llm.token_count.{short}"] = int(count)
    for side in ("input", "output"):
        if (value := data.get(side)) is not None:
            attributes[f"{side}.value"] = value if isinstance(value, str) else json.dumps(value)
    return Step(
        uid=str(payload.get("UUID") or event.get("id")),
        parent=str(event.get("parent_id") or ""),
        attributes=attributes,
        start_ns=int(begin_s * _NANO),
        end_ns=int(at_s * _NANO),
    )


def _fields(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise DataError(f"a stream of events that are no JSON objects is not read; {_WHOLE}")
    return cast("dict[str, Any]", value)
