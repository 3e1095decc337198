"""A collector as a member of its consumer group."""

import logging
from typing import Final

from kafka import KafkaAdminClient, errors
from kafka.admin import MemberToRemove  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType] - stubs of version 2

from collector.receivers.kafka.settings import KafkaSettings
from scouter.transport.kafka_client import connect

_log: Final = logging.getLogger(__name__)
_LEAVE_TIMEOUT_MS: Final = 5000


def leave_group(settings: KafkaSettings, name: str) -> None:
    """Let others have the partitions at once; without it, they wait until the session is over.

    The consumer itself lets no static member leave, as it may be back soon.

    Args:
        settings: Those of the consumer.
        name: That of the consumer, which is closed.
    """
    try:
        client = connect(
            KafkaAdminClient, {**settings.client(), "request_timeout_ms": _LEAVE_TIMEOUT_MS}
        )
        try:
            client.remove_group_members(settings.group, [MemberToRemove(group_instance_id=name)])
        finally:
            client.close()
    except (errors.KafkaError, OSError) as error:
        _log.warning("kafka: the group was not notified that %s ended: %r", name, error)
