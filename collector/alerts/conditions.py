"""The profiles' own alert conditions, checked on the last evaluations of each profile.

The value is the pass rate of records, and of sessions if the profile evaluates them: passed /
(passed + failed + errored), over the last `window` first evaluations. An evaluation that was
skipped as a whole is left out, and a pending one until it is decided. So is an evaluation whose
judge was not called, for its budget or its sample. Counted as passed, it would hide the judge's
findings in others; if only its failures counted, a spent budget would raise a false alarm.

An alert fires when the Wilson interval (95 %) of that rate lies wholly on the bad side of the
condition. It is resolved when the rate itself is back on the healthy side. Between the two it stays
as it is, so a rate near the bound does not make it flap.

A profile with a schedule is looked at when that is due, and not in between. A moment that is
missed, as no collector ran, is not made up for.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from collector.alerts.alert import (
    NOBODY,
    ConditionKey,
    DriftAlert,
    DriftAlertState,
    Figures,
    alert_id,
)
from collector.store.rows import AlertEvent, AlertState, EvaluationRow
from collector.store.store import Store
from scouter.alert.config import AgentAlertConfig, AlertCondition, channel_of, next_due
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.series import Kind
from scouter.errors import TransientError
from scouter.evaluate.intervals import wilson
from scouter.evaluate.outcome import Outcome

_log: Final = logging.getLogger(__name__)
_BACK_NS: Final = 60 * 10**9
"""A clock that goes back by more was wrong before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertStatus:
    """State of one alert, with the evidence."""

    space: str
    profile: AgentEvalProfile
    state: AlertState
    since_ns: int | None
    """Time at which the state was entered; None if it was never left."""
    passed: int
    n: int
    pass_rate: float | None
    lower: float
    upper: float
    condition: str


@dataclass(slots=True, kw_only=True)
class _Alert:
    space: str
    profile: AgentEvalProfile
    condition: AlertCondition
    outcomes: deque[bool]
    state: AlertState = AlertState.INACTIVE
    since_ns: int | None = None
    passed: int = field(default=0)
    due_ns: int | None = None
    """The next scheduled time; None without a schedule."""

    def plan(self, now_ns: int) -> None:
        """Find the next scheduled time."""
        schedule = self.profile.config.alert_config.schedule
        if schedule is not None:
            now = datetime.fromtimestamp(now_ns / 1e9, UTC)
            self.due_ns = int(next_due(schedule, now).timestamp() * 1e9)

    def add(self, passed: bool) -> None:
        if len(self.outcomes) == self.outcomes.maxlen:
            self.passed -= self.outcomes[0]
        self.outcomes.append(passed)
        self.passed += passed

    def next_state(self) -> AlertState:
        count = len(self.outcomes)
        if count < self.profile.config.alert_config.min_samples:
            return self.state  # too little is no proof of a fall, and none of its end
        if self.state is not AlertState.FIRING:
            is_proven = self.condition.should_alert_between(*wilson(self.passed, count))
            return AlertState.FIRING if is_proven else self.state
        is_bad = self.condition.should_alert(self.passed / count)
        return AlertState.FIRING if is_bad else AlertState.RESOLVED


