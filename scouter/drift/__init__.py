"""Profiles: what an agent is judged by, as data."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from scouter.alert.config import AgentAlertConfig
    from scouter.drift.config import AgentEvalConfig
    from scouter.drift.drifter import Drifter
    from scouter.drift.profile import AgentEvalProfile
    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.tasks.agent import AgentAssertionTask
    from scouter.evaluate.tasks.assertion import AssertionTask
    from scouter.evaluate.tasks.judge import LLMJudgeTask
    from scouter.evaluate.tasks.trace import TraceAssertionTask
    from scouter.model.record import EvalRecord

_HOMES = {
    "AgentAlertConfig": "scouter.alert.config",
    "AgentAssertionTask": "scouter.evaluate.tasks.agent",
    "AgentEvalConfig": "scouter.drift.config",
    "AgentEvalProfile": "scouter.drift.profile",
    "AssertionTask": "scouter.evaluate.tasks.assertion",
    "ComparisonOperator": "scouter.evaluate.operators.comparison",
    "Drifter": "scouter.drift.drifter",
    "EvalRecord": "scouter.model.record",
    "LLMJudgeTask": "scouter.evaluate.tasks.judge",
    "TraceAssertionTask": "scouter.evaluate.tasks.trace",
}

__all__ = (
    "AgentAlertConfig",
    "AgentAssertionTask",
    "AgentEvalConfig",
    "AgentEvalProfile",
    "AssertionTask",
    "ComparisonOperator",
    "Drifter",
    "EvalRecord",
    "LLMJudgeTask",
    "TraceAssertionTask",
)


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(home), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
