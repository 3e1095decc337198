from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict
from scouter.agent import Prompt
from scouter.drift import AgentEvalProfile
from scouter.evaluate import EvalScenarios, TasksFile
from scouter.queue import ScouterQueue
from scouter.tracing import ScouterInstrumentor
from scouter.transport import MockConfig

_BASE_DIR = Path(__file__).resolve().parent


class SharedConfig(BaseModel):
    queue: ScouterQueue
    prompt: Prompt
    scenarios: EvalScenarios
    instrumentor: ScouterInstrumentor

    model_config = ConfigDict(arbitrary_types_allowed=True)


@lru_cache(maxsize=1)
def get_shared_config() -> SharedConfig:
    tasks = TasksFile.from_path(_BASE_DIR / "tasks.yaml")
    profile = AgentEvalProfile(alias="support_agent", tasks=tasks)
    queue = ScouterQueue.from_profile(profile=[profile], transport_config=MockConfig())
    instrumentor = ScouterInstrumentor()
    instrumentor.instrument(transport_config=MockConfig(), scouter_queue=queue)
    return SharedConfig(
        queue=queue,
        prompt=Prompt.from_path(_BASE_DIR / "prompt.yaml"),
        scenarios=EvalScenarios.from_path(_BASE_DIR / "scenarios.jsonl"),
        instrumentor=instrumentor,
    )
