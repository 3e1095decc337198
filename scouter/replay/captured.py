"""The spans of one run of a function."""

import inspect
from collections.abc import Awaitable, Callable
from typing import cast

from scouter.evaluate.judge.loops import run_apart
from scouter.model.attributes import SCENARIO_ID
from scouter.model.ids import uuid7
from scouter.model.span import Span
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.capture import CAPTURE
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.propagation import scenario_scope
from scouter.transport.config import MockConfig


def captured_run(function: Callable[[], object]) -> list[Span]:
    """Run a function and give back the spans that it made, instead of sending them.

    Args:
        function: Plain or async, without parameters; an async one gets an event loop of its own.

    Returns:
        Its spans by start time; spans that other code makes meanwhile are left where they are.

    Raises:
        Exception: The error that the function raised.
    """
    key, instrumentor = uuid7(), ScouterInstrumentor()
    is_ours, was_captured = not instrumentor.is_instrumented, CAPTURE.is_enabled
    if is_ours:
        instrumentor.instrument(scouter_queue=ScouterQueue({}, MockConfig()))
    if not was_captured:
        CAPTURE.enable()
    try:
        with scenario_scope(key):
            answer = function()
            if inspect.isawaitable(answer):
                run_apart(lambda: cast("Awaitable[object]", answer))
        found = CAPTURE.take(lambda span: span.attributes.get(SCENARIO_ID) == key)
    finally:
        if not was_captured:
            CAPTURE.disable()
        if is_ours:
            instrumentor.uninstrument()
    return sorted(found, key=lambda span: (span.start_ns, span.trace_id, span.span_id))
