"""The roles of a fleet's processes."""

from collector.served import Served
from collector.settings.model import CollectorSettings
from scouter.errors import ConfigError, TransientError


def make_role(settings: CollectorSettings) -> Served:
    """Make the process that a setting asks for.

    Raises:
        ConfigError: It cannot start.
    """
    try:
        match settings.role:
            case "gateway":
                from collector.fleet.gateway import Gateway

                return Gateway(settings)
            case "worker":
                from collector.fleet.worker import FleetWorker

                return FleetWorker(settings)
            case _:
                from collector.fleet.api import FleetApi

                return FleetApi(settings)
    except TransientError as error:
        raise ConfigError(f"role {settings.role}: {error}") from error
