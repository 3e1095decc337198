"""Settings of transports, of the queue in front of them and of the spool behind them.

Values from the environment are validated as arguments are, and no error shows a value: an HTTP
client shows unsendable headers in its error, and the address in all its errors. So both are checked
here, before a secret in them can reach a log.

The arguments of the original's configurations are read as ours. Those that have another name here
are renamed. Those that mean nothing here are left out, with one warning each in a process that says
what to do instead.
"""

import os
import re
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self, cast
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    JsonValue,
    SecretStr,
    StringConstraints,
    model_validator,
)

from scouter.model.positional import by_position
from scouter.transport.guard import GUARD
from scouter.transport.port import MockTransport, RemoteTransport, Transport
from scouter.transport.worker import WorkerLimits

if TYPE_CHECKING:
    from scouter.transport.spool_table import SpoolStats

DEFAULT_SERVER_URI = "http://127.0.0.1:4318"
_TOKEN: Final = re.compile(r"[!-~]+")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"([!-~]([ -~]*[!-~])?)?")
_GUEST: Final = "guest"
_NO_USERS: Final = (
    "a collector knows tokens and no users; pass auth_token=, or set SCOUTER_AUTH_TOKEN"
)
_RETRIES: Final = "a batch that fails for now is sent again for 300 s; spool= keeps it for longer"
_HTTP2: Final = "the channel sees by itself to staying connected; timeout_s= bounds each call"
_STREAMS: Final = (
    "records and spans go to streams, which keep them; pass records_stream= and spans_stream="
)


def env_text(name: str) -> str | None:
    """A text of the environment without the white space around it, None where it is not set."""
    return os.environ.get(name, "").strip() or None


def _env(*names: str, default: str | None = None, **constraints: Any) -> Any:  # noqa: ANN401 - as Field
    """A field whose default is the first of these variables that is set."""
    return Field(
        default_factory=lambda: next(filter(None, map(env_text, names)), default), **constraints
    )


def _env_secret(name: str, default: str | None = None) -> Any:  # noqa: ANN401 - as Field
    """A field for a secret; one that came from a file often ends with a line break."""

    def read() -> SecretStr | None:
        text = env_text(name) or default
        return None if text is None else SecretStr(text)

    return Field(default_factory=read, repr=False)


def _checked_token(token: SecretStr) -> SecretStr:
    if not _TOKEN.fullmatch(token.get_secret_value()):
        raise ValueError("the token has letters that no token has; was all of it copied?")
    return token


def _checked_headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError("the name of a header has letters that none has")
        if not _HEADER_VALUE.fullmatch(value.get_secret_value()):
            raise ValueError(
                f"the value of {name!r} cannot be sent: it has a line break, a blank at an end, "
                "or what is not ASCII"
            )
    return headers


WebAddress = Annotated[str, StringConstraints(pattern=r"^https?://[^@/\s]+(/[^@\s]*)?$")]
"""`http://HOST:PORT` or `https://…`, perhaps with a path; no credentials."""
Token = Annotated[SecretStr, AfterValidator(_checked_token)]
"""A bearer token: visible ASCII."""
Headers = Annotated[dict[str, SecretStr], AfterValidator(_checked_headers)]
"""Headers that HTTP and gRPC can send.

Source: RFC 9110, sections 5.1 and 5.5; of values what gRPC takes, too.
"""


class BatchConfig(BaseModel):
    """Bounds of the span queue; the names are OpenTelemetry's.

    Args:
        max_queue_size: Spans that may wait, of any size; not bounded by number if not given.
        scheduled_delay_ms: A span is sent after this time at the latest.
        max_export_batch_size: Spans in one request.
        max_queue_bytes: Estimated size of all that may wait; beyond it the newest is dropped and
            counted. 64 MiB are about 16,000 spans of ten attributes. Up to 64 spans
            that end within 10 ms may wait beside to be measured.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    max_queue_size: int | None = Field(default=None, gt=0)
    scheduled_delay_ms: int = Field(default=1_000, gt=0)
    max_export_batch_size: int = Field(default=512, gt=0)
    max_queue_bytes: int = Field(default=64 * 1024 * 1024, gt=0)

    if not TYPE_CHECKING:  # whoever checks types sees the fields

        def __init__(self, *args: object, **fields: object) -> None:
            super().__init__(
                **by_position(type(self), tuple(type(self).model_fields), args, fields)
            )

    def limits(self) -> WorkerLimits:
        """The same for the worker."""
        most = sys.maxsize if self.max_queue_size is None else self.max_queue_size
        return WorkerLimits(
            max_items=most,
            max_bytes=self.max_queue_bytes,
            max_batch_items=min(self.max_export_batch_size, most),
            delay_s=self.scheduled_delay_ms / 1000,
        )


class SpoolConfig(BaseModel):
    """A folder on disk behind a transport: `HttpConfig(spool=SpoolConfig(folder="spool"))`.

    Batches that the far side cannot take go there and are delivered when it is back, also by the
    next process after a crash. Processes may share the folder if all send to one far side. Files
    are readable by their owner only. A killed process loses nothing that was written; a machine
    that loses its power may lose the last seconds.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    folder: Path
    """Made if it is not there; nobody else may be able to write to it. Other files in it stay."""
    max_bytes: int = Field(default=256 * 1024 * 1024, ge=65_536)
    """Bound of what waits; the oldest is dropped for what is new, and counted. Beside it SQLite's
    log may take 4 MiB; a damaged file stays there, and is as large."""

    def stats(self) -> "SpoolStats":
        """Count the items that this process has put into the spool, and those that wait there now.

        Raises:
            TransientError: The file cannot be read.

        Cost: linear in the records and requests that wait.
        """
        from scouter.transport.spool_table import counts_of, waiting_in

        return counts_of(self.folder).stats(*waiting_in(self.folder))


