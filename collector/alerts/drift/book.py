"""The open alerts, and what becomes of them."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from collector.alerts.drift.alert import DriftAlert, DriftAlertState, Figures, alert_id
from collector.storage.port.drift import DriftEvent
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.group import Turn
from scouter.drift.series.series import Agent, Series, SeriesKey
from scouter.drift.series.watch import Fall

_State = DriftAlertState


class AlertBook:
    """All open alerts, one for a series at most.

    Args:
        is_shadow: Let new alerts be on trial.
        profile_of: Finds a profile by space and uid.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        *,
        is_shadow: bool,
        profile_of: Callable[[str, str], AgentEvalProfile | None],
        now_ns: Callable[[], int],
    ) -> None:
        self._profile_of, self._now_ns = profile_of, now_ns
        self._first: Final = _State.SHADOW if is_shadow else _State.FIRING
        self._open: dict[SeriesKey, DriftAlert] = {}
        self.pending: list[DriftAlert] = []
        """Changes that are not kept yet, in order; for the caller to clear."""

    def load(self, latest: Iterable[DriftEvent]) -> None:
        """Take up the alerts that are open."""
        alerts = map(DriftAlert.of_event, latest)
        self._open = {
            key_of(alert): alert for alert in alerts if alert.is_open and not alert.condition
        }

    def open_in(self, space: str | None) -> list[DriftAlert]:
        """The open alerts of a space, or of all, the newest first."""
        found = [alert for alert in self._open.values() if space in (None, alert.space)]
        return sorted(found, key=lambda alert: (-alert.opened_ns, alert.alert_id))

    def key_of(self, space: str, wanted: str) -> SeriesKey | None:
        """The series of an open alert; None where there is no such alert."""
        return next(
            (
                key
                for key, alert in self._open.items()
                if (alert.space, alert.alert_id) == (space, wanted)
            ),
            None,
        )

    def turned(self, turns: Sequence[Turn], at_ns: int) -> None:
        """Open and end the alerts of series that fell or recovered.

        Args:
            turns: In order.
            at_ns: Time of the results.
        """
        for series, fall in turns:
            if fall is None:
                self.end(series.key, "recovered: the evidence of its end has reached its line")
            elif series.key not in self._open:
                self._open[series.key] = alert = self._opened(series, fall, at_ns)
                self.pending.append(alert)

    def end(self, key: SeriesKey, note: str) -> bool:
        """Resolve the alert of a series by itself; False where none is open."""
        if key not in self._open:
            return False
        self.change(key, _State.RESOLVED, note=note)
        return True

    def wake(self, now_ns: int) -> None:
        """Let alerts fire again whose silence is over."""
        for key, alert in list(self._open.items()):
            until_ns = alert.silenced_until_ns
            if alert.state is _State.SILENCED and until_ns is not None and until_ns <= now_ns:
                self.change(key, _State.FIRING, note="its silence is over")

    def change(
        self,
        key: SeriesKey,
        state: DriftAlertState,
        *,
        by: str = "",
        note: str = "",
        until_ns: int | None = None,
    ) -> DriftAlert:
        """Let an open alert stand elsewhere.

        Args:
            key: Its series.
            state: From now on.
            by: Who says so; empty for the collector.
            note: Why.
            until_ns: End of a silence.
        """
        alert = self._open[key].model_copy(
            update={
                "state": state, "changed_ns": self._now_ns(), "by": by, "note": note,
                "silenced_until_ns": until_ns,
            }
        )  # fmt: skip
        if alert.is_open:
            self._open[key] = alert
        else:
            del self._open[key]
        self.pending.append(alert)
        return alert

    def _opened(self, series: Series, fall: Fall, at_ns: int) -> DriftAlert:
        space, uid, agent, task, kind = series.key
        profile = self._profile_of(space, uid)
        return DriftAlert(
            alert_id=alert_id(series.key, series.units),
            space=space,
            profile_uid=uid,
            profile_name="" if profile is None else profile.name,
            alias="" if profile is None else profile.alias,
            profile_digest="" if profile is None else profile.digest,
            task=task,
            kind=kind,
            service=agent.service,
            environment=agent.environment,
            version=agent.version,
            state=self._first,
            opened_ns=at_ns,
            changed_ns=at_ns,
            opened=Figures.of(fall),
            examples=series.examples,
        )


def key_of(alert: DriftAlert) -> SeriesKey:
    """The series that an alert is about."""
    agent = Agent(alert.service, alert.environment, alert.version)
    return SeriesKey(alert.space, alert.profile_uid, agent, alert.task, alert.kind)
