"""Settings of the transport over Redis Streams."""

from typing import Annotated, ClassVar

from pydantic import Field, SecretStr, StringConstraints

from scouter.transport.config import RemoteConfig
from scouter.transport.credentials import env_secret, env_text
from scouter.transport.original import REDIS, OriginalArguments
from scouter.transport.port import RemoteTransport


class RedisConfig(RemoteConfig):
    """Records and spans over Redis Streams; needs the extra `redis`.

    A batch is taken once Redis has appended it. The settings of Redis (`appendonly yes`,
    `appendfsync always`) decide whether the batch survives a crash of Redis itself.
    """

    original: ClassVar[OriginalArguments] = REDIS

    address: Annotated[str, StringConstraints(pattern=r"^(redis|rediss|unix)://[^@\s]+$")] = Field(
        default_factory=lambda: env_text("REDIS_ADDR") or "redis://localhost:6379"
    )
    """`redis://HOST:PORT/DB`, `rediss://…` for TLS or `unix://PATH`; no credentials.
    Environment: REDIS_ADDR."""
    username: str | None = Field(default_factory=lambda: env_text("REDIS_USERNAME"))
    """Environment: REDIS_USERNAME."""
    password: SecretStr | None = Field(
        default_factory=lambda: env_secret("REDIS_PASSWORD"), repr=False
    )
    """Environment: REDIS_PASSWORD."""
    ssl_cafile: str | None = None
    """PEM file of the authority that signed the server's certificate; the system's by default."""
    records_stream: str = Field(default="scouter.records", min_length=1)
    spans_stream: str = Field(default="scouter.spans", min_length=1)
    timeout_s: float = Field(default=10.0, gt=0)
    """Longest wait for one answer."""

    def prepare(self) -> None:
        """Import the Redis client."""
        from scouter.transport.redis.transport import RedisTransport

        _ = RedisTransport

    def connect(self) -> RemoteTransport:
        """Open a connection; the first batch connects."""
        from scouter.transport.redis.transport import RedisTransport

        return RedisTransport(self)
