"""Settings of transports; each opens a transport."""

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, SecretStr

from scouter.transport.credentials import Token, WebAddress, env_secret, env_text
from scouter.transport.original import HTTP, KAFKA, OriginalArguments
from scouter.transport.port import RemoteTransport, Transport
from scouter.transport.spool.config import SpoolConfig

DEFAULT_SERVER_URI = "http://127.0.0.1:4318"


class TransportConfig(BaseModel, ABC):
    """Base of all transport settings; making one opens nothing.

    Values from the environment are validated as arguments are, and no error shows a value.
    """

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


class RemoteConfig(TransportConfig):
    """Base of the settings of all transports whose far side may be away."""

    original: ClassVar[OriginalArguments] = OriginalArguments(order=())

    spool: SpoolConfig | None = None
    """Spool on disk for data that the far side cannot take now; None keeps no data on disk."""

    if not TYPE_CHECKING:  # to a type checker the arguments are the fields

        def __init__(self, *args: object, **fields: object) -> None:
            super().__init__(**self.original.read(type(self), args, fields))

    def open(self) -> Transport:
        """Connect; with a spool, at the first batch."""
        from scouter.transport.halving import HalvingTransport

        if self.spool is None:
            return HalvingTransport(self.connect())
        from scouter.transport.spool.spool import SpoolTransport

        return SpoolTransport(lambda: HalvingTransport(self.connect()), self.spool)

    @abstractmethod
    def connect(self) -> RemoteTransport:
        """Connect, without the spool; raises as `open` does."""


class MockConfig(TransportConfig):
    """Takes everything and drops it; for offline evaluation and tests.

    Any keyword is accepted and ignored, so that it can stand in for every other configuration.
    """

    model_config = ConfigDict(frozen=True, extra="allow", defer_build=True)

    def open(self) -> Transport:
        """Open a transport that only counts."""
        from scouter.transport.mock import MockTransport

        return MockTransport()


class HttpConfig(RemoteConfig):
    """Records as JSON and spans as OTLP protobuf over HTTP, to a collector."""

    original: ClassVar[OriginalArguments] = HTTP

    server_uri: WebAddress = Field(
        default_factory=lambda: (
            env_text("SCOUTER_URL") or env_text("SCOUTER_SERVER_URI") or DEFAULT_SERVER_URI
        )
    )
    """Base address, without credentials; `/v1/records` and `/v1/traces` are added. Environment:
    SCOUTER_URL, as for commands and the client; the original's SCOUTER_SERVER_URI is read too."""
    auth_token: Token | None = Field(
        default_factory=lambda: env_secret("SCOUTER_AUTH_TOKEN"), repr=False
    )
    """Sent as a bearer token. Environment: SCOUTER_AUTH_TOKEN."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for one answer."""

    def prepare(self) -> None:
        """Import the HTTP client."""
        from scouter.transport.http.transport import load_client

        load_client()

    def connect(self) -> RemoteTransport:
        """Open a connection pool; the first request connects."""
        from scouter.transport.http.transport import HttpTransport

        return HttpTransport(self)


class KafkaConfig(RemoteConfig):
    """Records and spans over Apache Kafka; needs the extra `kafka`."""

    original: ClassVar[OriginalArguments] = KAFKA

    brokers: str = Field(
        default_factory=lambda: env_text("KAFKA_BROKERS") or "localhost:9092", min_length=1
    )
    """Bootstrap addresses, separated by commas. Environment: KAFKA_BROKERS."""
    records_topic: str = Field(default="scouter.records", min_length=1)
    spans_topic: str = Field(default="scouter.spans", min_length=1)
    username: str | None = Field(default_factory=lambda: env_text("KAFKA_USERNAME"))
    """SASL user. Environment: KAFKA_USERNAME."""
    password: SecretStr | None = Field(
        default_factory=lambda: env_secret("KAFKA_PASSWORD"), repr=False
    )
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

    def prepare(self) -> None:
        """Import the Kafka client."""
        from scouter.transport.kafka.transport import KafkaTransport

        _ = KafkaTransport

    def connect(self) -> RemoteTransport:
        """Connect a producer."""
        from scouter.transport.kafka.transport import KafkaTransport

        return KafkaTransport(self)
