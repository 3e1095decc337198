"""A real RabbitMQ server on free ports."""

import os
import shutil
from pathlib import Path
from typing import Any, Final

import pika
from pika import exceptions

from tests.support.components import require
from tests.support.processes import ManagedProcess, free_ports

_PROGRAMS: Final = ("/usr/lib/rabbitmq/bin/rabbitmq-server",)
"""Debian's program on the path would change the user and the folder."""
_ERLANG: Final = "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"
"""One scheduler, and none that waits for work in a loop: that takes half of all the server does."""


class RabbitServer:
    """One server of our own; `stop` and `start` keep its port and its data.

    Args:
        folder: Empty folder for data and output.
    """

    def __init__(self, folder: Path) -> None:
        found = [name for name in _PROGRAMS if Path(name).exists()]
        program, epmd = (found or [""])[0], shutil.which("epmd")
        require("rabbitmq", present=bool(program and epmd), detail="no rabbitmq-server or epmd")
        self._program, self._epmd = program, str(epmd)
        self._folder = folder
        self.port, distribution, self._names_port = free_ports(3)
        config = folder / "rabbitmq.conf"
        config.write_text(f"listeners.tcp.default = 127.0.0.1:{self.port}\n")
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(self._names_port),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": f"scouter{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(distribution),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": _ERLANG,
            "RABBITMQ_CONFIG_FILE": str(config),
            "RABBITMQ_MNESIA_BASE": str(folder / "data"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
        }
        self._processes: list[ManagedProcess] = []
        self.collector_config = folder / "collector.yaml"
        """Settings of a collector that reads from here: the account that every new server has."""
        self.collector_config.write_text("rabbitmq_username: guest\nrabbitmq_password: guest\n")

    @property
    def address(self) -> str:
        """The address that clients connect to."""
        return f"amqp://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server and wait until it answers."""
        assert not self._processes, "the server runs already"
        for args in ([self._epmd, "-port", str(self._names_port)], [self._program]):
            self._processes.append(
                ManagedProcess(
                    args, log=self._folder / "rabbitmq.log", env=self._env, cwd=self._folder
                )
            )
        self._processes[-1].wait_ready(self._answers)

    def stop(self) -> None:
        """Stop the server; its data stays."""
        while self._processes:
            self._processes.pop().stop(grace_s=30)

    def connect(self) -> Any:
        """A connection of the test's own."""
        return pika.BlockingConnection(pika.URLParameters(f"{self.address}?heartbeat=600"))

    def _answers(self) -> bool:
        try:
            self.connect().close()
        except exceptions.AMQPError as error:
            raise ConnectionError(str(error)) from error
        return True
