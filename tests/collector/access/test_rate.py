"""Limits of a rate, against a brute force."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from collector.access.rate import RateLimit


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 8)), max_size=60),
)
def test_a_bucket_holds_what_the_definition_says(
    per_s: int, burst: int, calls: list[tuple[str, int]]
) -> None:
    """Time moves in quarters of a second; the level is computed anew from all that went before."""
    now = Fraction(0)
    limit = RateLimit(per_s, burst, lambda: float(now))
    taken: dict[str, list[Fraction]] = {"a": [], "b": []}
    for key, quarters in calls:
        now += Fraction(quarters, 4)
        level, at = Fraction(burst), Fraction(0)
        for each in taken[key]:
            level, at = min(Fraction(burst), level + (each - at) * per_s) - 1, each
        level = min(Fraction(burst), level + (now - at) * per_s)
        assert abs(limit.take(key) - max(0, (1 - level) / per_s)) < 1e-9
        if level >= 1:
            taken[key].append(now)


def test_only_so_many_are_remembered() -> None:
    limit = RateLimit(1, 1, lambda: 0.0)
    assert limit.take("first") == 0
    assert limit.take("first") == 1
    for n in range(10_000):
        limit.take(n)
    assert limit.take("first") == 0
