"""The partitioner agrees with the OpenTelemetry Collector's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.transport.kafka_client import fnv1a_32, partition_of


@pytest.mark.parametrize(
    ("text", "number"),
    [  # appendix of draft-eastlake-fnv, "FNV-1a test vectors", 32 bits
        ("", 0x811C9DC5),
        ("a", 0xE40C292C),
        ("b", 0xE70C2DE5),
        ("c", 0xE60C2C52),
        ("fo", 0x6222E842),
        ("foo", 0xA9F37ED7),
        ("foobar", 0xBF9CF968),
    ],
)
def test_the_published_vectors(text: str, number: int) -> None:
    assert fnv1a_32(text.encode()) == number


@pytest.mark.parametrize(
    ("key", "partitions", "partition"),
    [
        # 0x6222E842 = 1646454850 is positive as a signed number.
        (b"fo", 10, 0),
        (b"fo", 7, 1646454850 % 7),
        # 0xE40C292C is -468965076; Go's remainder by 10 is -6, without its sign 6.
        (b"a", 10, 6),
        # 0xBF9CF968 is -1080231576; by 7: 1080231576 = 7 * 154318796 + 4.
        (b"foobar", 7, 4),
        (b"anything", 1, 0),
    ],
)
def test_the_sign_is_dropped_after_the_remainder(
    key: bytes, partitions: int, partition: int
) -> None:
    assert partition_of(key, partitions) == partition


@given(st.binary(max_size=40), st.integers(1, 200))
def test_always_a_partition_of_the_topic(key: bytes, partitions: int) -> None:
    assert 0 <= partition_of(key, partitions) < partitions


def test_trace_ids_spread() -> None:
    """10,000 trace ids over 12 partitions: none has more than twice the mean."""
    counts = [0] * 12
    for n in range(10_000):
        counts[partition_of(f"{n * 0x9E3779B97F4A7C15 % 2**128:032x}".encode(), 12)] += 1

    assert min(counts) > 400
    assert max(counts) < 1700
