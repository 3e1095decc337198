"""The composition root: settings in, a running collector out."""

import contextlib
import logging
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from collector.access.gate import Gate
from collector.access.tokens import TokenFile
from collector.alerts.delivery.delivery import Delivery, channels_of
from collector.alerts.drift.health import HealthWatch
from collector.alerts.drift.measures import DriftMeasures
from collector.alerts.drift.watcher import DriftWatcher
from collector.alerts.monitor import AlertMonitor
from collector.api.app import make_app
from collector.api.parts import Parts, Unready
from collector.care.data_folder import open_data
from collector.care.housekeeping import Housekeeping
from collector.exemplars import TraceExemplars
from collector.items.limits import Limits
from collector.judging.answers import KeptAnswers, remove_answers
from collector.judging.gold import gold_asker
from collector.judging.judges import CountingJudge, LookupCountingJudge
from collector.judging.known import given_calibrations, keep_calibrations
from collector.judging.known_judges import KnownJudges
from collector.judging.measures import JudgeMeasures
from collector.judging.providers import JudgeProviders
from collector.judging.spending import Spending
from collector.judging.worker import JudgeWorker
from collector.log.brokers import Brokers
from collector.metrics import RECEIVED, CollectorMetrics, TotalKey, TotalName, Totals
from collector.operation import Operation
from collector.prices import PriceTable
from collector.process import connections_that_fit
from collector.receivers.http.receiver import HttpReceiver
from collector.receivers.intake import Intake
from collector.receivers.message_servers.named import message_receivers
from collector.receivers.telemetry import IngestTelemetry
from collector.results.cursor import FILE_NAME as CURSOR_NAME
from collector.results.cursor import CursorFile
from collector.results.endpoint import connect
from collector.results.sender import ResultsSender
from collector.settings.model import CollectorSettings
from collector.store.rows import Completeness, EvaluationRow, Scope
from collector.web.routes import serve_page
from collector.worker.measures import WorkerMeasures
from collector.worker.profiles import ProfileRegistry
from collector.worker.times import JoinTimes
from collector.worker.worker import Worker
from scouter.drift.profile import AgentEvalProfile
from scouter.drift.series.group import Pace
from scouter.errors import ConfigError
from scouter.evaluate.judge.port import Judge

if TYPE_CHECKING:
    from collector.receivers.grpc.receiver import GrpcReceiver
    from collector.receivers.kafka.receiver import KafkaReceiver

_log: Final = logging.getLogger(__name__)
_FOLLOW_S: Final = 2.0
"""The worker may be busy, or the store be stuck; what follows a profile comes later then."""