class TransportConfig(BaseModel, ABC):
    """Base of all transport settings; making one opens nothing."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        defer_build=True,
        validate_default=True,
        hide_input_in_errors=True,
    )

    def prepare(self) -> None:
        """Import what `open` needs, on the thread that sets Scouter up.

        A background thread must not do it: a process that forks meanwhile would leave its
        children with half a module.

        Raises:
            ConfigError: A library is not installed.
        """

    @abstractmethod
    def open(self) -> Transport:
        """Connect.

        Raises:
            ConfigError: The settings can never work, or a library is not installed.
            TransientError: The far side is away for now.
        """


class MockConfig(TransportConfig):
    """Takes everything and drops it; for offline evaluation and tests.

    Any keyword is accepted and ignored, so that it can stand in for every other configuration.
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    def open(self) -> Transport:
        """Open a transport that only counts."""
        return MockTransport()


class RemoteConfig(TransportConfig):
    """Base of the settings of all transports whose far side may be away."""

    transport: ClassVar[tuple[str, str]]
    """Module and class of the transport: imported late, as a client's library takes a while."""
    original: ClassVar[Sequence[str]] = ()
    """All arguments of the original's configuration, as they may be given by position."""
    renamed: ClassVar[Mapping[str, tuple[str, float]]] = {}
    """By its name, ours, and how much of our unit its unit is."""
    unused: ClassVar[Mapping[str, str]] = {}
    """By the name of one that means nothing here, why, and what to do instead."""
    may_be_none: ClassVar[Sequence[str]] = ()
    """Those in which None says something."""

    spool: SpoolConfig | None = None
    """Spool on disk for data that the far side cannot take now; None keeps no data on disk."""

    if not TYPE_CHECKING:  # to a type checker the arguments are the fields

        def __init__(self, *args: object, **fields: object) -> None:
            super().__init__(**self._fields_of(args, fields))

    @classmethod
    def _fields_of(cls, args: Sequence[Any], fields: Mapping[str, Any]) -> dict[str, Any]:
        """Make our fields of arguments in either form, ours or the original's."""
        if len(args) > len(cls.original):
            raise TypeError(f"{cls.__name__} takes {', '.join(cls.original)}; got {len(args)}")
        found: dict[str, Any] = {}
        for name, value in (*zip(cls.original, args, strict=False), *fields.items()):
            if value is None and name in cls.original and name not in cls.may_be_none:
                continue  # the original's default: as if it were not given
            if name in cls.unused:
                text = f"{cls.__name__}({name}=…) does nothing: {cls.unused[name]}"
                GUARD.warn(cls.__name__, name, text)
                continue
            ours, share = cls.renamed.get(name, (name, 1))
            if ours in found:
                raise TypeError(f"{cls.__name__} got {name!r} twice")
            found[ours] = value
            if value is not None and name in cls.renamed:
                found[ours] = value * share
        return found

    def prepare(self) -> None:
        """Import the client."""
        self._transport().prepare()

    def open(self) -> Transport:
        """Connect; with a spool, at the first batch."""
        from scouter.transport.halving import HalvingTransport

        if self.spool is None:
            return HalvingTransport(self.connect())
        from scouter.transport.spool import SpoolTransport

        spool = self.spool
        return SpoolTransport(
            lambda: HalvingTransport(self.connect()), spool.folder, spool.max_bytes
        )

    def connect(self) -> RemoteTransport:
        """Connect, without the spool; raises as `open` does."""
        return self._transport()(self)

    def _transport(self) -> Any:  # noqa: ANN401 - a subclass of `OtlpSpans`
        module, name = self.transport
        return getattr(import_module(module), name)


