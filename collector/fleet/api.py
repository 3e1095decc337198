"""The role `api`: page, API, alerts, erasure, retention, and the fleet's own series."""

import logging
import time
from contextlib import closing
from typing import Final

from collector.alerts.delivery.delivery import Delivery, channels_of
from collector.alerts.drift.health import HealthWatch
from collector.alerts.drift.measures import DriftMeasures
from collector.alerts.drift.watcher import DriftWatcher
from collector.alerts.monitor import AlertMonitor
from collector.api.app import make_app
from collector.api.parts import Parts, Unready
from collector.app import load_profiles
from collector.care.retention_clock import RetentionClock
from collector.fleet.answers import FleetAnswers, remove_answers
from collector.fleet.budget import PostgresqlLedger
from collector.fleet.conditions import FleetConditions
from collector.fleet.cursor import FleetCursor
from collector.fleet.database import open_beside
from collector.fleet.ends import Ends, FleetLag
from collector.fleet.hand import FleetHand
from collector.fleet.leader import Leader
from collector.fleet.notes import RETENTION_NOTE, FleetNote
from collector.fleet.operation import FleetOperation
from collector.fleet.past import Past
from collector.fleet.process import FleetProcess, Follower, database_url, topic_of
from collector.fleet.store import FleetStore
from collector.items.limits import Limits
from collector.judging.gold import gold_asker
from collector.judging.judges import CountingJudge
from collector.judging.known import given_calibrations, keep_calibrations
from collector.judging.known_judges import KnownJudges
from collector.judging.measures import JudgeMeasures
from collector.judging.providers import JudgeProviders
from collector.judging.spending import Spending
from collector.log.brokers import Brokers
from collector.metrics import RECEIVED, CollectorMetrics, TotalKey, TotalName, Totals
from collector.prices import PriceTable
from collector.receivers.http.receiver import HttpReceiver
from collector.receivers.intake import Intake
from collector.receivers.telemetry import IngestTelemetry
from collector.results.endpoint import connect
from collector.results.sender import ResultsSender
from collector.settings.model import CollectorSettings
from collector.web.routes import serve_page
from collector.worker.behind import BEHIND_S
from collector.worker.profiles import ProfileRegistry
from scouter.drift.series.group import Pace
from scouter.evaluate.judge.port import Judge

_log: Final = logging.getLogger(__name__)
_TIDY_S: Final = 600.0
_PAST_S: Final = 30.0
_FOLLOW_S: Final = 1.0
_STAND_BY_S: Final = 10.0
_ALWAYS_NS: Final = 2**62
"""Later than any time of arrival."""


