"""The base of every process with an address: limits, receivers, and how it begins and ends."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collector.access.gate import Gate
from collector.access.tokens import Tokens
from collector.items.limits import Limits
from collector.log.brokers import Brokers
from collector.log.port import Appends
from collector.metrics import CollectorMetrics
from collector.process import connections_that_fit
from collector.receivers.intake import Intake, Stored
from collector.receivers.telemetry import IngestTelemetry
from collector.settings.model import CollectorSettings
from scouter.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from collector.receivers.grpc.receiver import GrpcReceiver
    from collector.receivers.kafka.receiver import KafkaReceiver
    from collector.receivers.message_servers.receiver import MessageReceiver


class Served(ABC):
    """A collector, or one process of a fleet.

    Args:
        settings: Settings of the process.
        tokens: Those that let callers in.
        metrics: Its series.

    Raises:
        ConfigError: Certificate or door cannot be used.
    """

    app: "FastAPI"

    def __init__(
        self, settings: CollectorSettings, tokens: Tokens, metrics: CollectorMetrics
    ) -> None:
        self.settings, self.metrics = settings, metrics
        self.max_connections = connections_that_fit(
            settings.max_connections, 1 if settings.grpc is None else 2
        )
        settings.check_door(has_token=tokens.has_any())
        if settings.tls is not None:
            settings.tls.check()
        self.gate = Gate(
            tokens,
            settings.space,
            requests_per_s=settings.max_requests_per_s,
            is_reachable=settings.is_reachable,
        )
        self.limits = Limits.of(settings)
        self.brokers = Brokers()
        self.grpc: GrpcReceiver | None = None
        self.kafka: KafkaReceiver | None = None
        self.message_receivers: Sequence[MessageReceiver] = ()

    @property
    def is_broken(self) -> bool:
        """True once only a new process helps."""
        return False

    @property
    @abstractmethod
    def about(self) -> str:
        """What it works with, for the line that says where it listens."""

    @abstractmethod
    def start(self) -> None:
        """Begin to work."""

    def drain(self) -> None:
        """Take no new gRPC requests, while those in hand are finished; returns at once."""
        if self.grpc is not None:
            self.grpc.drain(self.settings.drain_s)

    @abstractmethod
    def stop(self) -> None:
        """Finish what was taken, and close everything."""

    # --- ways in ----------------------------------------------------------------------------

    def _open_way_in(self, log: Appends, store: Stored, data: Path | None, max_letter: int) -> None:
        """Make the way into a log; see `Intake`."""
        settings = self.settings
        self.ingest = Intake(
            log,
            store,
            data,
            space=settings.space,
            brokers=self.brokers,
            max_behind=settings.max_behind,
            max_in_flight=settings.max_in_flight,
            limits=self.limits,
            max_letter=max_letter,
        )
        budget = self.ingest.budget
        self.telemetry = IngestTelemetry(self.metrics.registry, lambda: budget.used)

    def _make_receivers(self) -> None:
        """Make the receivers that the settings name, but for HTTP."""
        self.metrics.watch_brokers(self.brokers.lags_s)
        self.kafka = self._kafka()
        self.message_receivers = self._message_receivers()
        self.grpc = self._grpc()

    def _start_receivers(self) -> None:
        if self.kafka is not None:
            self.kafka.start()
        for each in self.message_receivers:
            each.start()
        if self.grpc is not None:
            self.grpc.start()

    def _stop_receivers(self) -> None:
        if self.grpc is not None:
            self.grpc.drain(self.settings.drain_s).wait()
        if self.kafka is not None:
            self.kafka.stop()
        for each in self.message_receivers:
            each.stop()

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

    def _message_receivers(self) -> "list[MessageReceiver]":
        found: list[MessageReceiver] = []
        try:  # only those who use one need it
            if self.settings.redis is not None:
                from collector.receivers.message_servers.redis import RedisReceiver

                found.append(
                    RedisReceiver(self.settings, self.ingest, self.brokers, self.telemetry)
                )
            if self.settings.rabbitmq is not None:
                from collector.receivers.message_servers.rabbitmq import RabbitMQReceiver

                found.append(RabbitMQReceiver(self.settings, self.ingest, self.brokers))
        except ImportError as error:
            raise ConfigError(
                f"reading from a message server needs {error.name}: "
                "pip install 'scouter-agents[rabbitmq,redis]'"
            ) from error
        return found

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
