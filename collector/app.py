"""The composition root: settings in, a running collector out."""

import contextlib
import logging
from typing import Final

from collector.access.tokens import TokenFile
from collector.api.parts import Unready
from collector.care.data_folder import open_data
from collector.care.retention import FileNote, Housekeeping
from collector.desk import Desk
from collector.exemplars import TraceExemplars
from collector.judging.answers import StoredAnswers, remove_answers
from collector.judging.worker import JudgeWorker
from collector.metrics import CollectorMetrics
from collector.operation import Operation
from collector.results.sender import FILE_NAME as CURSOR_NAME
from collector.results.sender import Cursor
from collector.settings.model import CollectorSettings
from collector.store.file_store import FileStore
from collector.worker.measures import WorkerMeasures
from collector.worker.open_trace import JoinTimes
from collector.worker.worker import Worker
from scouter.errors import ConfigError
from scouter.evaluate.judge.port import Judge

_log: Final = logging.getLogger(__name__)
_FOLLOW_S: Final = 2.0
"""The worker may be busy, or the store be stuck; what follows a profile comes later then."""


class Collector(Desk[FileStore]):
    """All parts of one collector, wired together.

    Args:
        settings: Settings of the collector.
        accept_loss: Start with what is left, where data is gone or damaged.

    Raises:
        ConfigError: A profile or the data folder cannot be used.
        LostDataError: Data is gone or damaged.
    """

    def __init__(self, settings: CollectorSettings, *, accept_loss: bool = False) -> None:
        self.tokens = TokenFile(settings.data)
        self._exemplars = TraceExemplars()
        super().__init__(
            settings,
            self.tokens,
            CollectorMetrics(self._totals, lambda: self.worker.waiting, self._exemplars.get),
        )
        self._read_given()
        self.files = open_data(
            settings.data,
            settings.memory_limit,
            accept_loss=accept_loss,
            on_sync=self.metrics.log_sync_seconds.observe,
        )
        self.store, self.log = self.files.store, self.files.log
        self.answers: StoredAnswers | None = None
        try:
            self.providers.check_ledger(self.store.missing_files, accept_loss=accept_loss)
            self._wire()
        except BaseException:
            self._close_files()
            raise

    def _wire(self) -> None:
        settings = self.settings
        self._keep_given(lambda: self.worker.backlog().troubles(settings.space))
        measures = WorkerMeasures(self.metrics.registry, self.prices.root)
        self.worker = Worker(
            self.log,
            self.store,
            self.registry,
            JoinTimes.of(settings),
            limits=self.limits,
            brokers=self.brokers,
            max_hold_s=settings.max_hold_s,
            observers=(lambda rows: self.watch.monitor.observe(rows), self._exemplars.note),
            on_profiles=self.watch.follow,
            on_pending=lambda: self.judging.wake(),
            measures=measures,
        )
        measures.show(lambda: [self.worker.shown])
        self.answers = self._stored_answers()
        self.judging = self._judging()
        self.watch.follow()
        # The store has a payload twice while it writes it; refused, it would come for ever.
        max_letter = min(settings.max_body, settings.memory_limit // 3)
        self._open_way_in(self.log, self.store, settings.data, max_letter)
        self.metrics.watch_store(
            self.files.file_bytes,
            self.store.commit_age_s,
            oldest_ns=self.store.oldest_ns,
            retention_s=settings.retention_days * 86_400,
            max_bytes=settings.max_store_bytes,
        )
        self.store.observe_commits(self.metrics.commit_seconds.observe)
        self.metrics.watch_log(lambda: self.worker.behind_bytes)
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
        self.results = self._send_results(
            lambda address: Cursor(FileNote(settings.data / CURSOR_NAME), address)
        )
        self._make_receivers()
        self._serve(self.worker, self.operation, self.worker.catch_up, self.answers)

    @property
    def is_broken(self) -> bool:
        """True once the store takes nothing any more, and only a new process helps."""
        return self.store.is_broken

    @property
    def about(self) -> str:
        """Data folder, active profiles and broker, in words."""
        settings = self.settings
        kafka = f"; Kafka {settings.kafka}" if settings.kafka else ""
        return f"data in {settings.data}; profiles: {self._active}{kafka}"

    def start(self) -> None:
        """Take up what was left waiting, then begin to consume."""
        self._warn_of_judges()
        self.worker.start()
        self.judging.start()
        self.housekeeping.start()
        self.watch.start()
        if self.results is not None:
            self.results.start()
        self._start_receivers()

    def stop(self) -> None:
        """Finish what was taken, then close the store."""
        self._stop_receivers()
        self.judging.stop()
        self.worker.catch_up()  # so that the last round of judging sees the last spans
        self.worker.stop()
        self.housekeeping.stop()
        self.watch.stop()
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

    # --- parts ------------------------------------------------------------------------------

    def _judging(self) -> JudgeWorker:
        answers, counting = self.answers, self.counting

        def judge_of(space: str, read_seq: int) -> Judge:
            if answers is None:
                return counting
            return counting.looking_up(answers.judge_of(space, read_seq))

        return JudgeWorker(
            self.store,
            self.registry,
            self.worker,
            judge_of,
            self.providers.name_of,
            concurrency=self.settings.judge_concurrency,
            measures=self.judge_measures,
            drain_s=self.settings.drain_s,
            beside=None if self.gold is None else self.gold.run,
        )

    def _stored_answers(self) -> StoredAnswers | None:
        settings = self.settings
        if not settings.judge_cache_bytes:
            remove_answers(settings.data)  # nothing would take out of it what is erased
            return None
        answers = StoredAnswers(
            settings.data,
            self.counting,
            self.providers.judge.identity,
            max_bytes=settings.judge_cache_bytes,
            max_age_s=settings.judge_cache_s,
        )
        self.judge_measures.watch_cache(answers.stored, settings.judge_cache_bytes)
        return answers

    def _warn_of_judges(self) -> None:
        """Say which active profiles of earlier times would end errored."""
        for each in self.registry.everything():
            if each.is_active:
                try:
                    self.providers.check(each.profile)
                except ConfigError as error:
                    _log.warning("profile %r: %s", each.profile.alias, error)

    def _profiles_changed(self) -> None:
        """Let alerts and waiting records follow; who requested it waits a moment for that."""
        with contextlib.suppress(TimeoutError):
            self.worker.profiles_changed().result(_FOLLOW_S)
