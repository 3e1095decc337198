"""Settings of Kafka's clients, by the names of the clients."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

from kafka.coordinator.assignors.range import RangePartitionAssignor
from pydantic import SecretStr

from collector.settings.model import CollectorSettings
from scouter.errors import ConfigError

POLL_MS: Final = 200
"""A poll waits so long for messages."""
_HEARTBEAT_MS: Final = 3000
"""A third of the session's timeout, where that is less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KafkaSettings:
    """Brokers, how they let us in, and the group that reads."""

    servers: tuple[str, ...]
    """`HOST:PORT` of some brokers."""
    group: str
    topic: str = ""
    """The topic of a log; other readers name their topics themselves."""
    space: str = "default"
    """Space of messages that name none."""
    session_s: float = 15.0
    """The group waits so long for a member that ended."""
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = field(default=None, repr=False)
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None

    @classmethod
    def of(cls, settings: CollectorSettings, *, topic: str = "", group: str = "") -> Self:
        """Those of a collector.

        Args:
            settings: All of its settings; `kafka` names the brokers.
            topic: The topic of its log.
            group: The group; by default the one of the receiver.
        """
        return cls(
            servers=tuple(part.strip() for part in (settings.kafka or "").split(",")),
            group=group or settings.kafka_group,
            topic=topic,
            space=settings.space,
            session_s=settings.kafka_session_s,
            security_protocol=settings.kafka_security_protocol,
            sasl_mechanism=settings.kafka_sasl_mechanism,
            sasl_username=settings.kafka_sasl_username,
            sasl_password=settings.kafka_sasl_password,
            ssl_cafile=settings.kafka_ssl_cafile,
            ssl_certfile=settings.kafka_ssl_certfile,
            ssl_keyfile=settings.kafka_ssl_keyfile,
        )

    @property
    def shown(self) -> str:
        """The brokers, in words."""
        return ", ".join(self.servers)

    def check_files(self) -> None:
        """Look for the named files; the client does not say which one it misses.

        Raises:
            ConfigError: One is not there.
        """
        for path in (self.ssl_cafile, self.ssl_certfile, self.ssl_keyfile):
            if path is not None and not path.is_file():
                raise ConfigError(f"there is no file {path}, which Kafka's TLS needs")

    def client(self) -> dict[str, Any]:
        """What every client is given; nothing is connected."""
        password = self.sasl_password
        found: dict[str, Any] = {
            "bootstrap_servers": list(self.servers),
            "client_id": "scouter-collector",
            "security_protocol": self.security_protocol,
            "reconnect_backoff_max_ms": 2_000,
            "bootstrap_timeout_ms": 2_000,  # a stop waits for it; who connects tries again anyway
        }
        optional: dict[str, Any] = {
            "sasl_mechanism": self.sasl_mechanism,
            "sasl_plain_username": self.sasl_username,
            "sasl_plain_password": password.get_secret_value() if password else None,
            "ssl_cafile": _path(self.ssl_cafile),
            "ssl_certfile": _path(self.ssl_certfile),
            "ssl_keyfile": _path(self.ssl_keyfile),
        }
        return found | {name: value for name, value in optional.items() if value is not None}


def consumer_settings(settings: KafkaSettings, name: str) -> dict[str, Any]:
    """The settings of `kafka.KafkaConsumer`; nothing is connected.

    Args:
        settings: Brokers, group, credentials.
        name: Of this member of the group, see `consumer_name`.
    """
    session_ms = int(settings.session_s * 1000)
    return settings.client() | {
        "group_id": settings.group,
        # A static member: who comes back under the name of a dead one has its partitions at once.
        "group_instance_id": name,
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": min(_HEARTBEAT_MS, session_ms // 3),
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        # Topics with the same number of partitions: one consumer gets number n of both.
        "partition_assignment_strategy": [RangePartitionAssignor],
        # One partition may fill an answer; the broker lets each have its turn. It cuts what it
        # sends of one in the middle of a batch, and the client throws the rest away: with half an
        # answer for each, half of all bytes came for nothing.
        "max_partition_fetch_bytes": 2**20,
        "fetch_max_bytes": 2**20,
        "fetch_max_wait_ms": POLL_MS,
        "metrics_enabled": False,  # the client's own, for every read of a socket; nobody reads it
        "metadata_max_age_ms": 30_000,
    }


def _path(value: Path | None) -> str | None:
    return None if value is None else str(value)
