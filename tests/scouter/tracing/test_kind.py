"""SpanKind has OpenTelemetry's members under both spellings."""

from collections.abc import Callable

import pytest
from opentelemetry import trace as otel

import scouter.trace
from scouter.evaluate.tasks.span_filter import KindName, SpanFilter
from scouter.tracing import SpanKind
from scouter.tracing.tracer import init_tracer
from tests.scouter.tracing.conftest import Captured

NAMES: tuple[KindName, ...] = ("Internal", "Server", "Client", "Producer", "Consumer")


@pytest.mark.parametrize("name", NAMES)
def test_each_kind_under_both_names(name: KindName, captured: Captured) -> None:
    kind = otel.SpanKind[name.upper()]
    spelt = [getattr(SpanKind, name), getattr(SpanKind, name.upper())]
    asked = [SpanKind[name], SpanKind[name.upper()], SpanKind(kind.value)]
    assert all(each is kind and isinstance(each, SpanKind) for each in spelt + asked)
    tracer = init_tracer()
    with tracer.start_as_current_span("with", kind=kind):
        pass
    tracer.span("call", kind=kind)(str)("x")
    assert [captured["with"].kind.name, captured["call"].kind.name] == [name.upper()] * 2
    assert SpanFilter.by_kind(kind) == SpanFilter.by_kind(name)


def test_it_answers_as_the_enum_does() -> None:
    assert scouter.trace.SpanKind is SpanKind
    assert list(SpanKind) == list(otel.SpanKind)
    assert len(SpanKind) == 5
    assert otel.SpanKind.CLIENT in SpanKind
    with pytest.raises(KeyError):
        SpanKind["Sideways"]
    with pytest.raises(ValueError, match="99"):
        SpanKind(99)


@pytest.mark.parametrize("start", ["start_span", "start_as_current_span"])
def test_no_kind_is_internal(start: str, captured: Captured) -> None:
    begin: Callable[..., otel.Span] = getattr(init_tracer(), start)
    with begin("s", kind=None):  # pyright: ignore[reportGeneralTypeIssues] both are context managers
        pass
    assert captured["s"].kind.name == "INTERNAL"
