"""What an agent did in the cases of a dataset."""

from collections.abc import Sequence
from functools import partial

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.tasks.function import FunctionTask
from scouter.formats.nvidia.asking import RowOrchestrator
from scouter.formats.nvidia.cases import Answered, Cases
from scouter.formats.nvidia.config import Structure
from scouter.formats.nvidia.turns import Conversation
from scouter.formats.turns import ALIAS
from scouter.replay.named_run import NamedRun, run_named


def ask(
    conversations: Sequence[Conversation],
    agent: object,
    *,
    concurrency: int = 8,
) -> list[Answered]:
    """Ask an agent; the turns of all conversations in their order."""
    cases = Cases.of(conversations, Structure(), "id")
    profile = AgentEvalProfile([FunctionTask("any", lambda _: 1)], alias=ALIAS)
    run = NamedRun(
        agent=agent,  # pyright: ignore[reportArgumentType] - whatever a test asks
        profiles=[profile], concurrency=concurrency, progress=False,
        orchestrator=partial(RowOrchestrator, cases),
    )  # fmt: skip
    results = run_named(cases.scenarios(lambda _: None), run)
    uids = {
        (each.scenario_id, each.record_id): each.record.record_uid
        for each in results.dataset_results[ALIAS]
    }
    return [
        cases.answered[uids[name, f"turn {at + 1}"]]
        for name, each in cases.by_name.items()
        for at in range(len(each.turns))
    ]
