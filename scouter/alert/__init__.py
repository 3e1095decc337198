"""Alert conditions: the healthy range of a pass rate, as data."""

from scouter.alert.condition import AlertCondition, AlertThreshold
from scouter.alert.config import AgentAlertConfig

__all__ = ("AgentAlertConfig", "AlertCondition", "AlertThreshold")
