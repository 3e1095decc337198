"""OTLP/gRPC: the trace, logs and metrics services. An answer without an error means: durable.

The services take bytes and decode them here, as the generated servicers would answer a message
that is no protobuf with INTERNAL, and lose a whole batch for one bad item. To gRPC they are streams
of one message, which looks the same to a sender: so it is requested when there is room for it.

Source: OTLP specification 1.x, "OTLP/gRPC" (partial success, throttling, status codes).
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NoReturn
from urllib.parse import unquote

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from collector.access.caller import Caller, Scope
from collector.access.gate import OF_PROXIES, Gate
from collector.items.drop_reports import merge_dropped
from collector.problem import ProblemError
from collector.receivers.answers import protobuf_answer, take_otlp
from collector.receivers.budget import FullError, Lease
from collector.receivers.intake import Intake
from collector.receivers.refusals import kind_of, problem_of
from collector.receivers.telemetry import IngestTelemetry, Signal
from collector.settings.values import HostPort, Tls
from scouter.errors import ConfigError, DataError, TransientError
from scouter.transport.drops import DROPPED_HEADER, Dropped

_TURN_S: Final = 2.0
_WAIT_S: Final = 6.0
_MAX_WAITING: Final = 250
_FULL: Final = "other messages are still being read; send the same again later"


@dataclass(slots=True, kw_only=True, eq=False)
class _Reader:
    who: str
    cut_off: Callable[[], object]
    began: float
    is_cut_off: bool = False


class ReadSlots:
    """Permits to read a message. Every name leaves one permit to the others.

    A reader that waits for a whole turn cuts off the oldest reader that is in the way and has read
    for as long. So a sender whose message does not come keeps no other sender out.

    Args:
        count: Readers at a time.
        turn_s: Seconds that a message may take to arrive while others wait.
        wait_s: Seconds that a reader waits for a permit.
        max_waiting: Readers of one name that wait; each takes a thread.
    """

    def __init__(
        self,
        count: int,
        *,
        turn_s: float = _TURN_S,
        wait_s: float = _WAIT_S,
        max_waiting: int = _MAX_WAITING,
    ) -> None:
        self._count, self._share = count, max(1, count - 1)
        self._turn_s, self._wait_s, self._max_waiting = turn_s, wait_s, max_waiting
        self._changed = threading.Condition()
        self._readers: list[_Reader] = []
        """The oldest first."""
        self._waiting: Counter[str] = Counter()

    @contextmanager
    def slot(self, who: str, cut_off: Callable[[], object]) -> Generator[None]:
        """Wait for a permit; inside the block the message is read.

        Args:
            who: Name of the sender.
            cut_off: Ends the reading; called from another thread.

        Raises:
            FullError: There was no permit in time, or too many wait.
        """
        with self._changed:
            self._wait(who)
            reader = _Reader(who=who, cut_off=cut_off, began=time.monotonic())
            self._readers.append(reader)
        try:
            yield
        finally:
            with self._changed:
                self._readers.remove(reader)
                self._changed.notify_all()

    def _wait(self, who: str) -> None:
        if not self._in_the_way(who):
            return
        if self._waiting[who] >= self._max_waiting:
            raise FullError(_FULL)
        self._waiting[who] += 1
        try:
            until = time.monotonic() + self._wait_s
            while in_the_way := self._in_the_way(who):
                left_s = until - time.monotonic()
                if left_s <= 0:
                    raise FullError(_FULL)
                if not self._changed.wait(min(left_s, self._turn_s)):
                    self._cut_off_one(in_the_way)
        finally:
            self._waiting[who] -= 1
            if not self._waiting[who]:
                del self._waiting[who]

    def _in_the_way(self, who: str) -> list[_Reader]:
        """Readers of whom one has to end before the next of a name may begin; the oldest first."""
        own = [each for each in self._readers if each.who == who]
        if len(own) >= self._share:
            return own
        return list(self._readers) if len(self._readers) >= self._count else []

    def _cut_off_one(self, readers: list[_Reader]) -> None:
        slow_since = time.monotonic() - self._turn_s
        for each in readers:
            if each in self._readers and not each.is_cut_off and each.began <= slow_since:
                each.is_cut_off = True
                each.cut_off()
                return


_log: Final = logging.getLogger(__name__)
_WORKERS: Final = 8
"""Messages that are read, and that are decoded, at a time."""
_THREADS: Final = 512
"""More than wait for their turn to be read, so that no call waits where turns are not shared."""
_MAX_CALLS: Final = 1000
COMMIT_S: Final = 60.0
_STREAMS: Final = 100
"""Calls of one connection at a time; its client keeps the others waiting."""
_HANDSHAKE_S: Final = 10.0
"""Seconds from a connection to its first frame: a place that is taken so long is nobody else's."""
_PING_S: Final = 60.0
_CODES: Final[dict[int, grpc.StatusCode]] = {each.value[0]: each for each in grpc.StatusCode}
_SERVICES: Final = {
    "opentelemetry.proto.collector.trace.v1.TraceService": Signal.TRACES,
    "opentelemetry.proto.collector.logs.v1.LogsService": Signal.LOGS,
    "opentelemetry.proto.collector.metrics.v1.MetricsService": Signal.METRICS,
}


