"""The release check of the demo: both versions replay the same scenarios, in this process."""

from pathlib import Path
from typing import Final

from pydantic_ai import Agent

from collector.demo.support_desk import RELEASES, Release, SupportDesk
from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.api.comparison import ScenarioComparisonResults
from scouter.evaluate.api.replay import ScenarioEvalResults
from scouter.evaluate.scenario import EvalScenarios
from scouter.queue.scouter_queue import ScouterQueue
from scouter.replay.orchestrator import EvalOrchestrator
from scouter.tracing.instrumentor import ScouterInstrumentor
from scouter.tracing.tracer import get_tracer
from scouter.transport.config import MockConfig

SCENARIOS: Final = Path(__file__).with_name("scenarios.yaml")


def compare_releases(baseline: str, candidate: str) -> ScenarioComparisonResults:
    """Replay the scenarios against two releases and compare the second with the first."""
    queue = ScouterQueue.from_profile(
        profile=[
            AgentEvalProfile.from_file("support_retriever"),
            AgentEvalProfile.from_file("support_writer"),
        ],
        transport_config=MockConfig(),
    )
    instrumentor = ScouterInstrumentor()
    instrumentor.instrument(scouter_queue=queue)
    Agent.instrument_all()
    try:
        before = _replay(queue, RELEASES[baseline])
        after = _replay(queue, RELEASES[candidate])
    finally:
        Agent.instrument_all(False)
        instrumentor.uninstrument()
        queue.shutdown()
    return after.compare_to(before)


def _replay(queue: ScouterQueue, release: Release) -> ScenarioEvalResults:
    desk = SupportDesk(release, get_tracer("support-desk"))
    scenarios = EvalScenarios.from_path(SCENARIOS)
    return EvalOrchestrator(queue=queue, scenarios=scenarios, agent_fn=desk.answer).run()
