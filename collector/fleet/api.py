"""The role `api`: page, API, alerts, erasure, retention, and the fleet's own series."""

import logging
import threading
import time
from collections.abc import Iterable
from contextlib import closing
from typing import Final

from collector.alerts.conditions import AlertMonitor
from collector.api.parts import Unready
from collector.care.retention import RetentionClock
from collector.desk import Desk
from collector.fleet.actions import FleetActions
from collector.fleet.answers import remove_answers
from collector.fleet.budget import PostgresqlLedger
from collector.fleet.database import open_beside
from collector.fleet.ends import Ends, FleetLag
from collector.fleet.hand import FleetHand, FleetOperation
from collector.fleet.leader import Leader
from collector.fleet.notes import RETENTION_NOTE, SENT_TO, FleetNote
from collector.fleet.past import Past
from collector.fleet.process import FleetProcess, Follower, database_url, topic_of
from collector.fleet.store import FleetStore
from collector.fleet.topic_log import TopicLog
from collector.metrics import CollectorMetrics
from collector.results.sender import Cursor
from collector.settings.model import CollectorSettings
from collector.worker.behind import BEHIND_S
from scouter.drift.profile import AgentEvalProfile


class FleetConditions:
    """Has every result count once, whenever a profile is watched and whoever had the duties before.

    Args:
        store: Where results are read.
        monitor: Looks at the conditions.
    """

    def __init__(self, store: FleetStore, monitor: AlertMonitor) -> None:
        self._store, self._monitor = store, monitor
        self._lock = threading.Lock()
        self._place: int | None = None
        """The last commit whose results were reported."""

    def follow(self, active: Iterable[tuple[str, AgentEvalProfile]]) -> None:
        """Watch these profiles and no others.

        Args:
            active: Spaces and profiles.

        Raises:
            TransientError: The store gives nothing now; call it again.

        Cost: commits wait for the last outcomes of profiles that were not watched.
        """
        # No result is stored between those that are reported and those that are read for a profile.
        with self._lock, self._store.alone():
            if self._place is None:
                self._monitor.load()  # another process has had the duties since the start
            self._tell()
            self._monitor.follow(active)

    def look(self) -> None:
        """Tell of what was stored since the last time.

        Raises:
            TransientError: The store gives nothing now.
        """
        with self._lock:
            self._tell()

    def _tell(self) -> None:
        seq = self._store.last_seq()
        if self._place is not None:
            rows = self._store.evaluations_between(self._place, seq)
            self._monitor.observe([row for row in rows if row.is_first_decided])
        self._place = seq


_log: Final = logging.getLogger(__name__)
_TIDY_S: Final = 600.0
_PAST_S: Final = 30.0
_FOLLOW_S: Final = 1.0
_ACTIONS_S: Final = 0.3
_STAND_BY_S: Final = 10.0
_ALWAYS_NS: Final = 2**62
"""Later than any time of arrival."""


