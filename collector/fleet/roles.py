"""The roles of a fleet's processes."""

import socket

from collector.fleet.store import FleetStore
from collector.fleet.waiting import wait_for_far_sides
from collector.served import Served
from collector.settings.model import CollectorSettings
from scouter.errors import ConfigError, TransientError


def make_role(settings: CollectorSettings, listener: socket.socket) -> Served:
    """Make the process that a setting asks for, once Kafka and PostgreSQL are there.

    Args:
        settings: Its settings.
        listener: Its address, which is answered while it waits.

    Raises:
        ConfigError: It cannot start.
    """
    if settings.tls is not None:
        settings.tls.check()
    far = wait_for_far_sides(settings, listener)
    try:
        match settings.role, far.store:
            case "gateway", _:
                from collector.fleet.gateway import Gateway

                return Gateway(settings, far.topic)
            case "worker", FleetStore() as store:
                from collector.fleet.worker import FleetWorker

                return FleetWorker(settings, far.topic, store)
            case _, FleetStore() as store:
                from collector.fleet.api import FleetApi

                return FleetApi(settings, far.topic, store)
            case _:
                raise AssertionError("a role other than a gateway has a store")
    except TransientError as error:
        raise ConfigError(f"role {settings.role}: {error}") from error
