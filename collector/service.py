"""Running a collector in this process: listening, serving, and ending when it is stopped."""

import json
import logging
import os
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn

from collector.log_lines import FewerRepeats
from collector.process import after_start
from collector.receivers.http.connections import HttpConnections
from collector.receivers.http.protocol import BoundedHttpProtocol
from collector.settings.model import CollectorSettings
from collector.settings.values import HostPort
from scouter.errors import ConfigError

if TYPE_CHECKING:
    from collector.served import Served

_log: Final = logging.getLogger(__name__)


def _make(settings: CollectorSettings, listener: socket.socket, *, accept_loss: bool) -> "Served":
    """Make what a role needs; a collector of its own loads nothing of a fleet."""
    if settings.role == "all":
        from collector.app import Collector

        return Collector(settings, accept_loss=accept_loss)
    try:
        from collector.fleet.roles import make_role
    except ImportError as error:
        raise ConfigError(
            f"role {settings.role}: it needs {error.name}: pip install 'scouter-agents[fleet]'"
        ) from error
    return make_role(settings, listener)


def run_collector(settings: CollectorSettings, *, accept_loss: bool = False) -> None:
    """Run a collector in this process until it is stopped (SIGTERM, SIGINT).

    Args:
        settings: Settings of the collector.
        accept_loss: Start with what is left, where data is gone or damaged.

    Raises:
        ConfigError: It cannot start; nothing is left open then.
    """
    listener = _listen(settings.listen)
    try:
        collector = _make(settings, listener, accept_loss=accept_loss)
    except BaseException:
        listener.close()
        raise
    try:
        collector.start()
        config = uvicorn.Config(
            collector.app,
            http=BoundedHttpProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_keep_alive=max(1, round(settings.keep_alive_s)),
            timeout_graceful_shutdown=max(1, round(settings.drain_s)),
            server_header=False,
            # By default the address is what anybody on this machine says, or the environment.
            proxy_headers=bool(settings.trusted_proxies),
            forwarded_allow_ips=list(settings.trusted_proxies),
            ssl_certfile=settings.tls_cert,
            ssl_keyfile=settings.tls_key,
        )
        server = _Server(config, collector, lambda: _announce(collector, listener))
        with after_start():
            server.run(sockets=[listener])
    finally:
        collector.stop()
        listener.close()
    if collector.is_broken:
        _log.critical("ended, as the store cannot go on")
        raise SystemExit(1)  # whoever supervises this process starts it again
    _log.info("stopped")


class _Server(uvicorn.Server):
    """Takes connections within bounds, and ends quietly: a signal is not raised again afterwards.

    Args:
        config: uvicorn's.
        collector: Ends with its store.
        on_started: Called once requests are taken.
    """

    def __init__(
        self, config: uvicorn.Config, collector: "Served", on_started: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._collector, self._on_started = collector, on_started
        self._connections = HttpConnections(
            collector.max_connections, collector.gate.known, collector.settings.trusted_proxies
        )
        self._repeats = FewerRepeats()
        for handler in logging.getLogger().handlers:
            handler.addFilter(self._repeats)

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:  # each second
            self._repeats.tell()
        return await super().on_tick(counter) or self._collector.is_broken

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup([])
        for listener in sockets or ():
            self._connections.open(listener, self._protocol, self.config.ssl)
        if self.started:
            self._on_started()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._collector.drain()  # both ways in end in the same time
        self._connections.close()
        await super().shutdown(sockets)
        self._repeats.tell(is_end=True)

    def _protocol(self, connections: HttpConnections) -> BoundedHttpProtocol:
        return BoundedHttpProtocol(connections, self.config, self.server_state, self.lifespan.state)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        del sig, frame
        self.should_exit = True


def _listen(wanted: HostPort) -> socket.socket:
    family = socket.AF_INET6 if ":" in wanted.host else socket.AF_INET
    # asyncio sends small answers at once only where it knows that this is TCP: else the second
    # half of each waits 40 ms for the client to acknowledge the first.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((wanted.host, wanted.port))
        listener.listen(1024)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"cannot listen on {wanted}: {error.strerror or error}; give another --listen "
            "HOST:PORT, or end what listens there"
        ) from error
    return listener


def _announce(collector: "Served", listener: socket.socket) -> None:
    """Say where the service is, to people and to the process that waits for it."""
    settings = collector.settings
    name = listener.getsockname()
    listen = HostPort(name[0], name[1])
    grpc = str(collector.grpc.listen) if collector.grpc else ""
    _log.info(
        "listening on %s://%s (API /openapi.json, metrics /metrics)%s; %s",
        "http" if settings.tls is None else "https", listen,
        f" and for OTLP/gRPC on {grpc}" if grpc else "", collector.about,
    )  # fmt: skip
    if settings.ready_file is not None:
        content = json.dumps({"listen": str(listen), "grpc": grpc or None, "pid": os.getpid()})
        partial = settings.ready_file.with_name(f"{settings.ready_file.name}.partial")
        partial.write_text(content + "\n", encoding="utf-8")
        partial.replace(settings.ready_file)  # whoever sees the file sees all of it