class FleetApi(FleetProcess, Desk[FleetStore]):
    """An api; see `FleetProcess`. One at a time has the duties: detectors, alerts and retention."""

    def __init__(self, settings: CollectorSettings, topic: TopicLog, store: FleetStore) -> None:
        super().__init__(settings, CollectorMetrics(self._totals, lambda: 0), topic)
        url = database_url(settings)
        self._read_given(PostgresqlLedger(open_beside(url)))
        self.store = store
        self.store.fix_partitions(self.topic.partitions)
        self._ends = Ends(topic_of(settings), self.topic.partitions)
        self.lag = FleetLag(self._ends, self.store)
        self.hand = FleetHand(self.store, self.lag)
        self._actions = FleetActions(open_beside(url))
        self._keep_given(self._behind, self._actions.send)
        self._conditions = FleetConditions(self.store, self.watch.monitor)
        self.answers = self.stored_answers(self.counting, self.providers, self.store)
        if self.answers is None:  # nothing would take out of them what is erased
            with closing(open_beside(url)) as session:
                remove_answers(session)
        self.results = self._send_results(
            lambda address: Cursor(FleetNote(open_beside(url), f"{SENT_TO}{address}"), address)
        )
        self._open_way_in(self.topic, self.store, None, settings.max_body)
        self.metrics.watch_brokers(self.lag.brokers.lags_s)
        self.metrics.watch_store(
            self.store.size_bytes,
            lambda: (time.time_ns() - (self.store.newest_ns() or time.time_ns())) / 1e9,
            oldest_ns=self.store.oldest_ns,
            retention_s=settings.retention_days * 86_400,
            max_bytes=None,
        )
        self.store.observe_commits(self.metrics.commit_seconds.observe)
        self.past: Past | None = None
        if settings.past is not None:
            self.past = Past(settings.past, self.store, url, late_s=settings.late_window_s)
        self._clock = RetentionClock(
            FleetNote(open_beside(url), RETENTION_NOTE), settings.retention_days * 86_400
        )
        self._in_reserve = threading.Lock()
        """For who shows what another api has found: it ends before the duties begin here."""
        self._leader = Leader(url, self._lead)
        self._followers = [
            Follower("scouter-fleet-lag", self.lag.look),
            Follower("scouter-fleet-profiles", self._follow_profiles),
            Follower("scouter-fleet-standby", self._stand_by, _STAND_BY_S),
        ]
        self._duties = [
            Follower("scouter-fleet-alerts", self._conditions.look, _FOLLOW_S),
            Follower("scouter-fleet-actions", self._carry_out, _ACTIONS_S),
            Follower("scouter-fleet-tidy", self._tidy, _TIDY_S),
        ]
        if self.past is not None:
            self._duties.append(Follower("scouter-fleet-past", self._write_days, _PAST_S))
        operation = FleetOperation(self.hand, self.answers, self.past)
        self._serve(self.hand, operation, self.lag.catch_up, self.answers)

    @property
    def about(self) -> str:
        """Where it reads, and its profiles, in words."""
        return f"{self.settings.postgresql}; profiles: {self._active}"

    def unready(self) -> Unready | None:
        """Reason that nothing can be answered now."""
        fault = self.store.fault() or next((e.fault for e in self._followers if e.fault), "")
        return Unready("postgresql", fault) if fault else None

    @property
    def is_broken(self) -> bool:
        """True once another api may have the duties that this one had."""
        return self._leader.has_lost

    def start(self) -> None:
        """Begin to answer, and with the duties if no other api has them."""
        self.tokens.start()
        self._watch_active()
        for each in self._followers:
            each.start()
        self._leader.start()

    def stop(self) -> None:
        """End the duties, and close."""
        self._leader.stop()
        if self.past is not None:
            self.past.stop()
        for each in (*self._followers, *self._duties):
            each.stop()
        self.watch.stop()
        if self.results is not None:
            self.results.stop()
        self._leader.close()
        self._actions.close()
        self._ends.close()
        if self.past is not None:
            self.past.close()
        if self.answers is not None:
            self.answers.close()
        self.providers.ledger.close()
        self.store.close()
        self.close()

    # --- duties -----------------------------------------------------------------------------

    def _lead(self, epoch: str) -> None:
        """Begin with the duties."""
        with self._in_reserve:
            self.store.have_duties(epoch)
            self._watch_active()
            self.watch.start()
        if self.results is not None:
            self.results.start()
        for each in self._duties:
            each.start()

    def _carry_out(self) -> None:
        """Carry out what people want of alerts, whichever api they use."""
        self._actions.carry_out(self.watch.watcher.carry_out)

    def _stand_by(self) -> None:
        """Show what the api with the duties has found."""
        with self._in_reserve:
            if not self._leader.has_duties:
                self.watch.load()

    def _behind(self) -> dict[str, str]:
        """By space what has waited for too long."""
        lags = {name: each for name, each in self.lag.brokers.lags_s().items() if each > BEHIND_S}
        if not lags:
            return {}
        waiting = sum(self.lag.messages.values())
        return {
            self.settings.space: (
                f"{waiting:,} messages of {len(lags)} partitions wait for a worker, the oldest for "
                f"about {max(lags.values()):,.0f} s: see whether all workers run, or start more of "
                "them. Nothing is refused or lost for it, as long as Kafka keeps them"
            )
        }

    def _watch_active(self) -> None:
        """Let the alerts follow; what becomes of them is written by who has the duties alone."""
        has_duties = self._leader.has_duties
        self.watch.follow(self._conditions.follow if has_duties else self.watch.monitor.show)

    def _profiles_changed(self) -> None:
        """Follow a change, and let workers do so: who requested it may send at once."""
        self._watch_active()
        time.sleep(_FOLLOW_S + 0.5)

    def _follow_profiles(self) -> None:
        if self.registry.follow():
            self._watch_active()

    def _tidy(self) -> None:
        """Take out what is too old, and add up counts."""
        days = self.settings.retention_days
        if days:
            now_ns = self._clock.now_ns(self.store.newest_ns())
            before_ns = now_ns - int(days * 86_400e9)
            if self.past is not None:
                before_ns = self.past.safe_ns(before_ns)
            removed = self.store.remove_before(before_ns)
            if removed:
                _log.info("retention took %d spans out of the store", removed)
        if self.settings.max_store_bytes is not None:
            safe_ns = None if self.past is None else self.past.safe_ns(_ALWAYS_NS)
            removed = self.store.keep_within(self.settings.max_store_bytes, safe_ns)
            if removed:
                _log.info("max_store_bytes took %d spans out of the store", removed)
        self.store.add_up()

    def _write_days(self) -> None:
        """Write the days that are over."""
        if self.past is not None and (written := self.past.write_days(time.time_ns())):
            _log.info("wrote %d days to %s", written, self.settings.past)
