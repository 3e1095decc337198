"""The role `gateway`: takes spans and records, and has them in the topic before it answers.

It has no state: any number of them stand behind a load balancer. While PostgreSQL is away it goes
on with the tokens that it knows.
"""

from collections.abc import Iterable, Mapping

from collector.api.parts import Unready
from collector.fleet.process import FleetProcess
from collector.items.limits import Limits
from collector.log.brokers import Brokers
from collector.metrics import CollectorMetrics
from collector.receivers.grpc.receiver import GrpcReceiver
from collector.receivers.http.receiver import HttpReceiver
from collector.receivers.intake import Intake
from collector.receivers.kafka.receiver import KafkaReceiver
from collector.receivers.message_servers.named import message_receivers
from collector.receivers.telemetry import IngestTelemetry
from collector.settings.model import CollectorSettings
from scouter.errors import TransientError


class NothingStored:
    """Stands for the store, which no gateway asks: the worker knows what came before."""

    offset = 0

    def stored_records(self, space: str, uids: Iterable[str]) -> Mapping[str, str]:
        """Nothing is known here."""
        del space, uids
        return {}


class Gateway(FleetProcess):
    """A gateway; see `FleetProcess`."""

    is_broken = False

    def __init__(self, settings: CollectorSettings) -> None:
        super().__init__(settings, CollectorMetrics(None, lambda: 0))
        self.brokers = Brokers()
        limits = Limits(
            max_body=settings.max_body,
            max_inflated=settings.max_inflated,
            max_items=settings.max_items,
            max_item=settings.max_item,
            max_attributes=settings.max_attributes,
        )
        self.intake = Intake(
            self.topic,
            NothingStored(),
            None,
            space=settings.space,
            brokers=self.brokers,
            max_in_flight=settings.max_in_flight,
            limits=limits,
            max_letter=settings.max_body,
        )
        budget = self.intake.budget
        self.telemetry = IngestTelemetry(self.metrics.registry, lambda: budget.used)
        self.metrics.watch_brokers(self.brokers.lags_s)
        self.app = self.probes(HttpReceiver(self.intake, self.telemetry), self.unready)
        self.grpc = self._grpc()
        self.kafka = KafkaReceiver(settings, self.intake, self.brokers, self.telemetry)
        self.message_receivers = message_receivers(
            settings, self.intake, self.brokers, self.telemetry
        )

    @property
    def about(self) -> str:
        """Where it reads and writes, in words."""
        return f"topic {self.topic.topic} at {self.settings.kafka}"

    def unready(self) -> Unready | None:
        """Reason that a gateway cannot take anything now."""
        if self.topic.fault:
            return Unready("kafka", self.topic.fault)
        try:
            self.tokens.has_any()
        except TransientError as error:
            return Unready("postgresql", f"{error}: {self.tokens.fault}")
        return None

    def start(self) -> None:
        """Begin to take what brokers have; HTTP is the server's."""
        self.tokens.start()
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
        """Finish what was taken, and close."""
        if self.grpc is not None:
            self.grpc.drain(self.settings.drain_s).wait()
        self.kafka.stop()
        for each in self.message_receivers:
            each.stop()
        self.close()

    def _grpc(self) -> GrpcReceiver | None:
        settings = self.settings
        if settings.grpc is None:
            return None
        return GrpcReceiver(
            settings.grpc,
            self.intake,
            self.telemetry,
            self.gate,
            settings.tls,
            max_connections=self.max_connections,
            keep_alive_s=settings.keep_alive_s,
        )
