"""A thread that watches every profile: final results in, alerts out.

It reads the store in the order of completion, so that nothing waits for it, and series take the
results in the order of creation, see `Group`. The state of the
detectors, the place of the last result and the alerts that it opened become durable in one commit:
after a crash it goes on behind that place, and no result is lost or taken twice.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from collector.alerts.alert import (
    Alert,
    AlertAction,
    CauseKey,
    ConditionKey,
    DriftAlert,
    DriftAlertState,
    Finding,
    TroubleAlert,
)
from collector.alerts.conditions import AlertMonitor, sort_conditions
from collector.alerts.evidence import CurrentSeries, changes_of, falls_of, promise_of
from collector.alerts.health import HEALTH
from collector.alerts.ledger import AlertLedger
from collector.prices import NO_PRICES, PriceTable
from collector.store.alerts import DriftState
from collector.store.store import Store
from scouter.client.models.alerts import FallenTask
from scouter.drift.detect.detector import ALPHA
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.group import Pace
from scouter.drift.series.observed import Observed, Yardstick, waits, yardsticks
from scouter.drift.series.reference import NOTHING, Stated, stated_by
from scouter.drift.series.series import Kind
from scouter.drift.series.series_set import MOST_VERSIONS, GroupKey, SeriesSet, line_of
from scouter.errors import ConfigError, ScouterError, TransientError

_log: Final = logging.getLogger(__name__)

PAGE: Final = 512
"""Results in memory at a time."""
_LOOK_EVERY_S: Final = 0.5
_SAVE_SHARE: Final = 10
"""Times as long as a save takes until the next one, at least."""
SILENT_NS: Final = 3_600 * 10**9
"""An alert of what runs no more ends after so long without a result of it."""
FORGOTTEN_NS: Final = 30 * 86_400 * 10**9
"""A group of a profile that is not active is forgotten after so long."""


class DriftWatcher:
    """See the module.

    Args:
        store: Where results are read and the state is stored.
        alpha: Chance that one series ever alarms while nothing is wrong.
        run_length: Units between two false alarms of a series on average, in place of that chance.
        pace: When a conversation is complete.
        is_shadow: Let new alerts be on trial.
        on_trial: Profiles, by alias, whose new alerts are on trial anyway.
        notify: Gets every alert that was opened or changed, once that is durable.
        findings: Looks for what keeps results from being made, in the same thread between two
            pages; is given the time.
        monitor: Looks at the conditions of profiles, in the same thread; none is looked at without.
        channels: Names of those who can be notified.
        prices: One's own, of models.
        refer: Has an action on an alert carried out by the process that watches, for as long as
            this one does not.
        now_ns: Wall clock.
        save_every_s: Between two commits of the state while no alert changes, or ten times as long
            as one takes, if that is more; after a crash so much is read again.
    """

    def __init__(
        self,
        store: Store,
        *,
        alpha: float = ALPHA,
        run_length: float | None = None,
        pace: Pace,
        is_shadow: bool = False,
        on_trial: Collection[str] = (),
        notify: Callable[[Sequence[Alert]], None] = lambda alerts: None,
        findings: Callable[[int], Sequence[Finding]] = lambda now_ns: (),
        monitor: AlertMonitor | None = None,
        channels: Collection[str] = (),
        prices: PriceTable = NO_PRICES,
        refer: Callable[[AlertAction], Alert | None] | None = None,
        now_ns: Callable[[], int] = time.time_ns,
        save_every_s: float = 10.0,
    ) -> None:
        self.alpha: Final = alpha
        self._run_length: Final = run_length
        self._store, self._notify, self._now_ns, self._pace = store, notify, now_ns, pace
        self._refer, self._prices = refer, prices
        self._findings, self._monitor, self._channels = findings, monitor, frozenset(channels)
        self._save_every_s = save_every_s
        self._lock = threading.RLock()
        self._profiles: dict[tuple[str, str], AgentEvalProfile] = {}
        self._yardsticks: dict[tuple[str, str], Mapping[str, Yardstick]] = {}
        self._waits: dict[tuple[str, str], Mapping[tuple[str, str], int]] = {}
        self._active: frozenset[tuple[str, str]] = frozenset()
        self._series = SeriesSet(alpha, pace, self._stated_of, run_length)
        self._ledger = AlertLedger(
            is_shadow=is_shadow, on_trial=on_trial, profile_of=self._profile_of, now_ns=now_ns
        )
        self._seen = -1
        """The last commit whose results were all taken."""
        self._save_at = time.monotonic() + save_every_s
        self._is_failing = False
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="scouter-drift")

    # --- what others ask --------------------------------------------------------------------

    def start(self) -> None:
        """Go on behind the last result whose evidence was stored."""
        self.load()
        self._thread.start()

    def load(self) -> None:
        """Read what was stored; `start` does it."""
        with self._lock:
            restored(self._series, self._store.drift_states())
            self._ledger.load(self._store.drift_alerts())
            self._series.restate()

    def stop(self) -> None:
        """Take what is stored, keep the state, and end."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()
            try:
                while self.step():
                    pass
                self.save()
            except ScouterError as error:
                _log.warning(
                    "the state of detectors was not stored, results are read again: %s", error
                )

    def follow(self, known: Iterable[tuple[str, AgentEvalProfile, bool]]) -> None:
        """Take all profiles of all spaces, and whether each is active."""
        profiles = {(space, profile.uid): (profile, active) for space, profile, active in known}
        with self._lock:
            self._profiles = {key: profile for key, (profile, _) in profiles.items()}
            self._yardsticks = {
                key: yardsticks(profile.tasks) for key, profile in self._profiles.items()
            }
            self._waits = {key: waits(profile.tasks) for key, profile in self._profiles.items()}
            self._active = frozenset(key for key, (_, active) in profiles.items() if active)
            self._series.restate()

    def alerts(self, space: str) -> list[DriftAlert]:
        """The open alerts about series and conditions of a space, the newest first."""
        return [each for each in self.all_alerts(space) if isinstance(each, DriftAlert)]

    def troubles(self, space: str) -> list[TroubleAlert]:
        """The open alerts about trouble of a space, the newest first."""
        return [each for each in self.all_alerts(space) if isinstance(each, TroubleAlert)]

    def active(self) -> set[tuple[str, str]]:
        """Space and alias of every active profile."""
        with self._lock:
            return {(key[0], self._profiles[key].alias) for key in self._active}

    def errored_profiles(self) -> set[tuple[str, str]]:
        """Space and alias of every profile with an open alert about its errors."""
        found = self.all_alerts()
        return {(each.space, each.alias) for each in found if each.kind is Kind.ERROR}

    def all_alerts(self, space: str | None = None) -> list[Alert]:
        """The open alerts of a space, or of all."""
        with self._lock:
            return self._ledger.open_in(space)

    def current_series(self, space: str | None = None) -> list[CurrentSeries]:
        """State of each series of active profiles, of the version of each agent that ran last.

        Args:
            space: Of the profiles; all if none is given.
        """
        with self._lock:
            return [
                CurrentSeries.of(series, self._profiles[group.space, group.profile_uid], group)
                for group in self._series.latest()
                if (group.space, group.profile_uid) in self._active
                if space in (None, group.space)
                for series in group.series.values()
                if series.units  # of backfills alone it has nothing to show yet
            ]

    def promise(self, space: str) -> str:
        """Say how many false alerts are to be expected of all series and slices of a space."""
        return promise_of(self.current_series(space), self.alpha, self._run_length)

    def left_out(self, space: str) -> list[str]:
        """Slices with enough traffic for which a version has no room, with their profile."""
        with self._lock:
            return sorted(
                {
                    f"{self._profiles[name].alias}: {each}"
                    for group in self._series.latest()
                    if (name := (group.space, group.profile_uid)) in self._active
                    if group.space == space
                    for each in group.slices.left_out
                }
            )

    def current_of(self, alert: DriftAlert) -> CurrentSeries | None:
        """The state of the series of an alert's headline; None where it is forgotten."""
        if alert.condition:
            return None
        with self._lock:
            series = self._series.find(alert.series)
            group = self._series.groups.get(GroupKey(*alert.series[:3]))
            profile = self._profile_of(alert.space, alert.profile_uid)
            if group is None or series is None or profile is None:
                return None
            return CurrentSeries.of(series, profile, group)

    def falls_with(self, alert: DriftAlert) -> Sequence[FallenTask]:
        """The tasks that fell in the version of an alert, or in the newest one for a condition.

        Returns:
            The whole record first, then its tasks, the worst first; empty where nothing fell, or
            no version was before.
        """
        with self._lock:
            if alert.condition:
                latest = self._series.latest()
                its = [each for each in latest if (each.space, each.profile_uid) == alert.key]
                group = its[-1] if its else None
            else:
                group = self._series.groups.get(GroupKey(*alert.series[:3]))
            return () if group is None else falls_of(group)

    def act(self, action: AlertAction) -> Alert | None:
        """Change an alert for a person, and make that durable before it is answered.

        A condition gathers as many records anew as it needs, once its alert is resolved. An alert
        about trouble that goes on comes again.

        Returns:
            The alert as it is then; None where it is not open.

        Raises:
            ConfigError: The alert does not take it: it is not on trial, or on trial; or nothing can
                be learnt anew.
            TransientError: The store takes nothing now, or nobody who watches answers.
        """
        if self._refer is None or self._thread.is_alive():
            return self.carry_out(action)
        found = self._refer(action)
        if not self._thread.is_alive():  # it may have got the duties meanwhile
            self.load()
        return found

    def carry_out(self, action: AlertAction) -> Alert | None:
        """The same, always in this process; for who has the duties of a fleet."""
        with self._lock:
            key = self._ledger.key_of(action.space, action.alert_id)
            if key is None:
                return None
            _check(action.state, action.alert_id, is_on_trial=self._ledger.is_on_trial(key))
            if action.accept and not isinstance(key, CauseKey):
                raise ConfigError(
                    f"alert {action.alert_id} is compared with nothing that could be learnt anew; "
                    "a condition is changed in its profile"
                )
            found = self._ledger.change(
                key, action.state, by=action.by, name=action.name, note=action.note,
                until_ns=action.until_ns,
            )  # fmt: skip
            if action.state is DriftAlertState.RESOLVED:
                self._restart(found, accept=action.accept)
            self.save()
        return found

    # --- the thread -------------------------------------------------------------------------

    def _run(self) -> None:
        while not self._stopping.is_set():
            wait_s = _LOOK_EVERY_S
            try:
                if self.step():
                    wait_s = 0.0
                self.look()
                self._is_failing = False
            except TransientError as error:
                if not self._is_failing:
                    _log.warning("drift detectors wait: %s", error)
                self._is_failing = True
            except Exception:  # noqa: BLE001 the thread outlives any fault; the place stays
                if not self._is_failing:
                    _log.exception("a fault while results are watched; it is tried again")
                self._is_failing = True
            self._stopping.wait(wait_s)

    def step(self) -> bool:
        """Take one page of results, or tell the time; tells whether there may be more.

        Raises:
            TransientError: The store cannot be read or written now; nothing is lost.
        """
        with self._lock:
            low, last = self._store.first_waiting_seq(), self._store.last_seq()
            page: list[Observed] = []
            if last != self._seen:
                known = self._profiles.values()
                wanted = {each for profile in known for each in profile.config.slices}
                page = self._store.decided_after(
                    self._series.place, PAGE, until_seq=last, slices=wanted, prices=self._prices
                )
            if page or self._series.has_early:
                # As of the same commit: what is decided by then is in this page, or in one before.
                since_ns = self._now_ns() - self._pace.wait_ns
                undecided = self._store.first_undecided(since_ns, last, low)
                self._series.decided(None)
                for observed in page:
                    measured = self._measured(observed)
                    self._ledger.turned(self._series.take(measured), self._series.now_ns)
                if len(page) < PAGE:
                    self._series.decided(undecided)
                    self._ledger.turned(
                        self._series.advance(self._series.now_ns), self._series.now_ns
                    )
            if not page:
                self._seen = last
                self._tell_time()
            if self._ledger.pending or time.monotonic() >= self._save_at:
                self.save()
        return bool(page)

    def look(self) -> None:
        """Look for trouble and at conditions, and open or end the alerts about them.

        Raises:
            TransientError: The store cannot be read or written now.
        """
        now_ns = self._now_ns()
        found = self._findings(now_ns)
        with self._lock:
            self._ledger.found(found, now_ns)
            if self._monitor is not None:
                self._ledger.conditions(
                    *sort_conditions(self._monitor.look(now_ns), self._channels, now_ns)
                )
            if self._ledger.pending:
                self.save()

    def save(self) -> None:
        """Keep what has changed, in one commit, then tell of alerts.

        Raises:
            TransientError: The store cannot be written now; the next call tries it again.
        """
        began = time.monotonic()
        with self._lock:
            self._ledger.compare_setups(lambda alert: changes_of(self._store, alert))
            states = changed_states(self._series)
            events = list(self._ledger.pending)
            if states or events:
                self._store.save_drift(states, [each.event() for each in events])
            self._series.changed.clear()
            self._ledger.pending.clear()
            # Results that wait for earlier ones are part of it: megabytes, where many come at once.
            now = time.monotonic()
            self._save_at = now + max(self._save_every_s, _SAVE_SHARE * (now - began))
        if events:
            self._notify(events)

    def _tell_time(self) -> None:
        """All results are taken: what is quiet by the clock is complete."""
        now_ns = self._now_ns()
        self._ledger.turned(self._series.advance(now_ns), now_ns)
        self._ledger.wake(now_ns)
        self._retire(now_ns)

    def _retire(self, now_ns: int) -> None:
        """End the alerts of what runs no more, and forget its groups in the end."""
        newest = self._series.newest()
        for key, group in list(self._series.groups.items()):
            silent_ns = now_ns - (group.last_ns or now_ns)  # backfills alone await an activation
            if silent_ns < SILENT_NS:
                continue
            if (group.space, group.profile_uid) not in self._active:
                self._end(key, "its profile is not active any more", now_ns)
                if silent_ns >= FORGOTTEN_NS:
                    self._series.remove(key)
                continue
            newer = newest[line_of(key)]
            if newer is not group:
                self._end(key, f"version {newer.agent.version or '(none)'} runs now", now_ns)
        for name in self._ledger.names():
            if self._series.find(name) is None:
                version = name.agent.version or "(none)"
                note = f"version {version} is followed no longer: {MOST_VERSIONS} others came"
                if GroupKey(*name[:3]) in self._series.groups:
                    note = f"{name.slice or name.task} is watched no longer: the profile does not "
                    note += "name it" if name.slice else "name it, or its limit is learnt anew"
                self._ledger.over(name, note, now_ns)

    def _end(self, key: GroupKey, note: str, now_ns: int) -> None:
        for series in self._series.groups[key].series.values():
            if self._ledger.over(series.key, note, now_ns):
                series.restart()
                self._series.changed.add(key)

    def _restart(self, alert: Alert, *, accept: bool) -> None:
        """Gather evidence anew, as a person said that an alert is over."""
        if isinstance(alert.key, ConditionKey) and self._monitor is not None:
            self._monitor.resolve(*alert.key)
        for each in alert.falling if isinstance(alert, DriftAlert) else ():
            self._series.restart(each.key, accept=accept)

    def _profile_of(self, space: str, uid: str) -> AgentEvalProfile | None:
        return self._profiles.get((space, uid))

    def _measured(self, observed: Observed) -> Observed:
        key = observed.space, observed.profile_uid
        return replace(
            observed, yardsticks=self._yardsticks.get(key, {}), waits=self._waits.get(key, {})
        )

    def _stated_of(self, space: str, uid: str) -> Stated:
        """References that a profile states, or else its alert's lowest healthy rate."""
        profile = self._profiles.get((space, uid))
        return NOTHING if profile is None else stated_by(profile)


