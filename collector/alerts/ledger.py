"""The open alerts, and what becomes of them.

Series that fell together are one alert. What joins it, or is over in it, is stored and sent to
nobody: the alert is sent once, and its end once.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from collector.alerts.alert import (
    Alert,
    AlertKey,
    ConditionKey,
    DriftAlert,
    DriftAlertState,
    Finding,
    Part,
    TroubleAlert,
    TroubleKey,
    alert_id,
    alert_of,
)
from collector.store.alerts import DriftEvent
from collector.store.setups import SetupChange
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.causes import Proven, is_one_cause
from scouter.drift.series.group import Turn
from scouter.drift.series.series import SeriesKey
from scouter.drift.series.watch import Fall
from scouter.errors import TransientError

_log = logging.getLogger(__name__)
_State = DriftAlertState
_RECOVERED: Final = "recovered: the evidence of its end has reached its line"
_SETTLED: Final = "two days are known: it is not the time of day"


class AlertLedger:
    """All open alerts, one for a cause at most.

    Args:
        is_shadow: Let new alerts be on trial.
        on_trial: Profiles, by alias, whose new alerts are on trial anyway.
        profile_of: Finds a profile by space and uid.
        now_ns: Wall clock.
    """

    def __init__(
        self,
        *,
        is_shadow: bool,
        on_trial: Collection[str] = (),
        profile_of: Callable[[str, str], AgentEvalProfile | None],
        now_ns: Callable[[], int],
    ) -> None:
        self._profile_of, self._now_ns = profile_of, now_ns
        self._first: Final = _State.SHADOW if is_shadow else _State.FIRING
        self._on_trial: Final = frozenset(on_trial)
        self._open: dict[AlertKey, Alert] = {}
        self.pending: list[Alert] = []
        """Changes that are not stored yet, in order; for the caller to clear."""

    def load(self, latest: Iterable[DriftEvent]) -> None:
        """Take up the alerts that are open."""
        found = map(alert_of, latest)
        self._open = {alert.key: alert for alert in found if alert.is_open}

    def open_in(self, space: str | None) -> list[Alert]:
        """The open alerts of a space, or of all, the newest first."""
        found = [alert for alert in self._open.values() if space in (None, alert.space)]
        return sorted(found, key=lambda alert: (-alert.opened_ns, alert.alert_id))

    def names(self) -> list[SeriesKey]:
        """The series whose fall is part of an open alert."""
        return [each.key for alert in self._falls() for each in alert.falling]

    def _falls(self) -> list[DriftAlert]:
        """Open alerts about series, the oldest first."""
        found = [each for each in self._open.values() if isinstance(each, DriftAlert)]
        return sorted(found, key=lambda each: (each.opened_ns, each.alert_id))

    def key_of(self, space: str, wanted: str) -> AlertKey | None:
        """The key of an open alert; None where there is no such alert."""
        return next(
            (
                key
                for key, alert in self._open.items()
                if (alert.space, alert.alert_id) == (space, wanted)
            ),
            None,
        )

    def is_on_trial(self, key: AlertKey) -> bool:
        """Tell whether the open alert of a series is on trial."""
        return self._open[key].state is _State.SHADOW

    def turned(self, turns: Sequence[Turn], at_ns: int) -> None:
        """Open and end the alerts of series that fell or recovered, or whose first days are over.

        Args:
            turns: In order.
            at_ns: Time of the results.
        """
        for turn in turns:
            name, fall = turn.series.key, turn.fall
            if fall is None:
                self.over(name, turn.note or _RECOVERED, at_ns)
            elif name not in self.names():
                self._fell(turn, fall, at_ns)
            elif not fall.reference.is_early:
                self._settled(name)

    def _fell(self, turn: Turn, fall: Fall, at_ns: int) -> None:
        proven = Proven(turn.series.key, fall.since_ns, turn.at_ns)
        part = Part.of(turn, fall)
        known = [each for each in self._falls() if is_one_cause(proven, each.falling)]
        if known:
            alert = known[-1]
            is_reported = all(each.alert_id != alert.alert_id for each in self.pending)
            self._put(alert.joined(part, is_reported=is_reported))
        else:
            self._put(self._opened(turn, part, at_ns))

    def _settled(self, name: SeriesKey) -> None:
        """Say that a fall is not the time of day, also to those who were notified of the fall."""
        for alert in self._falls():
            settled = alert.settled(name)
            if settled == alert or all(each.key != name for each in alert.falling):
                continue
            self._put(settled)
            is_new = alert.opened.first_days and not settled.opened.first_days
            if is_new and alert.state is _State.FIRING:
                self.change(alert.key, _State.FIRING, note=_SETTLED)

    def over(self, name: SeriesKey, note: str, at_ns: int) -> bool:
        """End the fall of a series, and its alert with the last one; False where none is open."""
        for alert in self._falls():
            going_on = [each.key for each in alert.falling]
            if name not in going_on:
                continue
            parts = [
                each.model_copy(update={"ended_ns": at_ns})
                if each.ended_ns is None and name[3:] == (each.task, each.kind, each.slice)
                else each
                for each in alert.parts
            ]
            if len(going_on) > 1:
                self._put(alert.with_parts(parts))
            else:
                self._put(alert.model_copy(update={"parts": tuple(parts)}))
                self.end(alert.key, note)
            return True
        return False

    def _put(self, alert: DriftAlert) -> None:
        """Store an alert, in place of a change to the same state that is not stored yet."""
        self._open[alert.key] = alert
        at = (alert.alert_id, alert.state, alert.changed_ns)
        pending = [
            each for each in self.pending if (each.alert_id, each.state, each.changed_ns) != at
        ]
        self.pending[:] = [*pending, alert]

    def found(self, findings: Sequence[Finding], at_ns: int) -> None:
        """Open alerts about new causes of trouble, and end those whose cause has ended.

        They are no inference that could be wrong, so they are reported on trial, too.

        Args:
            findings: All that hold now.
            at_ns: When they were looked for.
        """
        for finding in findings:
            if finding.key not in self._open:
                self._open[finding.key] = alert = _trouble_alert(finding, at_ns)
                self.pending.append(alert)
        holding = {finding.key for finding in findings}
        for key in list(self._open):
            if isinstance(key, TroubleKey) and key not in holding:
                self.end(key, "its cause is over")

    def conditions(self, alerts: Sequence[DriftAlert], notes: Mapping[ConditionKey, str]) -> None:
        """Open the alerts of conditions that hold, and end those of all others.

        Args:
            alerts: Those that hold now, as they would be opened.
            notes: Reasons why others hold no longer; one without is not watched any more.
        """
        holding = {alert.key: alert for alert in alerts}
        for key, alert in list(self._open.items()):
            if not isinstance(key, ConditionKey):
                continue
            if key not in holding:
                self.end(key, notes.get(key, "its profile is not watched any more"))
            elif holding[key].condition != alert.condition:
                self.end(key, "the condition was changed")
        for key, alert in holding.items():
            if key not in self._open:
                self._open[key] = alert
                self.pending.append(alert)

    def compare_setups(self, changes_of: Callable[[DriftAlert], tuple[SetupChange, ...]]) -> None:
        """Note with new alerts what the records ran with that changed just before the fall.

        Args:
            changes_of: Looks for it. Where that fails, the alert goes without, and its next change
                looks again.
        """
        for at, alert in enumerate(self.pending):
            if isinstance(alert, DriftAlert) and alert.changed is None and not alert.condition:
                try:
                    noted = alert.model_copy(update={"changed": changes_of(alert)})
                except TransientError:  # an alert does not wait for what stands beside it
                    continue
                except Exception:  # noqa: BLE001 nor does it for our own faults
                    _log.exception("alert %s: what changed before it is not known", alert.alert_id)
                    continue
                self.pending[at] = noted
                if self._open.get(alert.key) is alert:
                    self._open[alert.key] = noted

    def end(self, key: AlertKey, note: str) -> bool:
        """Resolve an alert by itself; False where none is open."""
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
        key: AlertKey,
        state: DriftAlertState,
        *,
        by: str = "",
        name: str = "",
        note: str = "",
        until_ns: int | None = None,
    ) -> Alert:
        """Let an open alert stand elsewhere.

        Args:
            key: Of the alert.
            state: From now on.
            by: Token that says so; empty for the collector.
            name: Of the person or token.
            note: Why.
            until_ns: End of a silence.
        """
        alert = self._open[key].model_copy(
            update={
                "state": state, "changed_ns": self._now_ns(), "by": by, "name": name,
                "note": note, "silenced_until_ns": until_ns,
            }
        )  # fmt: skip
        if alert.is_open:
            self._open[key] = alert
        else:
            del self._open[key]
        self.pending.append(alert)
        return alert

    def _opened(self, turn: Turn, part: Part, at_ns: int) -> DriftAlert:
        key = turn.series.key
        profile = self._profile_of(key.space, key.profile_uid)
        is_on_trial = profile is not None and profile.alias in self._on_trial
        return DriftAlert(
            alert_id=alert_id(key, turn.units),
            space=key.space,
            profile_uid=key.profile_uid,
            profile_name="" if profile is None else profile.name,
            alias="" if profile is None else profile.alias,
            profile_digest="" if profile is None else profile.digest,
            task=key.task,
            slice=key.slice,
            kind=key.kind,
            service=key.agent.service,
            environment=key.agent.environment,
            version=key.agent.version,
            state=_State.SHADOW if is_on_trial else self._first,
            opened_ns=at_ns,
            changed_ns=at_ns,
            opened=part.opened,
            examples=part.examples,
            parts=(part,),
        )


def _trouble_alert(finding: Finding, at_ns: int) -> TroubleAlert:
    return TroubleAlert(
        alert_id=alert_id(finding.key, at_ns),
        space=finding.space,
        alias=finding.subject,
        state=_State.FIRING,
        opened_ns=at_ns,
        changed_ns=at_ns,
        trouble=finding.trouble,
        message=finding.message,
    )
