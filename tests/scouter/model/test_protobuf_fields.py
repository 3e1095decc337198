"""Fields of messages, compared with what protobuf writes and reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from scouter.errors import DataError
from scouter.model.protobuf_fields import fields, tag_of


@given(
    name=st.text(max_size=300),
    trace_id=st.binary(max_size=20),
    start=st.integers(0, 2**64 - 1),
    flags=st.integers(0, 2**32 - 1),
    dropped=st.integers(0, 2**32 - 1),
    before=st.binary(max_size=5),
)
def test_fields_are_the_message(
    name: str, trace_id: bytes, start: int, flags: int, dropped: int, before: bytes
) -> None:
    """The fields follow each other without a gap, and each is read as itself by protobuf."""
    span = Span(
        name=name, trace_id=trace_id, start_time_unix_nano=start, flags=flags,
        dropped_attributes_count=dropped,
    )  # fmt: skip
    data = before + span.SerializeToString()
    found = list(fields(data, len(before)))
    assert b"".join(data[begin:stop] for _, begin, _, stop in found) == data[len(before) :]
    merged = Span()
    for _, begin, _, stop in found:
        merged.MergeFromString(data[begin:stop])
    assert merged == span
    texts = {tag: data[at:stop] for tag, _, at, stop in found}
    assert texts.get(tag_of(5), b"") == name.encode()
    assert texts.get(tag_of(1), b"") == trace_id


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"\x0a", "cut off", id="no-length"),
        pytest.param(b"\x0a\xff", "cut off", id="half-a-length"),
        pytest.param(b"\x08\xff", "cut off", id="half-a-number"),
        pytest.param(b"\x0a\x05abc", "behind its message", id="too-short"),
        pytest.param(b"\x09abc", "behind its message", id="too-short-for-eight-bytes"),
        pytest.param(b"\x02\x01a", "behind its message", id="field-0"),
        pytest.param(b"\x0b", "wire type", id="a-group"),
        pytest.param(b"\x08" + b"\xff" * 10 + b"\x01", "does not end", id="eleven-bytes"),
    ],
)
def test_rubbish_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(DataError, match=words):
        list(fields(data))


def test_a_field_ends_with_its_message() -> None:
    """The bytes behind the message hold more, but its length is what counts."""
    with pytest.raises(DataError, match="behind its message"):
        list(fields(b"\x0a\x02ab", 0, 3))