def _check(state: DriftAlertState, alert_id: str, *, is_on_trial: bool) -> None:
    """Refuse what makes no sense: nobody was notified of an alert that is on trial."""
    if state is DriftAlertState.FIRING and not is_on_trial:
        raise ConfigError(f"alert {alert_id} is not on trial: there is nothing to promote")
    if is_on_trial and state in (DriftAlertState.ACKNOWLEDGED, DriftAlertState.SILENCED):
        raise ConfigError(
            f"alert {alert_id} is on trial, and sent to nobody: promote it first, or resolve it"
        )


_WHOLE: Final = ""
"""Name of the state of all together."""


def changed_states(series: SeriesSet) -> list[DriftState]:
    """Changes since the state was stored last; empty where there are none."""
    if not series.changed:
        return []
    states = [DriftState(name=_name(key), body=_body(series, key)) for key in series.changed]
    return [DriftState(name=_WHOLE, body=json.dumps(series.to_json())), *states]


def restored(series: SeriesSet, states: Iterable[DriftState]) -> None:
    """Let series go on from what was stored; from the beginning where nothing was."""
    bodies = {state.name: json.loads(state.body) for state in states if state.name != HEALTH}
    whole = bodies.pop(_WHOLE, None)
    if whole is not None:
        series.restore(whole, bodies.values())


def _name(key: GroupKey) -> str:
    return json.dumps(key)


def _body(series: SeriesSet, key: GroupKey) -> str:
    group = series.groups.get(key)
    return "" if group is None else json.dumps(group.to_json())
