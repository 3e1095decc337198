"""The roles of a fleet's processes.

One whose Kafka or PostgreSQL is away at its start waits, says so, and answers probes.
"""

import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.responses import JSONResponse

from collector.fleet.database import Address
from collector.fleet.process import database_url, topic_of
from collector.fleet.store import FleetStore
from collector.fleet.topic_log import TopicLog
from collector.problem import problem_response
from collector.served import Served
from collector.settings.model import CollectorSettings
from scouter.errors import ConfigError, TransientError

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

_log: Final = logging.getLogger(__name__)
_LOOK_S: Final = 1.0
_TELL_S: Final = 60.0
_CONNECTIONS: Final = 100
"""Requests at a time that are answered meanwhile."""


@dataclass(frozen=True, slots=True)
class FarSides:
    """Topic and store of a process of a fleet, open."""

    topic: TopicLog
    store: FleetStore | None
    """None for a gateway, which has no tables but those of tokens."""


def wait_for_far_sides(settings: CollectorSettings, listener: socket.socket) -> FarSides:
    """Open the topic and the database, however long that takes.

    Args:
        settings: Of the process.
        listener: On which probes are answered meanwhile.

    Returns:
        Both as they were opened: a second opening would meet the next fault.

    Raises:
        ConfigError: One of them is there, and can never be used as it is.
        SystemExit: The process was stopped.
    """
    topics: list[TopicLog] = []
    stores: list[FleetStore] = []

    def topic() -> None:
        if not topics:
            topics.append(TopicLog(topic_of(settings), settings.fleet_partitions))

    def database() -> None:
        if settings.role == "gateway":
            Address(database_url(settings)).check()
        elif not stores:
            stores.append(FleetStore(database_url(settings)))

    looks = {"kafka": topic, "postgresql": database}
    began = time.monotonic()
    reported_at = -_TELL_S
    room: _WaitingRoom | None = None
    with ExitStack() as stack, _ended_by_signals():
        while away := _away(looks):
            if room is None:
                room = stack.enter_context(_WaitingRoom(settings, listener))
            room.away = " and ".join(away)
            if time.monotonic() >= reported_at + _TELL_S:
                reported_at = time.monotonic()
                _log.warning("the start waits: %s", "; ".join(away.values()))
            time.sleep(_LOOK_S)
        if room is not None:
            _log.info("the start goes on after %.0f s", time.monotonic() - began)
    return FarSides(topics[0], stores[0] if stores else None)


def _away(looks: Mapping[str, Callable[[], None]]) -> dict[str, str]:
    """By name the reason of each far side that does not answer."""
    found: dict[str, str] = {}
    for name, look in looks.items():
        try:
            look()
        except TransientError as error:
            found[name] = str(error)
    return found


@contextmanager
def _ended_by_signals() -> Generator[None]:
    """Let SIGTERM and SIGINT end the process at once, also where it is the first of a container."""

    def end(number: int, frame: FrameType | None) -> None:
        del number, frame
        _log.info("stopped")
        raise SystemExit(0)

    before = {each: signal.signal(each, end) for each in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


class _WaitingRoom:
    """Answers on the address of a process that waits: it lives, and is not ready.

    Args:
        settings: Of the process.
        listener: Stays open afterwards.
    """

    def __init__(self, settings: CollectorSettings, listener: socket.socket) -> None:
        self.away = ""
        """Names of what is waited for. The reasons are in the log alone, as nobody knows yet which
        caller may read them."""
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._answer,
                interface="asgi3",  # of a method it does not see that
                ws="none",
                log_config=None,
                access_log=False,
                lifespan="off",
                limit_concurrency=_CONNECTIONS,
                timeout_graceful_shutdown=1,
                server_header=False,
                proxy_headers=False,
                ssl_certfile=settings.tls_cert,
                ssl_keyfile=settings.tls_key,
            )
        )
        self._thread = threading.Thread(
            target=self._server.run, args=([listener.dup()],), name="scouter-waiting", daemon=True
        )

    def __enter__(self) -> "_WaitingRoom":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()

    async def _answer(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        response = problem_response(503, f"not ready: {self.away}", {"Retry-After": "1"})
        if scope["path"] == "/healthz":
            response = JSONResponse({"status": "ok"})
        await response(scope, receive, send)


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
