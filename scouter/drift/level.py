"""The healthy rate that a profile states."""

from scouter.alert.condition import AlertThreshold
from scouter.drift.profile import AgentEvalProfile


def stated_level(profile: AgentEvalProfile) -> float | None:
    """The lowest healthy pass rate that a profile's alert states, above 0; None for none."""
    condition = profile.config.alert_config.alert_condition
    if condition is None or condition.alert_threshold is AlertThreshold.Above:
        return None
    level = condition.lower_bound()
    return level if level > 0 else None
