"""A replay that can be killed: run as a program of its own, and inside a test."""

import os
import signal
import sys
from pathlib import Path
from typing import Any

from opentelemetry import baggage

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.scenario import EvalScenario, EvalScenarios
from scouter.model.attributes import SCENARIO_ATTEMPT
from scouter.model.record import EvalRecord
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.tracer import get_tracer, init_tracer, shutdown_tracer
from scouter.transport.config import MockConfig
from tests.scouter.replay.bench import equals, spans_named

NAMES = ["a", "größe", "c", "d", "e"]
REPEATS = 2


def scenarios(**changed: Any) -> EvalScenarios:
    """Five; `c` fails, and `d` raises in its second attempt."""
    return EvalScenarios(
        [
            EvalScenario(
                name,
                [
                    equals("response.text", "C" if name == "c" else f"re: {name}"),
                    spans_named("step", 2),
                ],
                id=name,
                **changed,
            )
            for name in NAMES
        ],
        collection_id="journal",
    )


def profiles() -> list[AgentEvalProfile]:
    return [AgentEvalProfile(alias="agent", tasks=[equals("n", 1), spans_named("step", 2)])]


class Agent:
    """Emits two spans and one record per message.

    Args:
        kill_at: Kills the process, as `kill -9` does, in the middle of this call (from 1).
    """

    def __init__(self, queue: ScouterQueue, kill_at: int = 0) -> None:
        self.queue = queue
        self.kill_at = kill_at
        self.messages: list[str] = []

    def __call__(self, query: str) -> dict[str, Any]:
        self.messages.append(query)
        tracer = get_tracer("agent")
        with tracer.start_as_current_span("step"), tracer.start_as_current_span("step") as span:
            span.set_attribute("list", ["x", "y"])
            context = {"n": 1, "big": 2**70, "text": "日本"}
            record = EvalRecord(context, id=f"r-{query}", tags={"t": "ü"})
            self.queue["agent"].insert(record)
            if len(self.messages) == self.kill_at:
                os.kill(os.getpid(), signal.SIGKILL)
        if query == "d" and baggage.get_baggage(SCENARIO_ATTEMPT) == "1":
            raise LookupError("d is shy")
        return {"text": f"re: {query}"}


def run(
    journal: Path | None, kill_at: int = 0, **options: Any
) -> tuple[ScenarioEvalResults, Agent]:
    """Replay the scenarios; give back the results and the questions."""
    queue = ScouterQueue.from_profile(profiles(), transport_config=MockConfig())
    init_tracer(service_name="journal", scouter_queue=queue)
    try:
        agent = Agent(queue, kill_at)
        options = {"on_error": "record", "repeats": REPEATS, **options}
        orch = EvalOrchestrator(queue, scenarios(), agent)
        return orch.run(resume=journal, **options), agent
    finally:
        shutdown_tracer()
        queue.shutdown()


if __name__ == "__main__":
    run(Path(sys.argv[1]), int(sys.argv[2]), concurrency=int(sys.argv[3]))
