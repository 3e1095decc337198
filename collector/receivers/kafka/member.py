"""A collector as a member of its consumer group."""

import logging
from typing import Any, Final

from kafka import KafkaAdminClient, errors
from kafka.admin import MemberToRemove  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType] - stubs of version 2
from kafka.coordinator.assignors.range import RangePartitionAssignor

from collector.settings.model import CollectorSettings
from scouter.transport.kafka.connect import connect

_log: Final = logging.getLogger(__name__)
POLL_MS: Final = 200
"""A poll waits so long for messages."""
_HEARTBEAT_MS: Final = 3000
"""A third of the session's timeout, where that is less."""
_LEAVE_TIMEOUT_MS: Final = 5000


def consumer_settings(settings: CollectorSettings, name: str) -> dict[str, Any]:
    """The settings of `kafka.KafkaConsumer`; nothing is connected.

    Args:
        settings: Brokers, topics, group, credentials.
        name: Of this member of the group, see `consumer_name`.
    """
    password = settings.kafka_sasl_password
    session_ms = int(settings.kafka_session_s * 1000)
    found: dict[str, Any] = {
        "bootstrap_servers": [part.strip() for part in (settings.kafka or "").split(",")],
        "client_id": "scouter-collector",
        "group_id": settings.kafka_group,
        # A static member: who comes back under the name of a dead one has its partitions at once.
        "group_instance_id": name,
        "session_timeout_ms": session_ms,
        "heartbeat_interval_ms": min(_HEARTBEAT_MS, session_ms // 3),
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        # Topics with the same number of partitions: one consumer gets number n of both.
        "partition_assignment_strategy": [RangePartitionAssignor],
        "security_protocol": settings.kafka_security_protocol,
        # One partition may fill an answer; the broker lets each have its turn. It cuts what it
        # sends of one in the middle of a batch, and the client throws the rest away: with half an
        # answer for each, half of all bytes came for nothing.
        "max_partition_fetch_bytes": 2**20,
        "fetch_max_bytes": 2**20,
        "fetch_max_wait_ms": POLL_MS,
        "metrics_enabled": False,  # the client's own, for every read of a socket; nobody asks
        "metadata_max_age_ms": 30_000,
        "reconnect_backoff_max_ms": 2_000,
        "bootstrap_timeout_ms": 2_000,  # a stop waits for it; the receiver tries again anyway
    }
    optional: dict[str, Any] = {
        "sasl_mechanism": settings.kafka_sasl_mechanism,
        "sasl_plain_username": settings.kafka_sasl_username,
        "sasl_plain_password": password.get_secret_value() if password else None,
        "ssl_cafile": _path(settings.kafka_ssl_cafile),
        "ssl_certfile": _path(settings.kafka_ssl_certfile),
        "ssl_keyfile": _path(settings.kafka_ssl_keyfile),
    }
    return found | {name: value for name, value in optional.items() if value is not None}


def _path(value: object) -> str | None:
    return None if value is None else str(value)


def leave_group(settings: CollectorSettings, name: str) -> None:
    """Let others have the partitions at once; without it, they wait until the session is over.

    The consumer itself lets no static member leave, as it may be back soon.

    Args:
        settings: Those of the consumer.
        name: That of the consumer, which is closed.
    """
    own = consumer_settings(settings, name)
    known = {key: value for key, value in own.items() if key in KafkaAdminClient.DEFAULT_CONFIG}
    try:
        client = connect(KafkaAdminClient, {**known, "request_timeout_ms": _LEAVE_TIMEOUT_MS})
        try:
            client.remove_group_members(
                settings.kafka_group, [MemberToRemove(group_instance_id=name)]
            )
        finally:
            client.close()
    except (errors.KafkaError, OSError) as error:
        _log.warning("kafka: the group was not told that %s ended: %r", name, error)
