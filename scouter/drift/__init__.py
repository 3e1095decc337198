"""Profiles: what an agent is judged by, as data."""

from typing import TYPE_CHECKING

from scouter.lazy import lazy_names

if TYPE_CHECKING:
    from scouter.alert.config import AgentAlertConfig
    from scouter.drift.config import AgentEvalConfig
    from scouter.drift.profile import AgentEvalProfile, Drifter
    from scouter.drift.watch import Watch, WatchMatch
    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.tasks.agent import AgentAssertionTask
    from scouter.evaluate.tasks.assertion import AssertionTask
    from scouter.evaluate.tasks.judge import LLMJudgeTask
    from scouter.evaluate.tasks.trace import TraceAssertionTask
    from scouter.model.record import EvalRecord
else:
    __getattr__, __dir__ = lazy_names(__name__)

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
    "Watch",
    "WatchMatch",
)
