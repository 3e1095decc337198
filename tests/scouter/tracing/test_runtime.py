"""The way of spans in a process that is configured several times."""

import time

import pytest

from scouter.errors import TransientError
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.capture import CAPTURE
from scouter.tracing.runtime import RUNTIME
from scouter.tracing.tracer import flush_tracer, init_tracer
from scouter.transport.config import BatchConfig, MockConfig, TransportConfig
from scouter.transport.port import Transport
from tests.scouter.queue.profiles import profile


def test_an_explicit_transport_is_not_replaced_by_that_of_a_queue() -> None:
    explicit, other = MockConfig.model_validate({"a": 1}), MockConfig.model_validate({"a": 2})
    init_tracer(transport_config=explicit)
    init_tracer(scouter_queue=ScouterQueue.from_profile(profile("a"), other))
    assert RUNTIME.export is not None
    assert RUNTIME.export.config == explicit

    RUNTIME.shutdown(5.0)
    init_tracer(scouter_queue=ScouterQueue.from_profile(profile("a"), other))
    assert RUNTIME.export.config == other
    init_tracer(transport_config=explicit)
    assert RUNTIME.export.config == explicit


@pytest.mark.parametrize("bounds_first", [True, False])
def test_bounds_alone_take_effect(bounds_first: bool) -> None:
    bounds = BatchConfig(max_queue_size=7)
    if bounds_first:
        init_tracer(batch_config=bounds)
    init_tracer(transport_config=MockConfig())
    if not bounds_first:
        init_tracer(batch_config=bounds)
    init_tracer()

    assert RUNTIME.export is not None
    assert RUNTIME.export.batch_config == bounds


class _Away(TransportConfig):
    """A far side that never answers."""

    def open(self) -> Transport:
        raise TransientError("away")


@pytest.mark.pace
def test_flushing_does_not_wait_for_a_far_side_while_spans_are_captured() -> None:
    tracer = init_tracer(transport_config=_Away())
    started_s = time.monotonic()
    assert flush_tracer(60)
    CAPTURE.enable()
    tracer.start_span("stored").end()
    assert flush_tracer(60)
    CAPTURE.disable()
    tracer.start_span("waits").end()
    CAPTURE.enable()

    assert not flush_tracer(60)
    assert time.monotonic() - started_s < 30
    RUNTIME.shutdown(0.1)
