"""Spans made of what was exported: ids, times, attributes and scores, as OTLP has them."""

import datetime
import hashlib
import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias, TypeGuard

from pydantic import JsonValue

from scouter.errors import DataError, FileFormatError
from scouter.model.attributes import PROCESS_ID, PROCESS_SPAN_COUNT
from scouter.model.ids import is_span_id, is_trace_id
from scouter.model.log_event import RESULT_EVENT
from scouter.model.otlp_json import MAX_TIME_NS
from scouter.model.span import (
    NO_RESOURCE,
    AttributeValue,
    Resource,
    Span,
    SpanEvent,
    StatusCode,
)

Object: TypeAlias = dict[str, JsonValue]
Attributes: TypeAlias = dict[str, AttributeValue]
Tell: TypeAlias = Callable[[FileFormatError], None]
"""Takes each part of an export that cannot be read; all else is."""

TOOL_RESULT: Final = "gen_ai.tool.call.result"

_COUNTS: Final = ("gen_ai.usage.", "llm.token_count.")
_UNITS: Final = ((10**17, 1), (10**14, 10**3), (10**11, 10**6), (0, 10**9))
"""The least count since 1970 that is one of ns, µs, ms or s, and the nanoseconds of one."""
_INT64: Final = range(-(2**63), 2**63)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND: Final = datetime.timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One object of an export, and where it stands."""

    value: Object
    path: str
    line: int | None = None

    def fault(self, problem: object) -> FileFormatError:
        """Say what is wrong with it."""
        return FileFormatError(self.path, str(problem), self.line)


def trace_id_of(name: str) -> str:
    """Give the trace id of a name: itself if it is one, a UUID without its hyphens, else a digest.

    A name gives the same id every time, so that an export that comes twice is stored once.
    """
    plain = name.replace("-", "").lower()
    return plain if is_trace_id(plain) else _digest(name, 16)


def span_id_of(*names: str) -> str:
    """Give the span id of a name: itself if it is one, else a digest of all names."""
    plain = names[-1].lower()
    return plain if is_span_id(plain) and len(names) == 1 else _digest("\n".join(names), 8)


def _digest(name: str, size: int) -> str:
    return hashlib.blake2b(name.encode("utf-8", "replace"), digest_size=size).hexdigest()


def ns_of(value: JsonValue, name: str) -> int:
    """Read a time.

    Args:
        value: ISO 8601, in UTC if it names no zone; or a count of s, ms, µs or ns since 1970, of
            which its size tells.
        name: Name of the field, for the error.

    Returns:
        Nanoseconds since the epoch.

    Raises:
        DataError: It is no time.
    """
    found = -1
    try:
        if isinstance(value, str) and not value.replace(".", "", 1).isdecimal():
            at = datetime.datetime.fromisoformat(value.strip())
            at = at if at.tzinfo else at.replace(tzinfo=datetime.UTC)
            found = (at - _EPOCH) // _MICROSECOND * 1000
        elif isinstance(value, int | float | str) and not isinstance(value, bool):
            count = float(value)
            unit = next(unit for least, unit in _UNITS if count >= least)
            found = value * unit if isinstance(value, int) else int(count * unit)
    except (ValueError, OverflowError, StopIteration):
        found = -1
    if not 0 <= found <= MAX_TIME_NS:
        raise DataError(f"{name}: {json.dumps(value)[:60]} is no time; expected ISO 8601")
    return found


def shown(value: JsonValue) -> str:
    """Write a value as an attribute has it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def attributes_of(values: Mapping[str, JsonValue]) -> Attributes:
    """Make attributes: numbers and flags as they are, texts, and JSON for the rest.

    What is null or an empty text is left out, but the result of a tool may be one. A count that is
    a text, as in CSV, is a number.
    """
    return {
        name: value if _is_number(value) else shown(value)
        for name, value in ((name, _counted(name, each)) for name, each in values.items())
        if value is not None and (value != "" or name == TOOL_RESULT)
    }


def _counted(name: str, value: JsonValue) -> JsonValue:
    return opened_number(value) if name.startswith(_COUNTS) else value