class HttpConfig(RemoteConfig):
    """Records as JSON and spans as OTLP protobuf over HTTP, to a collector."""

    transport = ("scouter.transport.http", "HttpTransport")
    original = ("server_uri", "username", "password", "auth_token")
    unused = {"username": _NO_USERS, "password": _NO_USERS}

    server_uri: WebAddress = _env("SCOUTER_URL", "SCOUTER_SERVER_URI", default=DEFAULT_SERVER_URI)
    """Base address, without credentials; `/v1/records` and `/v1/traces` are added. Environment:
    SCOUTER_URL, as for commands and the client; the original's SCOUTER_SERVER_URI is read too."""
    auth_token: Token | None = _env_secret("SCOUTER_AUTH_TOKEN")
    """Sent as a bearer token. Environment: SCOUTER_AUTH_TOKEN."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for one answer."""


class OtlpConfig(RemoteConfig):
    """Spans as OTLP traces and records as OTLP logs over HTTP, to any OTLP endpoint."""

    transport = ("scouter.transport.http", "OtlpHttpTransport")

    endpoint: WebAddress = _env("OTEL_EXPORTER_OTLP_ENDPOINT", default=DEFAULT_SERVER_URI)
    """Base address, without credentials; `/v1/traces` and `/v1/logs` are added. Environment:
    OTEL_EXPORTER_OTLP_ENDPOINT."""
    headers: Headers = Field(default_factory=dict[str, SecretStr], repr=False)
    """Sent with each request."""
    auth_token: Token | None = _env_secret("SCOUTER_AUTH_TOKEN")
    """Sent as a bearer token. Environment: SCOUTER_AUTH_TOKEN."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for one answer."""


class GrpcConfig(RemoteConfig):
    """Spans as OTLP traces and records as OTLP logs over gRPC; needs the extra `otlp`."""

    transport = ("scouter.transport.grpc", "OtlpGrpcTransport")
    original = (
        "server_uri", "username", "password", "timeout_secs", "connect_timeout_secs",
        "keep_alive_interval_secs", "keep_alive_timeout_secs", "keep_alive_while_idle",
    )  # fmt: skip
    renamed = {"timeout_secs": ("timeout_s", 1)}
    unused = {
        "username": _NO_USERS, "password": _NO_USERS, **dict.fromkeys(original[4:], _HTTP2)
    }  # fmt: skip

    server_uri: WebAddress = _env("SCOUTER_GRPC_URI", default="http://127.0.0.1:4317")
    """`http://HOST:PORT`, or `https://…` for TLS; no credentials. Environment: SCOUTER_GRPC_URI."""
    headers: Headers = Field(default_factory=dict[str, SecretStr], repr=False)
    """Metadata sent with each call."""
    auth_token: Token | None = _env_secret("SCOUTER_AUTH_TOKEN")
    """Sent as a bearer token. Environment: SCOUTER_AUTH_TOKEN."""
    ssl_cafile: str | None = None
    """PEM file of the authority that signed the server's certificate; the system's by default."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for one answer."""


class KafkaConfig(RemoteConfig):
    """Records and spans over Apache Kafka; needs the extra `kafka`."""

    transport = ("scouter.transport.kafka", "KafkaTransport")
    original = (
        "username", "password", "brokers", "topic", "compression_type", "message_timeout_ms",
        "message_max_bytes", "log_level", "config", "max_retries",
    )  # fmt: skip
    renamed = {
        "message_timeout_ms": ("timeout_s", 0.001),
        "message_max_bytes": ("max_message_bytes", 1),
    }
    unused = {
        "topic": "records and spans have a topic each; pass records_topic= and spans_topic=",
        "log_level": "set the level of the logger `kafka`",
        "max_retries": _RETRIES,
    }
    may_be_none = ("compression_type",)

    brokers: str = _env("KAFKA_BROKERS", default="localhost:9092", min_length=1)
    """Bootstrap addresses, separated by commas. Environment: KAFKA_BROKERS."""
    records_topic: str = Field(default="scouter.records", min_length=1)
    spans_topic: str = Field(default="scouter.spans", min_length=1)
    username: str | None = _env("KAFKA_USERNAME")
    """SASL user. Environment: KAFKA_USERNAME."""
    password: SecretStr | None = _env_secret("KAFKA_PASSWORD")
    """SASL password. Environment: KAFKA_PASSWORD."""
    sasl_mechanism: str = "PLAIN"
    """Used when a user name is given: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512."""
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] | None = None
    """By default SASL_SSL with a user name, SSL with a CA file, else PLAINTEXT."""
    ssl_cafile: str | None = None
    compression_type: Literal["zstd", "lz4", "gzip"] | None = "zstd"
    timeout_s: float = Field(default=30.0, gt=0)
    """Longest wait for the delivery of one batch."""
    max_message_bytes: int = Field(default=900_000, gt=0)
    """A trace's spans are split over several messages above this size."""
    config: dict[str, JsonValue] = Field(default_factory=dict)
    """Further settings of `kafka.KafkaProducer`, by its names; they win over all the others."""