class AlertMonitor:
    """Watches every profile that has a condition.

    Args:
        store: Where outcomes are read from at the start and events are stored.
        now_ns: Wall clock.
    """

    def __init__(self, store: Store, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._store, self._now_ns = store, now_ns
        self._lock = threading.Lock()
        self._looked_ns = 0
        self._alerts: dict[tuple[str, str], _Alert] = {}
        self._events: dict[tuple[str, str], AlertEvent] = {}
        self.load()

    def load(self) -> None:
        """Begin anew from the store, as another process may have watched: nothing is watched."""
        found = self._store.last_alert_events()
        self._events = {(event.space, event.profile_uid): event for event in found}
        with self._lock:
            self._alerts = {}

    def show(self, active: Iterable[tuple[str, AgentEvalProfile]]) -> None:
        """Show the state that these profiles have by the store; watch nothing, change nothing.

        Args:
            active: Spaces and profiles.

        Raises:
            TransientError: The store cannot be read now.
        """
        self.load()
        made = {
            (space, profile.uid): alert
            for space, profile in active
            if (alert := self._made(space, profile)) is not None
        }
        with self._lock:
            self._alerts = made

    def watch(self, space: str, profile: AgentEvalProfile) -> None:
        """Begin to watch a profile, from its stored outcomes; without a condition do nothing."""
        alert = self._made(space, profile)
        if alert is None:
            return
        with self._lock:
            self._alerts[space, profile.uid] = alert
        if alert.due_ns is None:
            self._check(alert)

    def _made(self, space: str, profile: AgentEvalProfile) -> _Alert | None:
        config = profile.config.alert_config
        if config.alert_condition is None:
            return None
        alert = _Alert(
            space=space,
            profile=profile,
            condition=config.alert_condition,
            outcomes=deque(maxlen=config.window),
        )
        event = self._events.get((space, profile.uid))
        if event is not None:
            alert.state, alert.since_ns = event.state, event.at_ns
        since_ns = 0 if event is None or not _is_of_a_person(event) else event.at_ns
        for outcome in self._store.last_outcomes(space, profile.uid, config.window, since_ns):
            if outcome is not Outcome.SKIPPED:
                alert.add(outcome is Outcome.PASSED)
        if config.schedule is not None:
            alert.plan(self._now_ns())
        return alert

    def follow(self, active: Iterable[tuple[str, AgentEvalProfile]]) -> None:
        """Watch these profiles and no others; what is watched already goes on as it is.

        To be called where no evaluation is between the store and `observe`: it would count twice,
        or not at all.

        Args:
            active: Spaces and profiles.

        Raises:
            TransientError: The store cannot be read now; call it again.
        """
        wanted = {(space, profile.uid): profile for space, profile in active}
        for key in list(self._alerts):
            profile = wanted.get(key)
            if profile is None or profile.config.alert_config.alert_condition is None:
                with self._lock:
                    self._alerts.pop(key, None)
        for key, profile in wanted.items():
            if key not in self._alerts or self._alerts[key].profile != profile:
                self.watch(key[0], profile)

    def observe(self, evaluations: Sequence[EvaluationRow]) -> None:
        """Take stored evaluations into account, one after the other."""
        for row in evaluations:
            alert = self._alerts.get((row.space, row.profile_uid))
            if alert is None or not row.is_first_decided or row.is_partial:
                continue
            if row.outcome is Outcome.SKIPPED:
                continue
            with self._lock:
                alert.add(row.outcome is Outcome.PASSED)
            if alert.due_ns is None:
                self._check(alert)

    def look(self, now_ns: int) -> list[AlertStatus]:
        """Check the conditions whose scheduled time has come; tells the state of all.

        Where the clock was ahead and is right again, the scheduled times are found anew: they would
        lie far ahead.
        """
        is_back, self._looked_ns = now_ns < self._looked_ns - _BACK_NS, now_ns
        for alert in list(self._alerts.values()):
            if alert.due_ns is not None and is_back:
                alert.plan(now_ns)
            if alert.due_ns is not None and alert.due_ns <= now_ns:
                alert.plan(now_ns)
                self._check(alert)
        return self.statuses()

    def resolve(self, space: str, profile_uid: str) -> None:
        """End an alert for a person: it begins anew with the records that come from now on."""
        with self._lock:
            alert = self._alerts.get((space, profile_uid))
            if alert is None or alert.state is not AlertState.FIRING:
                return
            alert.outcomes.clear()
            alert.passed, alert.state, alert.since_ns = 0, AlertState.RESOLVED, self._now_ns()
            self._keep(alert)

    def statuses(self, space: str | None = None) -> list[AlertStatus]:
        """All alerts of a space, or of all, by alias."""
        with self._lock:
            found = [_status(each) for each in self._alerts.values() if space in (None, each.space)]
        return sorted(found, key=lambda each: (each.profile.alias, each.profile.uid, each.space))

    def _check(self, alert: _Alert) -> None:
        with self._lock:
            state = alert.next_state()
            if state is alert.state:
                return
            alert.state, alert.since_ns = state, self._now_ns()
            self._keep(alert)

    def _keep(self, alert: _Alert) -> None:
        _log.warning(
            "alert of profile %r %s: %d of the last %d records passed; condition: %s",
            alert.profile.alias, alert.state.value, alert.passed, len(alert.outcomes),
            alert.condition,
        )  # fmt: skip
        event = AlertEvent(
            space=alert.space,
            profile_uid=alert.profile.uid,
            state=alert.state,
            at_ns=alert.since_ns or 0,
            passed=alert.passed,
            total=len(alert.outcomes),
        )
        self._events[alert.space, alert.profile.uid] = event
        try:
            self._store.append_alert_events([event])
        except TransientError as error:  # a restart works the state out again from the outcomes
            _log.warning("the event of an alert could not be stored: %s", error)


def _is_of_a_person(event: AlertEvent) -> bool:
    """Tell whether a person ended it: by itself it ends by records only."""
    return event.state is AlertState.RESOLVED and not event.total


def _status(alert: _Alert) -> AlertStatus:
    count = len(alert.outcomes)
    lower, upper = wilson(alert.passed, count)
    return AlertStatus(
        space=alert.space,
        profile=alert.profile,
        state=alert.state,
        since_ns=alert.since_ns,
        passed=alert.passed,
        n=count,
        pass_rate=alert.passed / count if count else None,
        lower=lower,
        upper=upper,
        condition=str(alert.condition),
    )


def sort_conditions(
    statuses: Iterable[AlertStatus], channels: Collection[str], now_ns: int
) -> tuple[list[DriftAlert], dict[ConditionKey, str]]:
    """Sort conditions into those that hold and those that do not.

    Args:
        statuses: The state of all.
        channels: Names of those who can be notified.
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
    return wanted if wanted in channels else ""  # else nobody would be notified
