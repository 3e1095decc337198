"""Conditions of profiles that hold at a scheduled time, as alerts that people are told of.

They are kept and delivered like the alerts of the detectors, and end by the condition itself:
nobody acknowledges or resolves them, as the next scheduled look would say the same again.
"""

import time
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from typing import Final

from collector.alerts.drift.alert import Alert, DriftAlert, DriftAlertState, Figures, alert_of
from collector.alerts.monitor import AlertStatus
from collector.storage.port.drift import DriftStore
from collector.storage.port.rows import AlertState
from scouter.alert.dispatch import channel_of
from scouter.drift.series.series import Kind


class ConditionAlerts:
    """See the module.

    Args:
        store: Keeps the alerts.
        changed: Told of each change, once it is durable.
        channels: Names of those who can be told.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        store: DriftStore,
        changed: Callable[[Sequence[Alert]], None],
        channels: Sequence[str],
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store, self._changed, self._now_ns = store, changed, now_ns
        self._channels: Final = frozenset(channels)

    def tell(self, status: AlertStatus) -> None:
        """Open the alert of a profile, or end it.

        Raises:
            TransientError: The store cannot be read or written now.
        """
        is_firing = status.state is AlertState.FIRING
        alerts = [self._opened(status)] if is_firing else self._ended(status)
        if alerts:
            self._store.save_drift([], [each.event() for each in alerts]).result()
            self._changed(alerts)

    def follow(self, watched: Collection[tuple[str, str]]) -> None:
        """End the alerts of profiles that nobody looks at on a schedule any more.

        Args:
            watched: Spaces and uids of the profiles that are.

        Raises:
            TransientError: The store cannot be read or written now.
        """
        end = {
            "state": DriftAlertState.RESOLVED, "changed_ns": self._now_ns(),
            "note": "its profile is no longer looked at on a schedule",
        }  # fmt: skip
        ended = [
            each.model_copy(update=end)
            for each in map(alert_of, self._store.drift_alerts(None))
            if each.condition and each.is_open and (each.space, each.profile_uid) not in watched
        ]
        if ended:
            self._store.save_drift([], [each.event() for each in ended]).result()
            self._changed(ended)

    def _ended(self, status: AlertStatus) -> list[Alert]:
        found = (alert_of(event) for event in self._store.drift_alerts(status.space))
        end = {
            "state": DriftAlertState.RESOLVED, "changed_ns": self._now_ns(),
            "note": f"{status.passed} of the last {status.n} records passed",
        }  # fmt: skip
        return [
            each.model_copy(update=end)
            for each in found
            if each.condition and each.is_open and each.profile_uid == status.profile.uid
        ]

    def _opened(self, status: AlertStatus) -> DriftAlert:
        profile, at_ns = status.profile, status.since_ns or self._now_ns()
        config = profile.config.alert_config
        wanted = "" if config.dispatch_config is None else channel_of(config.dispatch_config)
        bound = 0.0 if config.alert_condition is None else config.alert_condition.lower_bound()
        identity = f"{status.space} {profile.uid} {at_ns}"
        return DriftAlert(
            alert_id=blake2b(identity.encode(), digest_size=8).hexdigest(),
            space=status.space, profile_uid=profile.uid, profile_name=profile.name,
            alias=profile.alias, profile_digest=profile.digest, task="", kind=Kind.PASS,
            service="", environment="", version="", state=DriftAlertState.FIRING,
            opened_ns=at_ns, changed_ns=at_ns, examples=(), condition=status.condition,
            # One that is not set up would leave nobody told.
            channel=wanted if wanted in self._channels else "",
            opened=Figures(
                since_ns=at_ns, records=status.n, failed=status.n - status.passed, evidence=0.0,
                healthy=bound, lower=max(bound, 0.0),
                against=f"the condition of the profile: {status.condition}",
            ),
        )  # fmt: skip
