"""The role `worker`: owns partitions, joins, judges, and stores results with the offset."""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final

from collector.api.parts import Unready
from collector.fleet.budget import PostgresqlLedger
from collector.fleet.database import open_beside
from collector.fleet.ends import Ends, FleetLag, name_of
from collector.fleet.member import Member
from collector.fleet.partition_log import PartitionLog
from collector.fleet.process import FleetProcess, Follower, database_url, topic_of
from collector.fleet.sessions import FleetSessions
from collector.fleet.share import FencedError, Share
from collector.fleet.store import FleetStore
from collector.fleet.topic_log import TopicLog
from collector.judging.calibrations import given_calibrations, keep_calibrations
from collector.judging.gold import gold_asker
from collector.judging.judges import CountingJudge, JudgeMeasures
from collector.judging.providers import JudgeProviders
from collector.judging.worker import JudgeWorker
from collector.metrics import CollectorMetrics
from collector.prices import PriceTable
from collector.receivers.message_servers.receiver import member_name
from collector.settings.model import CollectorSettings
from collector.worker.measures import WorkerMeasures
from collector.worker.open_trace import JoinTimes
from collector.worker.profiles import ProfileRegistry
from collector.worker.worker import Worker
from scouter.evaluate.judge.port import Judge

_BEHIND_S: Final = 10.0
"""A partition that is behind by so much is named in the store, for people."""


@dataclass(frozen=True, slots=True)
class OwnedPartition:
    """A partition in the hands of this process; its next owner reads all of it from the store."""

    share: Share
    worker: Worker
    judging: JudgeWorker


class FleetWorker(FleetProcess):
    """A worker; see `FleetProcess`."""

    def __init__(self, settings: CollectorSettings, topic: TopicLog, store: FleetStore) -> None:
        super().__init__(settings, CollectorMetrics(None, lambda: self._waiting), topic)
        url = database_url(settings)
        self.store = store
        self.store.fix_partitions(self.topic.partitions)
        self.registry = ProfileRegistry(self.store, takes_all_scores=settings.scores)
        self._owned: dict[int, OwnedPartition] = {}
        self._lock = threading.Lock()
        self._ends = Ends(topic_of(settings), self.topic.partitions)
        self.lag = FleetLag(self._ends, self.store)
        self.metrics.watch_brokers(self.lag.brokers.lags_s)
        prices = PriceTable.read(self.settings.price_file)
        self._measures = WorkerMeasures(self.metrics.registry, prices.root)
        self._measures.show(lambda: [each.worker.shown for each in self.owned])
        self._make_judges(url)
        self.member = Member(
            topic_of(settings), self.topic, member_name(settings), self._take, self._give_up
        )
        self._followers = [
            Follower("scouter-fleet-lag", self._look),
            Follower("scouter-fleet-profiles", self._follow_profiles),
        ]
        self.app = self.probes(None, self.unready)

    @property
    def owned(self) -> Sequence[OwnedPartition]:
        """The partitions in hand."""
        with self._lock:
            return list(self._owned.values())

    @property
    def about(self) -> str:
        """Where it reads and writes, in words."""
        return (
            f"topic {self.topic.topic} at {self.settings.kafka}; group {self.settings.fleet_group}"
        )

    def unready(self) -> Unready | None:
        """Reason that nothing is judged now."""
        if (fault := self.member.fault) or not self.member.is_connected:
            return Unready("kafka", fault or "the group has not answered yet")
        for each in self.owned:
            fault = each.worker.trouble or each.share.fault()
            if fault:
                return Unready("postgresql", fault)
            if stalled := each.worker.fault():
                return Unready("judging", stalled)
        return None

    def start(self) -> None:
        """Join the group, and work on what it gives."""
        self.tokens.start()
        for each in self._followers:
            each.start()
        self.member.start()

    def stop(self) -> None:
        """Give all partitions back, and close."""
        self.member.stop()
        for each in self._followers:
            each.stop()
        self._ends.close()
        if self._answers is not None:
            self._answers.close()
        self.providers.ledger.close()
        self.store.close()
        self.close()

    # --- partitions -------------------------------------------------------------------------

    def _take(self, part: int, log: PartitionLog) -> int | None:
        """Take a partition that the group has given; the offset at which to read on."""
        share = self.store.take(part, member_name(self.settings), self.topic.topic_id)
        worker = self._work(share, log, lambda: judging.wake())
        judging = self._judging(share, worker)
        with self._lock:
            self._owned[part] = OwnedPartition(share, worker, judging)
        worker.start()
        judging.start()
        return share.offset or None

    def _give_up(self, part: int) -> None:
        """Let a partition go that the group gives to another worker."""
        with self._lock:
            owned = self._owned.pop(part, None)
        if owned is not None:
            owned.judging.stop()
            owned.worker.stop()
            owned.share.close()

    def _work(self, share: Share, log: PartitionLog, on_pending: Callable[[], None]) -> Worker:
        return Worker(
            log,
            share,
            self.registry,
            JoinTimes.of(self.settings),
            limits=self.limits,
            brokers=log.brokers,
            max_hold_s=self.settings.max_hold_s,
            on_pending=on_pending,
            measures=self._measures,
            sessions=partial(FleetSessions, self.lag.brokers),
        )

    @property
    def _waiting(self) -> int:
        return sum(each.worker.waiting for each in self.owned)

    def _look(self) -> None:
        """Look at the lag, and take partitions anew that another process has changed."""
        self.lag.look()
        lags_s = self.lag.brokers.lags_s()
        for each in self.owned:
            share, behind_s = each.share, lags_s.get(name_of(each.share.part), 0.0)
            is_behind = behind_s > _BEHIND_S
            since_ns = time.time_ns() - int(behind_s * 1e9) if is_behind else None
            with suppress(FencedError):
                share.report_behind(since_ns)
            if share.is_fenced or share.is_reopened:
                self.member.retake(share.part)

    def _follow_profiles(self) -> None:
        if self.registry.follow():
            for each in self.owned:
                each.worker.profiles_changed()

    # --- judges -----------------------------------------------------------------------------

    def _make_judges(self, url: str) -> None:
        """Make the judges of all partitions: the whole fleet has one budget and one cache."""
        settings, ledger = self.settings, PostgresqlLedger(open_beside(url))
        self.providers = JudgeProviders(settings.provider_entries(), settings.data, ledger=ledger)
        self._judge_measures = JudgeMeasures(self.metrics.registry)
        self._counting = CountingJudge(
            self.providers.judge, self.providers.name_of, self._judge_measures
        )
        self._gold = gold_asker(
            settings,
            self.store,
            self.registry,
            self._counting,
            keep_calibrations(self.store, given_calibrations(settings.calibrations)),
            self.metrics.registry,
        )
        self._answers = self.stored_answers(self._counting, self.providers, self.store)

    def _judge_of(self, space: str, read_seq: int) -> Judge:
        if self._answers is None:
            return self._counting
        return self._counting.looking_up(self._answers.judge_of(space, read_seq))

    def _judging(self, share: Share, worker: Worker) -> JudgeWorker:
        return JudgeWorker(
            share.whole,
            self.registry,
            worker,
            self._judge_of,
            self.providers.name_of,
            concurrency=self.settings.judge_concurrency,
            measures=self._judge_measures,
            drain_s=self.settings.drain_s,
            # One in the fleet asks. Two do while a partition moves, and the first outcome counts.
            beside=None if self._gold is None or share.part else self._gold.run,
            pending=share.pending_evaluations,
        )
