"""The role `gateway`: takes spans and records, and has them in the topic before it answers.

It has no state: any number of them stand behind a load balancer. While PostgreSQL is away it goes
on with the tokens that it knows.
"""

from collections.abc import Iterable, Mapping

from collector.api.parts import Unready
from collector.fleet.process import FleetProcess
from collector.fleet.topic_log import TopicLog
from collector.metrics import CollectorMetrics
from collector.receivers.http.receiver import HttpReceiver
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

    def __init__(self, settings: CollectorSettings, topic: TopicLog) -> None:
        super().__init__(settings, CollectorMetrics(None, lambda: 0), topic)
        self._open_way_in(self.topic, NothingStored(), None, settings.max_body)
        self._make_receivers()
        self.app = self.probes(HttpReceiver(self.ingest, self.telemetry), self.unready)

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
        self._start_receivers()

    def stop(self) -> None:
        """Finish what was taken, and close."""
        self._stop_receivers()
        self.close()
