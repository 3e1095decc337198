"""A fleet of real processes on a real Kafka and a real PostgreSQL."""

import contextlib
import json
from collections.abc import Generator
from pathlib import Path
from typing import Any, Final

from tests.support.collector_process import CollectorProcess
from tests.support.kafka_broker import ExternalBroker, KafkaBroker
from tests.support.postgresql_server import PostgresqlServer

PARTITIONS: Final = 4


class FleetMember(CollectorProcess):
    """One process of a fleet; the api answers as a collector does."""


class Fleet:
    """Processes on one topic and one database.

    Args:
        folder: For what processes leave.
        broker: Kafka.
        server: PostgreSQL.
        topic: Of this fleet alone.
        flags: Of every process.
        partitions: Of the topic.
    """

    def __init__(
        self,
        folder: Path,
        broker: KafkaBroker | ExternalBroker,
        server: PostgresqlServer,
        topic: str,
        *flags: str,
        partitions: int = PARTITIONS,
    ) -> None:
        self._folder, self._flags = folder, flags
        self._settings = {
            "kafka": broker.bootstrap,
            "kafka_session_s": "6s",
            "postgresql": f"postgresql://postgres@/postgres?host={server.folder}",
            "fleet_topic": topic,
            "fleet_group": topic,
            "fleet_partitions": partitions,
            "kafka_spans_topic": f"{topic}.spans",
            "kafka_records_topic": f"{topic}.records",
            "kafka_group": f"{topic}.foreign",
        }
        self.members: dict[str, FleetMember] = {}

    def add(self, role: str, name: str, *flags: str) -> FleetMember:
        """Start a process."""
        folder = self._folder / name
        folder.mkdir(exist_ok=True)
        config = folder / "settings.yaml"
        settings: dict[str, Any] = {**self._settings, "role": role, "fleet_name": name}
        config.write_text(json.dumps(settings))
        member = FleetMember(folder, "--config", config, *self._flags, *flags)
        member.start()
        self.members[name] = member
        return member

    def close(self) -> None:
        """End all processes."""
        for each in self.members.values():
            each.close()


@contextlib.contextmanager
def small_fleet(
    fleet: Fleet, workers: int = 1
) -> Generator[tuple[CollectorProcess, CollectorProcess]]:
    """A gateway, some workers and an api; gives the gateway and the api."""
    try:
        api = fleet.add("api", "api")
        for number in range(workers):
            fleet.add("worker", f"worker-{number}")
        yield fleet.add("gateway", "gateway"), api
    finally:
        fleet.close()
