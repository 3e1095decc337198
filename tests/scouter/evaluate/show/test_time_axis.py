"""Time axes: worked out by hand, and the laws that every axis keeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.evaluate.show.trace_view import time_axis


def test_a_long_wait_is_short() -> None:
    """20 ns of work in two spans, 90 ns between them: the wait gets 1.5 % of 20 ns."""
    axis = time_axis([(100, 110), (0, 10)], 110)
    assert axis.at_ns == (0, 10, 100, 110)
    assert axis.idle == (False, True, False)
    assert axis.share == pytest.approx((0, 10 / 20.3, 10.3 / 20.3, 1))


@pytest.mark.parametrize(
    ("spans", "duration"),
    [
        pytest.param([(0, 10), (40, 50)], 50, id="a wait of three spans"),
        pytest.param([], 0, id="no span"),
        pytest.param([(0, 0)], 0, id="a span of no length"),
        pytest.param([(0, 90), (5, 6), (80, 100)], 100, id="spans that overlap"),
    ],
)
def test_an_axis_without_long_waits_is_linear(spans: list[tuple[int, int]], duration: int) -> None:
    axis = time_axis(spans, duration)
    assert axis.share == (0.0, 1.0)
    assert axis.at_ns == (0, duration)
    assert axis.idle == (False,)


_SPANS = st.lists(
    st.tuples(st.integers(0, 10**6), st.integers(0, 10**4)).map(lambda p: (p[0], p[0] + p[1])),
    min_size=1,
    max_size=30,
)


@given(_SPANS, st.integers(1, 10**5))
def test_an_axis_ascends_and_squeezes_idle_time_only(
    spans: list[tuple[int, int]], rest: int
) -> None:
    duration = max(end for _, end in spans) + rest
    axis = time_axis(spans, duration)
    assert (axis.at_ns[0], axis.at_ns[-1]) == (0, duration)
    assert (axis.share[0], axis.share[-1]) == (0, pytest.approx(1))
    assert list(axis.at_ns) == sorted(set(axis.at_ns))
    assert list(axis.share) == sorted(axis.share)
    stretches = list(zip(axis.at_ns, axis.at_ns[1:], axis.idle, strict=False))
    idle = [(begin, end) for begin, end, is_idle in stretches if is_idle]
    assert not [each for each in idle for s, e in spans if s < each[1] and e > each[0]]
