"""OpenTelemetry's own functions, where Scouter made the global provider."""

import subprocess
import sys

import pytest


def run(code: str) -> str:
    """Run code in a fresh interpreter, as the global provider can be set only once."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


START = """
from opentelemetry import trace
from scouter.mock import MockConfig
from scouter.tracing import *
exporter = TestSpanExporter(batch_export=False)
instrumentor = ScouterInstrumentor().instrument(
    transport_config=MockConfig(), exporter=exporter, service_name="shop"
)
tracer = trace.get_tracer("lib", "1.0")
"""


def test_spans_of_every_library_are_scouters() -> None:
    code = """
assert isinstance(trace.get_tracer_provider(), ScouterTracerProvider)
with tracer.start_as_current_span("outer") as outer:
    current = trace.get_current_span()
    assert isinstance(current, ScouterSpan) and current is outer
    current.set_tag("team", "x")
    with tracer.start_as_current_span("inner") as inner:
        assert (inner.parent_context_id, outer.parent_context_id) == (outer.context_id, None)
span = tracer.start_span("later")
assert span.is_recording()
span.end()
assert not span.is_recording()
print([(span.name, span.scope.name, span.scope.version) for span in exporter.spans])
print([(tag.key, tag.value) for tag in exporter.tags])
"""
    assert run(START + code) == (
        "[('inner', 'lib', '1.0'), ('outer', 'lib', '1.0'), ('later', 'lib', '1.0')]\n"
        "[('team', 'x')]\n"
    )


@pytest.mark.parametrize("when", ["before", "after"])
def test_each_span_is_made_once(when: str) -> None:
    """A tracer that was requested before the provider was there is the same in the end."""
    early = 'from opentelemetry import trace\nearly = trace.get_tracer("early")\n'
    code = "early.start_span('a').end()\nprint(len(exporter.spans), type(span_of()).__name__)\n"
    helper = "def span_of(): return early.start_span('b')\n"
    late = "" if when == "before" else "early = tracer\n"
    assert run((early if when == "before" else "") + START + late + helper + code) == (
        "1 ScouterSpan\n"
    )


def test_after_uninstrument_nothing_is_seen() -> None:
    code = """
instrumentor.uninstrument()
tracer.start_span("not seen").end()
print(exporter.spans)
"""
    assert run(START + code) == "[]\n"


def test_the_names_of_the_api_under_our_roof() -> None:
    code = """
from scouter import trace as ours
assert ours.get_tracer_provider() is trace.get_tracer_provider()
with ours.get_tracer("own").start_as_current_span("a") as span:
    assert isinstance(span, ours.Span) and ours.get_current_span() is span
    assert isinstance(ours.get_tracer("own"), ours.Tracer)
with ours.use_span(span):
    assert ours.get_current_span() is span
print([span.name for span in exporter.spans])
"""
    assert run(START + code) == "['a']\n"
