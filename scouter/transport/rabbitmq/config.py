"""Settings of the transport over RabbitMQ."""

from collections.abc import Mapping
from typing import Annotated, ClassVar, Final, Self, cast
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, StringConstraints, model_validator

from scouter.transport.config import RemoteConfig
from scouter.transport.credentials import env_secret, env_text
from scouter.transport.original import RABBITMQ, OriginalArguments
from scouter.transport.port import RemoteTransport

_GUEST: Final = "guest"
_HERE: Final = ("localhost", "127.0.0.1", "::1")


class RabbitMQConfig(RemoteConfig):
    """Records and spans over RabbitMQ; needs the extra `rabbitmq`.

    Without a user it is the server's own `guest`, whom a server lets in from its machine only.

    A batch is taken once the server confirms that it has it on disk. Queues that are not there are
    made, durable.
    """

    original: ClassVar[OriginalArguments] = RABBITMQ

    address: Annotated[str, StringConstraints(pattern=r"^amqps?://[^@\s/]+(/[^\s]*)?$")] = Field(
        default_factory=lambda: env_text("RABBITMQ_ADDR") or "amqp://localhost:5672"
    )
    """`amqp://HOST:PORT/VHOST`, or `amqps://…` for TLS; no credentials. Environment:
    RABBITMQ_ADDR."""
    username: str = Field(default_factory=lambda: env_text("RABBITMQ_USERNAME") or _GUEST)
    """Environment: RABBITMQ_USERNAME."""
    password: SecretStr = Field(
        default_factory=lambda: env_secret("RABBITMQ_PASSWORD") or SecretStr(_GUEST), repr=False
    )
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
        if is_guest and host not in _HERE:
            raise ValueError(
                f"{host}: RabbitMQ lets the user guest in from its own machine only; set "
                "RABBITMQ_USERNAME and RABBITMQ_PASSWORD, or username= and password="
            )
        return self

    def prepare(self) -> None:
        """Import the RabbitMQ client."""
        from scouter.transport.rabbitmq.transport import RabbitMQTransport

        _ = RabbitMQTransport

    def connect(self) -> RemoteTransport:
        """Make a transport; the first batch connects."""
        from scouter.transport.rabbitmq.transport import RabbitMQTransport

        return RabbitMQTransport(self)
