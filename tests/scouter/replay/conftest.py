"""Fixtures of the replay's tests."""

from collections.abc import Iterator

import pytest

from scouter.drift.profile import AgentEvalProfile
from scouter.queue.scouter_queue import ScouterQueue
from scouter.tracing.tracer import init_tracer, shutdown_tracer
from scouter.transport.config import MockConfig
from tests.scouter.replay.bench import Bench, spans_named


@pytest.fixture
def bench() -> Iterator[Bench]:
    profile = AgentEvalProfile(alias="agent", tasks=[spans_named("step", 1)])
    queue = ScouterQueue.from_profile([profile], transport_config=MockConfig())
    yield Bench(queue, init_tracer(service_name="replay", scouter_queue=queue))
    shutdown_tracer()
