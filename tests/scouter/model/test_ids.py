"""uuid7 and the rules for trace and span ids."""

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.model.ids import is_span_id, is_trace_id, uuid7


def test_the_published_example() -> None:
    """RFC 9562, appendix A.6: 0x017F22E279B0 is 2022-02-22 19:22:22 UTC in milliseconds."""
    made = uuid7(1_645_557_742_000 * 1_000_000)

    assert made.startswith("017f22e2-79b0-7000-")
    assert (uuid.UUID(made).version, uuid.UUID(made).variant) == (7, uuid.RFC_4122)


@given(st.integers(0, 2**61), st.integers(0, 2**61))
def test_later_sorts_later(first: int, second: int) -> None:
    """Times a microsecond apart or more sort as their ids do."""
    if abs(first - second) >= 1_000:
        assert (uuid7(first) < uuid7(second)) is (first < second)


def test_a_thousand_of_one_moment_differ() -> None:
    assert len({uuid7(0) for _ in range(1000)}) == 1000


@pytest.mark.parametrize(
    ("text", "is_trace", "is_span"),
    [
        ("0af7651916cd43dd8448eb211c80319c", True, False),
        ("b7ad6b7169203331", False, True),
        ("0AF7651916CD43DD8448EB211C80319C", False, False),
        ("0" * 32, False, False),
        ("0" * 16, False, False),
        ("0af7651916cd43dd8448eb211c80319c\n", False, False),
        ("", False, False),
    ],
)
def test_ids_as_in_trace_context(text: str, is_trace: bool, is_span: bool) -> None:
    assert (is_trace_id(text), is_span_id(text)) == (is_trace, is_span)
