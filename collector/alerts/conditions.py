"""Conditions of profiles that hold, as alerts beside those of the detectors.

People are told of one that is looked at on a schedule, or whose profile names a channel. One that
is looked at after every record is listed alone: so many looks raise false alarms.
"""

from collections.abc import Collection, Iterable

from collector.alerts.drift.alert import (
    NOBODY,
    ConditionKey,
    DriftAlert,
    DriftAlertState,
    Figures,
    alert_id,
)
from collector.alerts.monitor import AlertStatus
from collector.store.rows import AlertState
from scouter.alert.config import AgentAlertConfig
from scouter.alert.dispatch import channel_of
from scouter.drift.series.series import Kind


def held_by(
    statuses: Iterable[AlertStatus], channels: Collection[str], now_ns: int
) -> tuple[list[DriftAlert], dict[ConditionKey, str]]:
    """Sort conditions into those that hold and those that do not.

    Args:
        statuses: The standing of all.
        channels: Names of those who can be told.
        now_ns: Time at which an alert is opened.

    Returns:
        The alerts of those that hold, and the counts of the others in words.
    """
    alerts: list[DriftAlert] = []
    notes: dict[ConditionKey, str] = {}
    for each in statuses:
        if each.state is AlertState.FIRING:
            alerts.append(_alert(each, channels, now_ns))
        else:
            key = ConditionKey(each.space, each.profile.uid)
            notes[key] = f"{each.passed} of the last {each.n} records passed"
    return alerts, notes


def _alert(status: AlertStatus, channels: Collection[str], now_ns: int) -> DriftAlert:
    profile, at_ns = status.profile, status.since_ns or now_ns
    config = profile.config.alert_config
    return DriftAlert(
        alert_id=alert_id(ConditionKey(status.space, profile.uid), now_ns),
        space=status.space, profile_uid=profile.uid, profile_name=profile.name,
        alias=profile.alias, profile_digest=profile.digest, task="", kind=Kind.PASS,
        service="", environment="", version="", state=DriftAlertState.FIRING,
        opened_ns=at_ns, changed_ns=at_ns, examples=(), condition=status.condition,
        channel=_channel(config, channels),
        opened=figures_of(status).model_copy(update={"since_ns": at_ns}),
    )  # fmt: skip


def figures_of(status: AlertStatus) -> Figures:
    """Take the counts of a condition as they are."""
    condition = status.profile.config.alert_config.alert_condition
    bound = 0.0 if condition is None else condition.lower_bound()
    return Figures(
        since_ns=status.since_ns or 0, records=status.n, failed=status.n - status.passed,
        evidence=0.0, healthy=bound, lower=max(bound, 0.0),
        against=f"the condition of the profile: {status.condition}",
    )  # fmt: skip


def _channel(config: AgentAlertConfig, channels: Collection[str]) -> str:
    if config.dispatch_config is None:
        return NOBODY if config.schedule is None else ""
    wanted = channel_of(config.dispatch_config)
    return wanted if wanted in channels else ""  # else nobody would be told