def _is_number(value: JsonValue) -> TypeGuard[bool | int | float]:
    return isinstance(value, float) or (isinstance(value, int) and value in _INT64)


@lru_cache(maxsize=1024)
def resource_of(service: str, version: str = "", environment: str = "") -> Resource:
    """Give the resource of an exported service, as far as it is known; the same one each time."""
    known: Object = {
        "service.name": service,
        "service.version": version,
        "deployment.environment.name": environment,
    }
    found = attributes_of(known)
    return Resource(attributes=found) if found else NO_RESOURCE


def number_of(value: JsonValue) -> float | None:
    """Give a finite number or a flag as a float; None for anything else."""
    if not isinstance(value, bool | int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None


def opened_number(value: JsonValue) -> JsonValue:
    """Give the number that a text is, as in CSV; anything else as it is."""
    if not isinstance(value, str):
        return value
    try:
        return int(value) if value.isdecimal() else float(value)
    except ValueError:
        return value


def span_of(
    ids: tuple[str, str, str],
    name: str,
    times: tuple[int, JsonValue, str],
    attributes: Attributes,
    *,
    error: str | None = None,
    events: Iterable[SpanEvent] = (),
    resource: Resource = NO_RESOURCE,
) -> Span:
    """Make a span of an exported row.

    Args:
        ids: Names of the trace, the span and its parent; an empty one for a root.
        name: Its name.
        times: Its start in nanoseconds, its end as it was exported, and the name of that field. A
            row without an end is one that has not ended, or a moment.
        attributes: Its attributes.
        error: Reason for its failure, which may be empty; None where it did not fail.
        events: Its events.
        resource: Its resource.

    Raises:
        DataError: The end is no time.
    """
    trace, span, parent = ids
    start_ns, end, field = times
    return Span(
        trace_id=trace_id_of(trace),
        span_id=span_id_of(span),
        parent_span_id=span_id_of(parent) if parent else None,
        name=name,
        start_ns=start_ns,
        end_ns=max(start_ns, ns_of(end, field)) if end else start_ns,
        status=StatusCode.UNSET if error is None else StatusCode.ERROR,
        status_message=error or "",
        attributes=attributes,
        events=tuple(events),
        resource=resource,
    )


def with_lost(spans: list[Span], lost: int) -> list[Span]:
    """Let a trace say that a part of it could not be read, as a process does whose spans got lost.

    So no task passes because of what is not here.

    Args:
        spans: Those that could be read.
        lost: Number of those that could not.
    """
    if not lost or not spans:
        return spans
    marks = {
        id(span.resource): Resource(
            attributes={**span.resource.attributes, PROCESS_ID: spans[0].trace_id}
        )
        for span in spans
    }
    first, *others = [replace(span, resource=marks[id(span.resource)]) for span in spans]
    stamp = {**first.attributes, PROCESS_SPAN_COUNT: len(spans) + lost}
    return [replace(first, attributes=stamp), *others]


def score_of(
    name: str,
    at_ns: int,
    value: JsonValue,
    *,
    label: JsonValue = None,
    explanation: JsonValue = None,
    by_person: bool = False,
    error: str = "",
) -> SpanEvent:
    """Make the event of a score, as OpenTelemetry's conventions for generative AI have it.

    Args:
        name: Name of the score.
        at_ns: Nanoseconds since the epoch.
        value: A number or a flag is the score; a text is its label.
        label: Label beside a number.
        explanation: Reason for the score.
        by_person: A person gave it.
        error: Reason why there is no score.
    """
    number = number_of(value)
    if label is None:
        label = str(value).lower() if isinstance(value, bool) else None
        label = label if number is not None else value
    reported: Object = {
        "gen_ai.evaluation.name": name,
        "gen_ai.evaluation.score.value": number,
        "gen_ai.evaluation.score.label": None if label is None else shown(label),
        "gen_ai.evaluation.explanation": explanation,
        "gen_ai.evaluation.source": "human" if by_person else None,
        "error.type": error,
    }
    return SpanEvent(name=RESULT_EVENT, time_ns=at_ns, attributes=attributes_of(reported))
