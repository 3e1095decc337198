"""The receivers of those message servers that the settings name."""

from typing import TYPE_CHECKING

from collector.log.brokers import Brokers
from collector.receivers.intake import Intake
from collector.receivers.telemetry import IngestTelemetry
from collector.settings.model import CollectorSettings
from scouter.errors import ConfigError

if TYPE_CHECKING:
    from collector.receivers.message_servers.receiver import MessageReceiver


def message_receivers(
    settings: CollectorSettings, ingest: Intake, inputs: Brokers, telemetry: IngestTelemetry
) -> "list[MessageReceiver]":
    """Make the receivers of Redis and RabbitMQ; none is started.

    Args:
        settings: Names the servers and the way to connect.
        ingest: The way in.
        inputs: Is notified whether there are spans that were not read yet.
        telemetry: Counts what was lost, by queue.

    Raises:
        ConfigError: A client is not installed.
    """
    found: list[MessageReceiver] = []
    try:
        if settings.redis is not None:
            from collector.receivers.message_servers.redis import (
                RedisReceiver,  # only those who use it need it
            )

            found.append(RedisReceiver(settings, ingest, inputs, telemetry))
        if settings.rabbitmq is not None:
            from collector.receivers.message_servers.rabbitmq import RabbitMQReceiver

            found.append(RabbitMQReceiver(settings, ingest, inputs))
    except ImportError as error:
        raise ConfigError(
            f"reading from a message server needs {error.name}: "
            "pip install 'scouter-agents[rabbitmq,redis]'"
        ) from error
    return found