class FleetApi(FleetProcess):
    """An api; see `FleetProcess`. One at a time has the duties: detectors, alerts and retention."""

    grpc = None

    def __init__(self, settings: CollectorSettings) -> None:
        super().__init__(settings, CollectorMetrics(self._totals, lambda: 0))
        url = database_url(settings)
        profiles = load_profiles(settings.profile)
        self.prices = PriceTable.read(settings.price_file)
        self.providers = JudgeProviders(
            settings.provider_entries(), settings.data, ledger=PostgresqlLedger(open_beside(url))
        )
        for profile in profiles:
            self.providers.check(profile)
        self.store = FleetStore(url)
        self.store.fix_partitions(self.topic.partitions)
        calibrations = keep_calibrations(self.store, given_calibrations(settings.calibrations))
        self.registry = ProfileRegistry(
            self.store, refused=lambda space: self.metrics.profiles_refused.labels(space).inc()
        )
        for profile in profiles:
            self.registry.register(settings.space, profile, activate=True)
        self._ends = Ends(topic_of(settings), self.topic.partitions)
        self.lag = FleetLag(self._ends, self.store)
        self.hand = FleetHand(self.store, self.lag)
        self._watch(settings)
        measures = JudgeMeasures(self.metrics.registry)
        counting = CountingJudge(self.providers.judge, self.providers.name_of, measures)
        self.answers = self._kept_answers(url, counting)
        self.gold = gold_asker(
            settings, self.store, self.registry, counting, calibrations, self.metrics.registry
        )
        """Shows what the workers have asked."""
        self.known_judges = KnownJudges(self.registry, calibrations)
        self.results = self._results(url)
        self.intake = Intake(
            self.topic,
            self.store,
            None,
            space=settings.space,
            brokers=Brokers(),
            max_in_flight=settings.max_in_flight,
            limits=Limits(
                max_body=settings.max_body,
                max_inflated=settings.max_inflated,
                max_items=settings.max_items,
                max_item=settings.max_item,
                max_attributes=settings.max_attributes,
            ),
            max_letter=settings.max_body,
        )
        budget = self.intake.budget
        self.telemetry = IngestTelemetry(self.metrics.registry, lambda: budget.used)
        self._series()
        self.past: Past | None = None
        if settings.past is not None:
            self.past = Past(settings.past, self.store, url, late_s=settings.late_window_s)
        self._clock = RetentionClock(
            FleetNote(open_beside(url), RETENTION_NOTE), settings.retention_days * 86_400
        )
        self._leader = Leader(url, self._lead)
        self._followers = [
            Follower("scouter-fleet-lag", self.lag.look),
            Follower("scouter-fleet-profiles", self._follow_profiles),
            Follower("scouter-fleet-standby", self._stand_by, _STAND_BY_S),
        ]
        self._duties = [
            Follower("scouter-fleet-alerts", self._conditions.look, _FOLLOW_S),
            Follower("scouter-fleet-tidy", self._tidy, _TIDY_S),
        ]
        if self.past is not None:
            self._duties.append(Follower("scouter-fleet-past", self._write_days, _PAST_S))
        receiver = HttpReceiver(self.intake, self.telemetry)
        self.app = make_app(self._parts(), self.gate, receiver)
        serve_page(self.app)

    @property
    def about(self) -> str:
        """Where it reads, and its profiles, in words."""
        aliases = ", ".join(
            each.profile.alias for each in self.registry.all(self.settings.space) if each.is_active
        )
        return f"{self.settings.postgresql}; profiles: {aliases or 'none'}"

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
        for each in self._followers:
            each.start()
        self._leader.start()

    def drain(self) -> None:
        """Nothing is taken that would have to be finished."""

    def stop(self) -> None:
        """End the duties, and close."""
        self._leader.stop()
        if self.past is not None:
            self.past.stop()
        for each in (*self._followers, *self._duties):
            each.stop()
        self.watcher.stop()
        self.delivery.stop()
        if self.results is not None:
            self.results.stop()
        self._leader.close()
        self._ends.close()
        if self.past is not None:
            self.past.close()
        if self.answers is not None:
            self.answers.close()
        self.providers.ledger.close()
        self.store.close()
        self.close()

    # --- parts ------------------------------------------------------------------------------

    def _watch(self, settings: CollectorSettings) -> None:
        """Make what watches the results."""
        self.monitor = AlertMonitor(self.store)
        self._conditions = FleetConditions(self.store, self.monitor)
        self.health = HealthWatch(
            self.store,
            lambda: self.watcher.active(),
            int((2 * settings.deadline_s + 60) * 1e9),
            lambda: self.watcher.erring(),
            self._behind,
        )
        self.delivery = Delivery(
            channels_of(settings),
            self.store,
            self.metrics.registry,
            public_url=settings.public_url or "",
        )
        self.pace = Pace(
            int(settings.session_quiet_s * 1e9), int(settings.session_deadline_s * 1e9)
        )
        self.watcher = DriftWatcher(
            self.store,
            alpha=settings.drift_alpha,
            run_length=settings.drift_run_length
            if settings.drift_detector == "run-length"
            else None,
            pace=self.pace,
            is_shadow=settings.drift == "shadow",
            on_trial=settings.drift_shadow,
            told=self.delivery.changed,
            findings=self.health.look,
            monitor=self.monitor,
            channels=self.delivery.channels,
        )

    def _series(self) -> None:
        """Show what is about the fleet, and not about one of its processes."""
        registry = self.metrics.registry
        registry.register(DriftMeasures(self.watcher, self.health, self.monitor))
        if self.providers.budgets_usd:
            registry.register(Spending(self.providers.ledger, self.providers.budgets_usd))
        self.metrics.watch_brokers(self.lag.brokers.lags_s)
        self.metrics.watch_store(
            self.store.size_bytes,
            lambda: (time.time_ns() - (self.store.newest_ns() or time.time_ns())) / 1e9,
            oldest_ns=self.store.oldest_ns,
            retention_s=self.settings.retention_days * 86_400,
            max_bytes=None,
        )
        self.store.observe_commits(self.metrics.commit_seconds.observe)

    def _kept_answers(self, url: str, judge: Judge) -> FleetAnswers | None:
        settings = self.settings
        if not settings.judge_cache_bytes:  # nothing would take out of it what is erased
            with closing(open_beside(url)) as session:
                remove_answers(session)
            return None
        return FleetAnswers(
            open_beside(url),
            judge,
            self.providers.judge.identity,
            self.store.last_seq,
            max_bytes=settings.judge_cache_bytes,
            max_age_s=settings.judge_cache_s,
        )

    def _results(self, url: str) -> ResultsSender | None:
        address = self.settings.results_otlp
        if address is None:
            return None
        return ResultsSender(
            self.store,
            connect(address, self.settings.results_otlp_headers or {}),
            FleetCursor(open_beside(url), address),
            self.metrics.registry,
            self.known_judges.behind,
        )

    def _parts(self) -> Parts:
        return Parts(
            space=self.gate.space,
            tokens=self.gate.tokens,
            store=self.store,
            registry=self.registry,
            monitor=self.monitor,
            watcher=self.watcher,
            health=self.health,
            delivery=self.delivery,
            pace=self.pace,
            worker=self.hand,
            ingest=self.intake,
            catch_up=self.lag.catch_up,
            metrics=self.metrics.registry,
            operation=FleetOperation(self.hand, self.answers, self.past),
            prices=self.prices,
            unready=self.unready,
            profiles_changed=self._profiles_changed,
            check_judges=self.providers.check,
            answers=self.answers,
            judges=self.known_judges,
            gold=self.gold,
        )

    # --- duties -----------------------------------------------------------------------------

    def _lead(self, epoch: str) -> None:
        """Begin with the duties."""
        self.store.have_duties(epoch)
        self._watch_active()
        if self.settings.drift != "off":
            self.watcher.start()
            self.delivery.start()
        if self.results is not None:
            self.results.start()
        for each in self._duties:
            each.start()

    def _stand_by(self) -> None:
        """Show what the api with the duties has found."""
        if not self._leader.has_duties:
            self.watcher.load()

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

    def _totals(self) -> Totals:
        """The store's totals, with a zero for everything that a registered profile may count."""
        found: dict[TotalKey, int] = {}
        for space in self.gate.spaces():
            found[TotalKey(TotalName.SPANS_RECEIVED, space)] = 0
            found[TotalKey(TotalName.EVENTS_RECEIVED, space)] = 0
            found[TotalKey(TotalName.PENDING, space)] = 0
            for kind in RECEIVED:
                found[TotalKey(TotalName.DUPLICATES, space, label=kind)] = 0
                found[TotalKey(TotalName.LOST, space, label=kind)] = 0
        for each in self.registry.everything():
            found |= dict.fromkeys(each.counts, 0)
        return {**found, **self.store.totals()}

    def _watch_active(self) -> None:
        """Let the alerts follow the active profiles."""
        known = self.registry.everything()
        if self._leader.has_duties:  # it writes what becomes of alerts
            active = [(each.space, each.profile) for each in known if each.is_active]
            self._conditions.follow(active)
        self.watcher.follow((each.space, each.profile, each.is_active) for each in known)

    def _profiles_changed(self) -> None:
        """Follow a change, and let workers do so: who asked for it may send at once."""
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
