"""Records and spans over Redis Streams; needs the extra `redis`.

An entry holds one batch under `data`: the body of `POST /v1/records`, or an OTLP
`ExportTraceServiceRequest`; and what was dropped under `scouter-dropped`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from scouter.errors import ConfigError, DataError, ScouterError, TransientError
from scouter.transport.drops import DROPPED_HEADER, NONE_DROPPED, Dropped, dropped_text
from scouter.transport.otlp import OtlpSpans
from scouter.transport.port import RecordItem, encode_records

if TYPE_CHECKING:
    from scouter.transport.config import RedisConfig


try:
    from redis import Redis, exceptions
    from redis.backoff import NoBackoff
    from redis.retry import Retry
except ImportError as missing:
    raise ConfigError(
        "RedisConfig needs a client: pip install 'scouter-agents[redis]'"
    ) from missing


DATA_FIELD: Final = "data"


class RedisTransport(OtlpSpans):
    """A connection to one Redis server.

    Args:
        config: Address, credentials, streams.

    Raises:
        ConfigError: The address cannot be read.
    """

    def __init__(self, config: "RedisConfig") -> None:
        self._config = config
        secret = config.password.get_secret_value() if config.password else None
        self._client = open_client(
            config.address, config.username, secret, config.ssl_cafile, config.timeout_s
        )

    def send_records(self, items: Sequence[RecordItem], dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver records in one entry; see `Transport`."""
        data, unencodable = encode_records(items)
        self._add(self._config.records_stream, data, dropped)
        return unencodable

    def send_otlp(self, data: bytes, count: int, dropped: Dropped = NONE_DROPPED) -> int:
        """Deliver spans in one entry; see `Transport`."""
        self._add(self._config.spans_stream, data, dropped)
        return 0

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    def _add(self, stream: str, data: bytes, dropped: Dropped) -> None:
        entry: dict[str, Any] = {DATA_FIELD: data}
        if dropped:
            entry[DROPPED_HEADER] = dropped_text(dropped)
        try:
            self._client.xadd(stream, entry)
        except exceptions.RedisError as error:
            raise sorted_error(f"stream {stream!r} on {self._config.address}", error) from error


def open_client(
    address: str,
    username: str | None,
    password: str | None,
    ssl_cafile: str | None,
    timeout_s: float,
) -> Any:  # noqa: ANN401 - its methods are typed for both of its kinds, synchronous and not
    """Make a client that tries each command once; nothing is connected.

    Raises:
        ConfigError: The address cannot be read.
    """
    tls = {"ssl_ca_certs": ssl_cafile} if address.startswith("rediss:") and ssl_cafile else {}
    try:
        return Redis.from_url(
            address,
            username=username,
            password=password,
            socket_timeout=timeout_s,
            socket_connect_timeout=timeout_s,
            retry=Retry(NoBackoff(), 0),
            client_name="scouter",
            protocol=2,  # its answers have one shape in all versions of the client
            **tls,
        )
    except ValueError as error:
        raise ConfigError(f"Redis address {address!r}: {error}") from error


def sorted_error(where: str, error: exceptions.RedisError) -> ScouterError:
    """Redis' error as ours: try again, fix the settings, or give this batch up."""
    said = f"{where}: {type(error).__name__}: {error}"
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError):
        return ConfigError(said)
    if isinstance(error, _LATER):
        return TransientError(said)
    if isinstance(error, exceptions.ResponseError):
        if str(error).startswith(_LATER_WORDS):
            return TransientError(said)
        return ConfigError(said)  # such as a stream's name that is a list already
    return DataError(said)


_LATER: Final = (
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.OutOfMemoryError,
    exceptions.ReadOnlyError,
    exceptions.TryAgainError,
    exceptions.ClusterDownError,
)
_LATER_WORDS: Final = ("MISCONF", "NOREPLICAS", "LOADING", "OOM", "MASTERDOWN")
"""The disk is full, replicas are missing, data is being loaded, memory is full."""
