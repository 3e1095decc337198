"""Settings of the transports to any OTLP endpoint."""

from typing import ClassVar

from pydantic import Field, SecretStr

from scouter.transport.config import DEFAULT_SERVER_URI, RemoteConfig
from scouter.transport.credentials import Headers, Token, WebAddress, env_secret, env_text
from scouter.transport.original import GRPC, OriginalArguments
from scouter.transport.port import RemoteTransport


class OtlpConfig(RemoteConfig):
    """Spans as OTLP traces and records as OTLP logs over HTTP, to any OTLP endpoint."""

    endpoint: WebAddress = Field(
        default_factory=lambda: env_text("OTEL_EXPORTER_OTLP_ENDPOINT") or DEFAULT_SERVER_URI
    )
    """Base address, without credentials; `/v1/traces` and `/v1/logs` are added. Environment:
    OTEL_EXPORTER_OTLP_ENDPOINT."""
    headers: Headers = Field(default_factory=dict[str, SecretStr], repr=False)
    """Sent with each request."""
    auth_token: Token | None = Field(
        default_factory=lambda: env_secret("SCOUTER_AUTH_TOKEN"), repr=False
    )
    """Sent as a bearer token. Environment: SCOUTER_AUTH_TOKEN."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for one answer."""

    def prepare(self) -> None:
        """Import the HTTP client."""
        from scouter.transport.otlp.http import prepare

        prepare()

    def connect(self) -> RemoteTransport:
        """Open a connection pool; the first request connects."""
        from scouter.transport.otlp.http import OtlpHttpTransport

        return OtlpHttpTransport(self)


class GrpcConfig(RemoteConfig):
    """Spans as OTLP traces and records as OTLP logs over gRPC; needs the extra `otlp`."""

    original: ClassVar[OriginalArguments] = GRPC

    server_uri: WebAddress = Field(
        default_factory=lambda: env_text("SCOUTER_GRPC_URI") or "http://127.0.0.1:4317"
    )
    """`http://HOST:PORT`, or `https://…` for TLS; no credentials. Environment: SCOUTER_GRPC_URI."""
    headers: Headers = Field(default_factory=dict[str, SecretStr], repr=False)
    """Metadata sent with each call."""
    auth_token: Token | None = Field(
        default_factory=lambda: env_secret("SCOUTER_AUTH_TOKEN"), repr=False
    )
    """Sent as a bearer token. Environment: SCOUTER_AUTH_TOKEN."""
    ssl_cafile: str | None = None
    """PEM file of the authority that signed the server's certificate; the system's by default."""
    timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for one answer."""

    def prepare(self) -> None:
        """Import the gRPC client."""
        from scouter.transport.otlp.grpc import OtlpGrpcTransport

        _ = OtlpGrpcTransport

    def connect(self) -> RemoteTransport:
        """Open a channel; the first call connects."""
        from scouter.transport.otlp.grpc import OtlpGrpcTransport

        return OtlpGrpcTransport(self)
