"""Alert conditions: the healthy range of a pass rate, as data, and when it is looked at."""

from scouter.alert.config import (
    AgentAlertConfig,
    AlertCondition,
    AlertThreshold,
    ConsoleDispatchConfig,
    OpsGenieDispatchConfig,
    SlackDispatchConfig,
)

__all__ = (
    "AgentAlertConfig",
    "AlertCondition",
    "AlertThreshold",
    "ConsoleDispatchConfig",
    "OpsGenieDispatchConfig",
    "SlackDispatchConfig",
)