class Collector:
    """All parts of one collector, wired together.

    Args:
        settings: Settings of the collector.
        accept_loss: Start with what is left, where data is gone or damaged.

    Raises:
        ConfigError: A profile or the data folder cannot be used.
        LostDataError: Data is gone or damaged.
    """

    def __init__(self, settings: CollectorSettings, *, accept_loss: bool = False) -> None:
        self.settings = settings
        self.max_connections = connections_that_fit(
            settings.max_connections, 1 if settings.grpc is None else 2
        )
        self.tokens = TokenFile(settings.data)
        settings.check_door(has_token=self.tokens.has_any())
        if settings.tls is not None:
            settings.tls.check()
        self.gate = Gate(
            self.tokens,
            settings.space,
            requests_per_s=settings.max_requests_per_s,
            is_reachable=settings.is_reachable,
        )
        profiles = load_profiles(settings.profile)
        self.prices = PriceTable.read(settings.price_file)
        self.providers = JudgeProviders(settings.provider_entries(), settings.data)
        calibrations = given_calibrations(settings.calibrations)
        for profile in profiles:
            self._check_judges(profile)
        self._on_sync: Callable[[float], None] = lambda seconds: None
        self.files = open_data(
            settings.data,
            settings.memory_limit,
            accept_loss=accept_loss,
            on_sync=lambda seconds: self._on_sync(seconds),
        )
        self.store, self.log = self.files.store, self.files.log
        self.answers: KeptAnswers | None = None
        try:
            self.providers.check_ledger(self.store.missing_files, accept_loss=accept_loss)
            self.calibrations = keep_calibrations(self.store, calibrations)
            self._wire(profiles)
        except BaseException:
            self._close_files()
            raise

    def _wire(self, profiles: Sequence[AgentEvalProfile]) -> None:
        settings = self.settings
        self.registry = ProfileRegistry(
            self.store, refused=lambda space: self.metrics.profiles_refused.labels(space).inc()
        )
        for profile in profiles:
            self.registry.register(settings.space, profile, activate=True)
        self._exemplars = TraceExemplars()
        self.metrics = CollectorMetrics(
            self._totals, lambda: self.worker.waiting, self._exemplars.get
        )
        if self.providers.budgets_usd:
            self.metrics.registry.register(
                Spending(self.providers.ledger, self.providers.budgets_usd)
            )
        limits = Limits(
            max_body=settings.max_body,
            max_inflated=settings.max_inflated,
            max_items=settings.max_items,
            max_item=settings.max_item,
            max_attributes=settings.max_attributes,
        )
        self.brokers = Brokers()
        measures = WorkerMeasures(self.metrics.registry)
        self.worker = Worker(
            self.log,
            self.store,
            self.registry,
            JoinTimes(
                settle_s=settings.settle_s,
                foreign_settle_s=settings.foreign_settle_s,
                quiet_s=settings.quiet_s,
                deadline_s=settings.deadline_s,
                late_window_s=settings.late_window_s,
                session_quiet_s=settings.session_quiet_s,
                session_deadline_s=settings.session_deadline_s,
            ),
            limits=limits,
            brokers=self.brokers,
            max_hold_s=settings.max_hold_s,
            observers=(self._observe_waits, self._observe_alerts, self._note_traces),
            on_profiles=self._watch_active,
            on_pending=lambda: self.judging.wake(),
            measures=measures,
        )
        measures.show(lambda: [self.worker.shown])
        self.judge_measures = JudgeMeasures(self.metrics.registry)
        self.counting = CountingJudge(
            self.providers.judge, self.providers.name_of, self.judge_measures
        )
        self.answers = self._kept_answers()
        self.judging = self._judging()
        self._told_unwatched: frozenset[tuple[str, str]] = frozenset()
        self.monitor = AlertMonitor(self.store)
        patience_s = 2 * settings.deadline_s + 60
        self.health = HealthWatch(
            self.store,
            lambda: self.watcher.active(),
            int(patience_s * 1e9),
            lambda: self.watcher.erring(),
            lambda: self.worker.backlog().troubles(),
        )
        self.delivery = Delivery(
            channels_of(settings),
            self.store,
            self.metrics.registry,
            public_url=settings.public_url or "",
        )
        pace = Pace(int(settings.session_quiet_s * 1e9), int(settings.session_deadline_s * 1e9))
        self.watcher = DriftWatcher(
            self.store,
            alpha=settings.drift_alpha,
            run_length=settings.drift_run_length
            if settings.drift_detector == "run-length"
            else None,
            pace=pace,
            is_shadow=settings.drift == "shadow",
            on_trial=settings.drift_shadow,
            told=self.delivery.changed,
            findings=self.health.look,
            monitor=self.monitor,
            channels=self.delivery.channels,
        )
        self.metrics.registry.register(DriftMeasures(self.watcher, self.health, self.monitor))
        self._watch_active()
        self.ingest = Intake(
            self.log,
            self.store,
            settings.data,
            space=settings.space,
            brokers=self.brokers,
            max_behind=settings.max_behind,
            max_in_flight=settings.max_in_flight,
            limits=limits,
            # The store has a payload twice while it writes it; refused, it would come for ever.
            max_letter=min(settings.max_body, settings.memory_limit // 3),
        )
        budget = self.ingest.budget
        self.telemetry = IngestTelemetry(self.metrics.registry, lambda: budget.used)
        self.metrics.watch_store(
            self.files.file_bytes,
            self.store.commit_age_s,
            oldest_ns=self.store.oldest_ns,
            retention_s=settings.retention_days * 86_400,
            max_bytes=settings.max_store_bytes,
        )
        self.metrics.watch_brokers(self.brokers.lags_s)
        self.store.observe_commits(self.metrics.commit_seconds.observe)
        self.metrics.watch_log(lambda: self.worker.behind_bytes)
        self._on_sync = self.metrics.log_sync_seconds.observe
        self.housekeeping = Housekeeping(
            self.store,
            self.log,
            settings.data,
            retention_days=settings.retention_days,
            max_store_bytes=settings.max_store_bytes,
        )
        self.operation = Operation(
            self.files,
            self.worker,
            self.tokens,
            self.answers,
            data=settings.data,
            backups=settings.backups,
            on_erased=self.housekeeping.erased,
        )
        self.known_judges = KnownJudges(self.registry, self.calibrations)
        self.results = self._results()
        self.kafka = self._kafka()
        self.message_receivers = message_receivers(
            settings, self.ingest, self.brokers, self.telemetry
        )
        self.grpc = self._grpc()
        receiver = HttpReceiver(self.ingest, self.telemetry)
        self.app = make_app(self._parts(pace), self.gate, receiver)
        serve_page(self.app)

    @property
    def is_broken(self) -> bool:
        """True once the store takes nothing any more, and only a new process helps."""
        return self.store.is_broken

    @property
    def about(self) -> str:
        """Data folder, active profiles and broker, in words."""
        settings = self.settings
        aliases = ", ".join(
            each.profile.alias for each in self.registry.all(settings.space) if each.is_active
        )
        kafka = f"; Kafka {settings.kafka}" if settings.kafka else ""
        return f"data in {settings.data}; profiles: {aliases or 'none'}{kafka}"

    def start(self) -> None:
        """Take up what was left waiting, then begin to consume."""
        self._warn_of_judges()
        self.worker.start()
        self.judging.start()
        self.housekeeping.start()
        if self.settings.drift != "off":
            self.watcher.start()
            self.delivery.start()
        if self.results is not None:
            self.results.start()
        if self.kafka is not None:
            self.kafka.start()
        for each in self.message_receivers:
            each.start()
        if self.grpc is not None:
            self.grpc.start()

    def drain(self) -> None:
        """Take no new gRPC requests, while those in hand are finished; returns at once."""
        if self.grpc is not None:
            self.grpc.drain(self.settings.drain_s)

    def stop(self) -> None:
        """Finish what was taken, then close the store."""
        if self.grpc is not None:
            self.grpc.drain(self.settings.drain_s).wait()
        if self.kafka is not None:
            self.kafka.stop()
        for each in self.message_receivers:
            each.stop()
        self.judging.stop()
        self.worker.catch_up()  # so that the last round of judging sees the last spans
        self.worker.stop()
        self.housekeeping.stop()
        self.watcher.stop()
        self.delivery.stop()
        if self.results is not None:
            self.results.stop()
        self._close_files()

    def _close_files(self) -> None:
        if self.answers is not None:
            self.answers.close()
        self.providers.ledger.close()
        self.files.close()

    def unready(self) -> Unready | None:
        """Reason that the collector cannot do its work now; None if it can."""
        if self.kafka is not None and not self.kafka.is_connected:
            why = f"no connection to Kafka at {self.settings.kafka}: {self.kafka.fault}"
            return Unready("kafka", why)
        for each in self.message_receivers:
            if not each.is_connected:
                return Unready(each.name, f"no connection to {each.name} at {each.where}")
        fault = self.store.fault() or self.log.fault or self.worker.trouble or self.ingest.no_room
        if fault:
            return Unready("store", fault)
        stalled = self.worker.fault()
        return Unready("judging", stalled) if stalled else None

    def _parts(self, pace: Pace) -> Parts:
        """Gather the parts that answer the routes."""
        return Parts(
            space=self.gate.space,
            tokens=self.gate.tokens,
            store=self.store,
            registry=self.registry,
            monitor=self.monitor,
            watcher=self.watcher,
            health=self.health,
            delivery=self.delivery,
            pace=pace,
            worker=self.worker,
            ingest=self.ingest,
            catch_up=self.worker.catch_up,
            metrics=self.metrics.registry,
            operation=self.operation,
            prices=self.prices,
            unready=self.unready,
            profiles_changed=self._profiles_changed,
            check_judges=self.providers.check,
            answers=self.answers,
            judges=self.known_judges,
            gold=self.gold,
        )

    # --- parts ------------------------------------------------------------------------------

    def _judging(self) -> JudgeWorker:
        providers, answers = self.providers, self.answers
        measures = self.judge_measures
        self.gold = gold_asker(
            self.settings,
            self.store,
            self.registry,
            self.counting,
            self.calibrations,
            self.metrics.registry,
        )

        def judge_of(space: str, read_seq: int) -> Judge:
            if answers is None:
                return self.counting
            judge = answers.judge_of(space, read_seq)
            return LookupCountingJudge(judge, providers.name_of, measures)

        return JudgeWorker(
            self.store,
            self.registry,
            self.worker,
            judge_of,
            providers.name_of,
            concurrency=self.settings.judge_concurrency,
            measures=measures,
            drain_s=self.settings.drain_s,
            beside=None if self.gold is None else self.gold.run,
        )

    def _kept_answers(self) -> KeptAnswers | None:
        settings = self.settings
        if not settings.judge_cache_bytes:
            remove_answers(settings.data)  # nothing would take out of it what is erased
            return None
        answers = KeptAnswers(
            settings.data,
            self.counting,
            self.providers.judge.identity,
            max_bytes=settings.judge_cache_bytes,
            max_age_s=settings.judge_cache_s,
        )
        self.judge_measures.watch_cache(answers.kept, settings.judge_cache_bytes)
        return answers

    def _results(self) -> ResultsSender | None:
        address = self.settings.results_otlp
        if address is None:
            return None
        return ResultsSender(
            self.store,
            connect(address, self.settings.results_otlp_headers or {}),
            CursorFile(self.settings.data / CURSOR_NAME, address),
            self.metrics.registry,
            self.known_judges.behind,
        )

    def _kafka(self) -> "KafkaReceiver | None":
        if self.settings.kafka is None:
            return None
        try:
            from collector.receivers.kafka.receiver import (
                KafkaReceiver,  # only those who use it need it
            )
        except ImportError as error:
            raise ConfigError(
                f"reading from Kafka needs {error.name}: pip install 'scouter-agents[collector]'"
            ) from error
        return KafkaReceiver(self.settings, self.ingest, self.brokers, self.telemetry)

    def _grpc(self) -> "GrpcReceiver | None":
        if self.settings.grpc is None:
            return None
        try:
            from collector.receivers.grpc.receiver import (
                GrpcReceiver,  # loads a lot: after the settings
            )
        except ImportError as error:
            raise ConfigError(
                f"OTLP/gRPC needs {error.name}: pip install 'scouter-agents[collector]', "
                "or say --grpc off"
            ) from error
        return GrpcReceiver(
            self.settings.grpc,
            self.ingest,
            self.telemetry,
            self.gate,
            self.settings.tls,
            max_connections=self.max_connections,
            keep_alive_s=self.settings.keep_alive_s,
        )

    def _check_judges(self, profile: AgentEvalProfile) -> None:
        try:
            self.providers.check(profile)
        except ConfigError as error:
            raise ConfigError(f"profile {profile.alias!r}: {error}") from error

    def _warn_of_judges(self) -> None:
        """Say which active profiles of earlier times would end errored."""
        for each in self.registry.everything():
            if each.is_active:
                try:
                    self.providers.check(each.profile)
                except ConfigError as error:
                    _log.warning("profile %r: %s", each.profile.alias, error)

    # --- what the parts tell each other -----------------------------------------------------

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

    def _observe_waits(self, evaluations: Sequence[EvaluationRow], waits: Sequence[float]) -> None:
        found: defaultdict[Completeness, list[float]] = defaultdict(list)
        traces: defaultdict[Completeness, dict[str, float]] = defaultdict(dict)
        for evaluation, wait_s in zip(evaluations, waits, strict=True):
            if evaluation.scope is Scope.RECORD and evaluation.revision == 1:
                found[evaluation.completeness].append(wait_s)
                if evaluation.trace_id is not None:
                    traces[evaluation.completeness][evaluation.trace_id] = wait_s
        for kind, of_kind in found.items():
            self.metrics.join_wait.observe(of_kind, kind.value, traces[kind])

    def _note_traces(self, evaluations: Sequence[EvaluationRow], waits: Sequence[float]) -> None:
        del waits
        self._exemplars.note(evaluations)

    def _observe_alerts(self, evaluations: Sequence[EvaluationRow], waits: Sequence[float]) -> None:
        self.monitor.observe(evaluations, waits)

    def _profiles_changed(self) -> None:
        """Let alerts and waiting records follow; who asked for it waits a moment for that."""
        with contextlib.suppress(TimeoutError):
            self.worker.profiles_changed().result(_FOLLOW_S)

    def _watch_active(self) -> None:
        """Let the alerts follow the active profiles: they are about what runs, not what ran."""
        known = self.registry.everything()
        self.monitor.follow((each.space, each.profile) for each in known if each.is_active)
        self.watcher.follow((each.space, each.profile, each.is_active) for each in known)
        unwatched = {(each.space, each.uid): each for each in self.registry.unwatched()}
        for key in unwatched.keys() - self._told_unwatched:
            _log.warning(
                "profile %r (space %r) has an alert and is not active: nothing is watched; "
                "scouter profile activate %s",
                unwatched[key].profile.alias, *key,
            )  # fmt: skip
        self._told_unwatched = frozenset(unwatched)


def load_profiles(names: Sequence[str]) -> list[AgentEvalProfile]:
    """Read the profiles that were asked for; each alias can mean one of them only."""
    found: dict[str, tuple[str, AgentEvalProfile]] = {}
    for name in names:
        profile = AgentEvalProfile.from_file(name)
        other = found.setdefault(profile.alias, (name, profile))
        if other[1] != profile:
            raise ConfigError(
                f"profiles {other[0]} and {name} both have the alias {profile.alias!r}: "
                "only one can be active; give one of them another alias"
            )
    by_uid: dict[str, str] = {}
    for alias, (_, profile) in found.items():
        other_alias = by_uid.setdefault(profile.uid, alias)
        if other_alias != alias:
            raise ConfigError(
                f"the profiles {other_alias!r} and {alias!r} have one name {profile.name!r} and "
                "the same tasks, so they are one profile; give one of them another config.name"
            )
    return [profile for _, profile in found.values()]