class RedisConfig(RemoteConfig):
    """Records and spans over Redis Streams; needs the extra `redis`.

    A batch is taken once Redis has appended it. The settings of Redis (`appendonly yes`,
    `appendfsync always`) decide whether the batch survives a crash of Redis itself.
    """

    transport = ("scouter.transport.redis", "RedisTransport")
    original = ("address", "chanel")  # so it is spelt there
    unused = {"chanel": _STREAMS, "channel": _STREAMS}

    address: Annotated[str, StringConstraints(pattern=r"^(redis|rediss|unix)://[^@\s]+$")] = _env(
        "REDIS_ADDR", default="redis://localhost:6379"
    )
    """`redis://HOST:PORT/DB`, `rediss://…` for TLS or `unix://PATH`; no credentials.
    Environment: REDIS_ADDR."""
    username: str | None = _env("REDIS_USERNAME")
    """Environment: REDIS_USERNAME."""
    password: SecretStr | None = _env_secret("REDIS_PASSWORD")
    """Environment: REDIS_PASSWORD."""
    ssl_cafile: str | None = None
    """PEM file of the authority that signed the server's certificate; the system's by default."""
    records_stream: str = Field(default="scouter.records", min_length=1)
    spans_stream: str = Field(default="scouter.spans", min_length=1)
    timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for one answer."""


class RabbitMQConfig(RemoteConfig):
    """Records and spans over RabbitMQ; needs the extra `rabbitmq`.

    Without a user it is the server's own `guest`, whom a server lets in from its machine only.

    A batch is taken once the server confirms that it has it on disk. Queues that are not there are
    made, durable.
    """

    transport = ("scouter.transport.rabbitmq", "RabbitMQTransport")
    original = ("host", "port", "username", "password", "queue", "max_retries")
    unused = {
        "queue": "records and spans have a queue each; pass records_queue= and spans_queue=",
        "max_retries": _RETRIES,
    }

    address: Annotated[str, StringConstraints(pattern=r"^amqps?://[^@\s/]+(/[^\s]*)?$")] = _env(
        "RABBITMQ_ADDR", default="amqp://localhost:5672"
    )
    """`amqp://HOST:PORT/VHOST`, or `amqps://…` for TLS; no credentials. Environment:
    RABBITMQ_ADDR."""
    username: str = _env("RABBITMQ_USERNAME", default=_GUEST)
    """Environment: RABBITMQ_USERNAME."""
    password: SecretStr = _env_secret("RABBITMQ_PASSWORD", default=_GUEST)
    """Environment: RABBITMQ_PASSWORD."""
    ssl_cafile: str | None = None
    """PEM file of the authority that signed the server's certificate; the system's by default."""
    records_queue: str = Field(default="scouter.records", min_length=1)
    spans_queue: str = Field(default="scouter.spans", min_length=1)
    timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for a connection, and for any sign of life of the server afterwards."""

    @model_validator(mode="before")
    @classmethod
    def _address_of_host_and_port(cls, data: object) -> object:
        fields = dict(cast("Mapping[str, object]", data)) if isinstance(data, Mapping) else {}
        if not {"host", "port"} & fields.keys():
            return cast("object", data)
        host, port = fields.pop("host", "localhost"), fields.pop("port", 5672)
        if "address" in fields:
            raise ValueError("address says host and port already; leave out the others")
        name = f"[{host}]" if ":" in str(host) else host
        return {**fields, "address": f"amqp://{name}:{port}"}

    @model_validator(mode="after")
    def _has_a_user(self) -> Self:
        is_guest = self.password.get_secret_value() == self.username == _GUEST
        host = urlsplit(self.address).hostname
        if is_guest and host not in ("localhost", "127.0.0.1", "::1"):
            raise ValueError(
                f"{host}: RabbitMQ lets the user guest in from its own machine only; set "
                "RABBITMQ_USERNAME and RABBITMQ_PASSWORD, or username= and password="
            )
        return self


class InProcessConfig(RemoteConfig):
    """Hands records and spans to a function of the same process, such as an embedded collector's.

    In `InProcessConfig(sink=take)`, `take(batch)` is a `Sink` of `scouter.transport.in_process`.
    """

    transport = ("scouter.transport.in_process", "InProcessTransport")

    sink: Callable[[Any], int | None]
    """Takes a `Batch` for good; returns how many of its items it refused, None for none."""
