"""The Kafka partition of a key, chosen as the OpenTelemetry Collector's exporter does."""

from typing import Final

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
