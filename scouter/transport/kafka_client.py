"""Clients of Kafka: connecting them, and the partition of a key."""

import logging
import socket
import ssl
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from kafka import errors

_LOGGER: Final = "kafka.net.manager"
_TIMEOUT_S: Final = 3.0
_CHECK_USER: Final = "check user name, password and mechanism"


@contextmanager
def _bootstrap_faults() -> Generator[list[Exception]]:
    """Collect what the client logs while it connects; another client's faults may be among it."""
    faults: list[Exception] = []

    def note(record: logging.LogRecord) -> bool:
        if isinstance(record.args, tuple):
            faults.extend(each for each in record.args if isinstance(each, Exception))
        return True

    logger = logging.getLogger(_LOGGER)
    logger.addFilter(note)
    try:
        yield faults
    finally:
        logger.removeFilter(note)


def connect(
    kind: Any,  # noqa: ANN401 - untyped client
    settings: Mapping[str, Any],
) -> Any:  # noqa: ANN401
    """Make a producer or consumer.

    Args:
        kind: Its class.
        settings: By the client's names.

    Raises:
        KafkaError: No broker let it in. Its notes say why, where that is known: the client writes
            it into its log and raises "unable to bootstrap".
    """
    make_client = settings.get("kafka_client") or kind.DEFAULT_CONFIG["kafka_client"]
    clients: list[Any] = []

    def remember(**kwargs: object) -> object:
        clients.append(make_client(**kwargs))
        return clients[-1]

    faults: list[Exception] = []
    try:
        with _bootstrap_faults() as faults:
            return kind(**{**settings, "kafka_client": remember})
    except BaseException as error:
        for client in clients:
            # One that fails to start leaves its client's sockets open, one set per try.
            client.close()
        if isinstance(error, errors.KafkaError):
            error.add_note(_why_not_in(settings, faults))
        raise


def notes_of(error: BaseException) -> str:
    """Text of the notes that `connect` added to an error; empty without notes."""
    return "".join(getattr(error, "__notes__", ()))


def _why_not_in(settings: Mapping[str, Any], faults: list[Exception]) -> str:
    """Say in words why the brokers could not be reached.

    Args:
        settings: Those of the client; credentials are not looked at.
        faults: From `_bootstrap_faults`.

    Returns:
        A sentence to put after the client's own; empty if nothing more is known.
    """
    for fault in faults:
        if isinstance(fault, errors.SaslAuthenticationFailedError):
            return f"; {fault}: {_CHECK_USER}"
    protocol, address = str(settings.get("security_protocol")), settings["bootstrap_servers"][0]
    problem = _problem_on_the_way(address, settings.get("ssl_cafile"), is_tls="SSL" in protocol)
    if problem or "SASL" not in protocol:
        return problem
    # A broker that refuses a user hangs up; the client mostly sees no more than that.
    return f"; {address} answers, but does not let us in: {_CHECK_USER}"


def _problem_on_the_way(address: str, ca_file: str | None, *, is_tls: bool) -> str:
    host, _, port = address.rpartition(":")
    host = host.strip("[]")
    try:
        with socket.create_connection((host, int(port)), _TIMEOUT_S) as plain:
            if is_tls:
                context = ssl.create_default_context(cafile=ca_file)
                context.wrap_socket(plain, server_hostname=host).close()
        return ""
    except ssl.SSLError as error:
        return f"; TLS: {error}: check the security protocol and the CA file"
    except (OSError, ValueError) as error:
        return f"; {error}"


_OFFSET_BASIS: Final = 0x811C9DC5
_PRIME: Final = 0x01000193


def fnv1a_32(data: bytes) -> int:
    """The 32-bit FNV-1a hash.

    Args:
        data: Any bytes.

    Returns:
        A number in [0, 2**32).

    Cost: one step per byte, about 2 µs for a trace id in hex.
    Source: draft-eastlake-fnv, section 2 and appendix (test vectors).
    """
    number = _OFFSET_BASIS
    for byte in data:
        number = (number ^ byte) * _PRIME & 0xFFFFFFFF
    return number


def partition_of(key: bytes, partitions: int) -> int:
    """Pick the partition of a key.

    Args:
        key: The message's key.
        partitions: Number of partitions of the topic, at least 1.

    Returns:
        A number in [0, partitions).

    Source: the hash partitioner of sarama (`NewHashPartitioner`), which franz-go calls
        `SaramaCompatHasher`: the hash as a signed 32-bit number, its remainder truncated toward
        zero, without its sign. Java's clients use murmur2 and would pick another one.
    """
    number = fnv1a_32(key)
    signed = number - (1 << 32) if number >= 1 << 31 else number
    return abs(signed) % partitions
