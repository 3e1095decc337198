"""Small profiles for tests of the SDK."""

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.assertion import AssertionTask


def profile(alias: str, wanted: int = 1) -> AgentEvalProfile:
    """A profile with one task."""
    task = AssertionTask(
        id="check",
        context_path="n",
        operator=ComparisonOperator.Equals,
        expected_value=wanted,
    )
    return AgentEvalProfile(tasks=[task], alias=alias)