class GrpcReceiver:
    """A gRPC server of its own threads.

    Args:
        listen: Address; port 0 takes a free one.
        ingest: The way in; its limits hold for every message.
        telemetry: Counts every request.
        gate: Lets callers in.
        tls: Key and certificate; None for none.
        max_connections: At a time; more are closed at once.
        keep_alive_s: Seconds after which a connection without a call is closed.

    Raises:
        ConfigError: The address cannot be listened on, or the key cannot be used.
    """

    def __init__(
        self,
        listen: HostPort,
        ingest: Intake,
        telemetry: IngestTelemetry,
        gate: Gate,
        tls: "Tls | None" = None,
        *,
        max_connections: int,
        keep_alive_s: float,
    ) -> None:
        self._ingest, self._telemetry, self._gate = ingest, telemetry, gate
        # Together the messages that are being read take no more than half of the memory.
        half = ingest.budget.limit // (2 * ingest.limits.max_body)
        self._slots = ReadSlots(max(1, min(_WORKERS, half)))
        self._decoders = threading.Semaphore(_WORKERS)
        self._server = grpc.server(
            ThreadPoolExecutor(_THREADS, thread_name_prefix="scouter-grpc"),
            maximum_concurrent_rpcs=_MAX_CALLS,
            options=[
                # gRPC holds what it decompresses to the same bound.
                ("grpc.max_receive_message_length", ingest.limits.max_body),
                ("grpc.so_reuseport", 0),
                *_bounds(max_connections, keep_alive_s),
            ],
        )
        handlers = [
            grpc.method_handlers_generic_handler(
                name, {"Export": grpc.stream_unary_rpc_method_handler(self._export(signal))}
            )
            for name, signal in _SERVICES.items()
        ]
        self._server.add_generic_rpc_handlers(handlers)
        try:
            if tls is None:
                port = self._server.add_insecure_port(str(listen))
            else:
                pair = tls.key.read_bytes(), tls.cert.read_bytes()
                credentials = grpc.ssl_server_credentials([pair])
                port = self._server.add_secure_port(str(listen), credentials)
        except RuntimeError as error:
            raise ConfigError(
                f"cannot listen on {listen} for gRPC: the address is in use or not of this "
                "machine; give another --grpc HOST:PORT, or --grpc off"
            ) from error
        self.listen = HostPort(listen.host, port)
        """Address on which the receiver listens."""

    def start(self) -> None:
        """Begin to serve."""
        self._server.start()

    def drain(self, grace_s: float) -> threading.Event:
        """Take no new requests, finish those in hand, and do not wait for it.

        Args:
            grace_s: Seconds after which the rest is cut off; nothing of it was acknowledged.

        Returns:
            Set once nothing is in hand; a second call ends as early as the first one.
        """
        return self._server.stop(grace_s)

    def _export(self, signal: Signal) -> "Callable[[Iterator[bytes], grpc.ServicerContext], bytes]":
        def export(messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            try:
                with self._telemetry.request("grpc", signal):
                    return self._take(signal, messages, context)
            except (ProblemError, DataError, TransientError) as error:
                _refuse(context, problem_of(error))
            except Exception as error:  # noqa: BLE001 a sender must not see what broke here
                _log.exception("gRPC %s failed", signal.value)
                _refuse(context, ProblemError(500, f"a fault: {error!r}"))

        return export

    def _take(
        self, signal: Signal, messages: Iterator[bytes], context: "grpc.ServicerContext"
    ) -> bytes:
        caller = self._caller(context)
        ingest = self._ingest.in_space(caller.space)
        with ingest.lease() as lease:
            with self._slots.slot(caller.token_id, context.cancel):
                data = self._read(messages, lease)
            with self._decoders:
                taken = take_otlp(self._telemetry, ingest, signal, data, "grpc")
            lease.keep_until(taken.futures)
            deadline = time.monotonic() + COMMIT_S
            try:
                for future in taken.futures:
                    future.result(deadline - time.monotonic())
                dropped = _dropped(context)
                if dropped:  # last: what is refused comes again, with the same counts
                    ingest.take_dropped(dropped).result(deadline - time.monotonic())
            except FutureTimeoutError as error:
                raise TransientError(f"no commit within {COMMIT_S:g} s", 5) from error
        return protobuf_answer(signal, taken.outcome.problems)

    def _caller(self, context: "grpc.ServicerContext") -> Caller:
        metadata: Any = context.invocation_metadata()
        tokens = [str(value) for key, value in metadata or () if key == "authorization"]
        if len(tokens) > 1:  # a proxy in front may go by the other one
            raise ProblemError(400, "Authorization is there twice")
        peer: str = context.peer()
        caller = self._gate.caller(
            tokens[0] if tokens else None,
            address_of(peer),
            is_forwarded=not OF_PROXIES.isdisjoint(key for key, _ in metadata or ()),
        )
        caller.check(Scope.INGEST)
        return caller

    def _read(self, messages: Iterator[bytes], lease: Lease) -> bytes:
        """Read the message once there is room for the largest one, as its size is not known."""
        largest = self._ingest.limits.max_body
        lease.take(largest)
        try:
            data = next(messages, None)
        except grpc.RpcError as error:
            raise DataError("the sender went away, or sent more than is taken") from error
        if data is None:
            raise DataError("a call without a message")
        lease.give_back(largest - len(data))
        return data


def _bounds(max_connections: int, keep_alive_s: float) -> "list[tuple[str, int]]":
    """Options that bound what one connection may hold, and how long it may stay idle.

    Pings are bounded by gRPC's own default. Source: `grpc/impl/channel_arg_names.h`.
    """
    idle_ms = round(keep_alive_s * 1000)
    return [
        ("grpc.max_allowed_incoming_connections", max_connections),
        ("grpc.server_handshake_timeout_ms", min(idle_ms, round(_HANDSHAKE_S * 1000))),
        ("grpc.max_connection_idle_ms", idle_ms),
        ("grpc.max_concurrent_streams", _STREAMS),
        # By default a stream may send megabytes before anybody has requested its message.
        ("grpc.http2.bdp_probe", 0),
        # Ends connections of machines that went away without a word, in the midst of a call.
        ("grpc.keepalive_time_ms", round(_PING_S * 1000)),
    ]


def address_of(peer: str) -> str:
    """The IP address in what gRPC calls a peer: `ipv4:127.0.0.1:40000`, `ipv6:%5B::1%5D:40000`."""
    _, _, rest = unquote(peer).partition(":")
    return rest.rpartition(":")[0].strip("[]")


def _dropped(context: "grpc.ServicerContext") -> Dropped:
    metadata: Any = context.invocation_metadata()
    values = (str(value) for key, value in metadata or () if key == DROPPED_HEADER)
    return merge_dropped(values)


def _refuse(context: "grpc.ServicerContext", problem: ProblemError) -> NoReturn:
    """End a call; where it may be retried, say after how long in both forms that clients read."""
    message = problem.detail.encode("utf-8", "replace").decode()[:2000]
    status = Status(code=kind_of(problem.status).grpc_code, message=message)
    trailing: list[tuple[str, bytes]] = []
    if problem.retry_after_s is not None:
        info = RetryInfo()
        info.retry_delay.FromSeconds(problem.retry_after_s)
        detail = AnyMessage()
        detail.Pack(info)
        status.details.append(detail)
        trailing.append(("google.rpc.retryinfo-bin", info.SerializeToString()))
    trailing.append(("grpc-status-details-bin", status.SerializeToString()))
    context.set_trailing_metadata(tuple(trailing))
    context.abort(_CODES[status.code], message)
    raise AssertionError  # abort raises
