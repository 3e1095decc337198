"""Small traces that tests build on.

They are made anew by each call with the same ids and times, and have what tests usually ask for:
names, durations, attributes, services, depths and an error. In each of them one span starts when
the one before it ends, as if the work were handed on.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Final

from scouter.model.span import AttributeValue, Resource, Span, StatusCode

_START_NS: Final = 1_767_225_600_000_000_000
"""The first of January 2026, UTC."""
_MS: Final = 1_000_000

_REQUEST: Final[Mapping[str, AttributeValue]] = {
    "http.method": "POST",
    "http.status_code": 200,
    "http.url": "https://api.example.com/users",
}


def create_simple_trace() -> list[Span]:
    """Make a root with two children.

    Returns:
        `root` (150 ms, with `http.method`, `http.status_code` and `http.url`), `child_1` (50 ms)
        and `child_2` (30 ms); all in order.
    """
    return _handed_on(
        _span(1, "test_service", 0, "root", None, 150, _REQUEST),
        _span(1, "test_service", 1, "child_1", 0, 50),
        _span(1, "test_service", 2, "child_2", 0, 30),
    )


def create_nested_trace() -> list[Span]:
    """Make a trace three levels deep.

    Returns:
        `init` (300 ms), in it `process` (200 ms), in that `db_query` (100 ms) and `finalize`
        (50 ms).
    """
    return _handed_on(
        _span(2, "nested_service", 0, "init", None, 300),
        _span(2, "nested_service", 1, "process", 0, 200),
        _span(2, "nested_service", 2, "db_query", 1, 100),
        _span(2, "nested_service", 3, "finalize", 1, 50),
    )


def create_trace_with_errors() -> list[Span]:
    """Make a trace in which one of two children fails.

    Returns:
        `root` (200 ms), `failing_operation` (100 ms, an error: "Connection timeout") and
        `recovery` (50 ms).
    """
    return _handed_on(
        _span(3, "error_service", 0, "root", None, 200),
        _span(3, "error_service", 1, "failing_operation", 0, 100, error="Connection timeout"),
        _span(3, "error_service", 2, "recovery", 0, 50),
    )


def create_trace_with_attributes() -> list[Span]:
    """Make a trace whose spans tell of a request and of a model's answer.

    Returns:
        `root` (150 ms, with `http.method`, `http.status_code` and `http.url`) and `api_call`
        (100 ms, with `model`, `tokens.input` 150, `tokens.output` 300, `cost` and the object
        `response`).
    """
    answer: Mapping[str, AttributeValue] = {
        "model": "gpt-4",
        "tokens.input": 150,
        "tokens.output": 300,
        "cost": 0.045,
        "response": {"success": True, "data": {"id": 12345}},
    }
    return _handed_on(
        _span(4, "attribute_service", 0, "root", None, 150, _REQUEST),
        _span(4, "attribute_service", 1, "api_call", 0, 100, answer),
    )


def create_multi_service_trace() -> list[Span]:
    """Make a trace of three services, the second and third of which work side by side.

    Returns:
        `gateway` of `service_a` (300 ms), `auth_check` of `service_b` (50 ms) and `data_fetch` of
        `service_c` (200 ms); they start one microsecond after another.
    """
    spans = (
        _span(6, "service_a", 0, "gateway", None, 300),
        _span(6, "service_b", 1, "auth_check", 0, 50),
        _span(6, "service_c", 2, "data_fetch", 0, 200),
    )
    return [_moved(span, at * 1_000) for at, span in enumerate(spans)]


def create_sequence_pattern_trace() -> list[Span]:
    """Make a chain in which a pair of names follows itself.

    Returns:
        `start`, `call_tool`, `run_agent`, `call_tool`, `run_agent` and `finish`, each the parent
        of the next: 50, 100, 150, 80, 120 and 30 ms.
    """
    steps = (
        ("start", 50), ("call_tool", 100), ("run_agent", 150), ("call_tool", 80),
        ("run_agent", 120), ("finish", 30),
    )  # fmt: skip
    return _handed_on(
        *(
            _span(7, "pattern_service", at, name, at - 1 if at else None, took_ms)
            for at, (name, took_ms) in enumerate(steps)
        )
    )


def _span(
    trace: int,
    service: str,
    number: int,
    name: str,
    parent: int | None,
    took_ms: int,
    attributes: Mapping[str, AttributeValue] | None = None,
    error: str = "",
) -> Span:
    return Span(
        trace_id=f"{trace:032x}",
        span_id=f"{number + 1:016x}",
        parent_span_id=None if parent is None else f"{parent + 1:016x}",
        name=name,
        start_ns=_START_NS,
        end_ns=_START_NS + took_ms * _MS,
        status=StatusCode.ERROR if error else StatusCode.OK,
        status_message=error,
        attributes=dict(attributes or {}),
        resource=Resource(attributes={"service.name": service}),
    )


def _handed_on(*spans: Span) -> list[Span]:
    ends = accumulate((span.duration_ns for span in spans), initial=0)
    return [_moved(span, later_ns) for span, later_ns in zip(spans, ends, strict=False)]


def _moved(span: Span, later_ns: int) -> Span:
    return replace(span, start_ns=span.start_ns + later_ns, end_ns=span.end_ns + later_ns)
