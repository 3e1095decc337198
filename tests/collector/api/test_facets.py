"""The time that counts beside lists may take: 0.3 s."""

import pytest

from collector.api.facets import Pace


@pytest.mark.parametrize(
    ("steps", "is_over"),
    [
        pytest.param([(0.02, 10)], False, id="0.02 + 0.02 + 9 * 0.02 s"),
        pytest.param([(0.02, 20)], True, id="0.02 + 0.02 + 19 * 0.02 s"),
        pytest.param([(0.1, 9)], True, id="one step tells no part that stays"),
        pytest.param([(0.05, 9), (0.05, 9)], False, id="all of it stays: 0.15 s"),
        pytest.param([(0.02, 9), (0.03, 9)], False, id="0.05 + 0.03 + 8 * 0.01125 s"),
        pytest.param([(0.02, 9), (0.06, 9)], True, id="0.08 + 0.06 + 8 * 0.045 s"),
        pytest.param([(0.02, 1), (0.02, 2)], False, id="a step over nothing new"),
        pytest.param([(0.31, 1)], True, id="the time is up"),
    ],
)
def test_a_step_that_would_be_too_long_is_not_started(
    steps: list[tuple[float, float]], is_over: bool
) -> None:
    """Seconds that each step took, and growth of the next one; times are worked out by hand."""
    now_s = 100.0
    pace = Pace(lambda: now_s)
    answers: list[bool] = []
    for took_s, growth in steps:
        now_s += took_s
        answers.append(pace(growth))
    assert answers[-1] is is_over
