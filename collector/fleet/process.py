"""The parts that every process of a fleet has: database, topic, tokens, probes, metrics."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from fastapi import FastAPI

from collector.api.app import make_app
from collector.api.parts import ProbeParts, Unready
from collector.api.status import probes
from collector.fleet.answers import FleetAnswers
from collector.fleet.database import open_beside
from collector.fleet.store import FleetStore
from collector.fleet.tokens import FleetTokens
from collector.fleet.topic_log import TopicLog
from collector.judging.providers import JudgeProviders
from collector.metrics import CollectorMetrics
from collector.receivers.http.receiver import HttpReceiver, ingest
from collector.receivers.kafka.settings import KafkaSettings
from collector.served import Served
from collector.settings.model import CollectorSettings
from scouter.errors import TransientError
from scouter.evaluate.judge.port import Judge

_log: Final = logging.getLogger(__name__)
_EVERY_S: Final = 1.0


def database_url(settings: CollectorSettings) -> str:
    """The address of PostgreSQL with its password, where there is one."""
    address, password = settings.postgresql or "", settings.postgresql_password
    if password is None:
        return address
    from psycopg.conninfo import make_conninfo

    return make_conninfo(address, password=password.get_secret_value())


def topic_of(settings: CollectorSettings) -> KafkaSettings:
    """The topic between gateways and workers, as its clients need it."""
    return KafkaSettings.of(settings, topic=settings.fleet_topic, group=settings.fleet_group)


class FleetProcess(Served):
    """A process of a fleet without its own part; a role is a subclass.

    Args:
        settings: Settings of the process.
        metrics: Its series.
        topic: The log, open; `close` closes it.

    Raises:
        ConfigError: Database or door cannot be used.
        TransientError: The database does not answer.
    """

    def __init__(
        self, settings: CollectorSettings, metrics: CollectorMetrics, topic: TopicLog
    ) -> None:
        self.tokens = FleetTokens(open_beside(database_url(settings)))
        super().__init__(settings, self.tokens, metrics)
        self.topic: Final = topic

    def probes(
        self, receiver: HttpReceiver | None, unready: Callable[[], Unready | None]
    ) -> FastAPI:
        """The application of a process that serves no page."""
        parts = ProbeParts(
            space=self.gate.space,
            metrics=self.metrics.registry,
            unready=unready,
        )
        routers = (probes,) if receiver is None else (ingest, probes)
        return make_app(parts, self.gate, receiver, routers)

    def stored_answers(
        self, judge: Judge, providers: JudgeProviders, store: FleetStore
    ) -> FleetAnswers | None:
        """The answers that the fleet keeps; None if it is to keep none."""
        settings = self.settings
        if not settings.judge_cache_bytes:
            return None
        return FleetAnswers(
            open_beside(database_url(settings)),
            judge,
            providers.judge.identity,
            store.last_seq,
            max_bytes=settings.judge_cache_bytes,
            max_age_s=settings.judge_cache_s,
        )

    def close(self) -> None:
        """Close what is open."""
        self.topic.close()
        self.tokens.close()


class Follower:
    """A thread that does the same again and again; what fails is tried the next time.

    Args:
        name: Of the thread.
        step: Done each time.
        every_s: Seconds between two times.
    """

    def __init__(self, name: str, step: Callable[[], None], every_s: float = _EVERY_S) -> None:
        self._step, self._every_s = step, every_s
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.fault = ""
        """Reason that the last time failed; empty if it did not."""

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End after the step that runs."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._every_s):
            try:
                self._step()
                self.fault = ""
            except TransientError as error:
                if not self.fault:
                    _log.warning("%s has to wait: %s", self._thread.name, error)
                self.fault = str(error)
            except Exception as error:  # noqa: BLE001 the thread outlives any fault
                self.fault = repr(error)
                _log.exception("a fault of %s; it goes on", self._thread.name)
