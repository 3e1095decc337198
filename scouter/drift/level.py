"""References that a profile states."""

from scouter.alert.condition import AlertThreshold
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.stated import Stated


def stated_by(profile: AgentEvalProfile) -> Stated:
    """All that a profile states; its alert's lowest healthy rate where it says no other."""
    condition = profile.config.alert_config.alert_condition
    level = None
    if condition is not None and condition.alert_threshold is not AlertThreshold.Above:
        level = max(condition.lower_bound(), 0.0) or None
    return Stated.of(profile.config.healthy, level)
