"""Texts are cut between words, and never above a limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collector.alerts.delivery.slack import escaped
from collector.alerts.delivery.words import cut, fit


@pytest.mark.parametrize(
    ("text", "limit", "found"),
    [
        ("one two three", 13, "one two three"),
        ("one two three", 12, "one two…"),
        ("one two three", 8, "one two…"),
        ("one two three", 7, "one…"),
        ("a long-winded-word", 10, "a long-wi…"),  # else nearly nothing would be left
        ("word", 3, "wo…"),
        ("word", 1, "…"),
        ("", 1, ""),
    ],
)
def test_by_hand(text: str, limit: int, found: str) -> None:
    assert cut(text, limit) == found


def _escaped_length(text: str) -> int:
    return len(escaped(text))


@given(st.text("ab <&>é\n", max_size=60), st.integers(1, 40))
def test_a_text_stays_or_is_a_beginning_within_the_limit(text: str, limit: int) -> None:
    for size in (len, _escaped_length):
        found = cut(text, limit, size)
        assert size(found) <= limit
        assert found == text if size(text) <= limit else found.endswith("…")
        assert text.startswith(found.removesuffix("…"))


@given(st.lists(st.text("ab", min_size=1, max_size=9), max_size=6), st.integers(0, 40))
def test_as_many_whole_lines_as_fit(lines: list[str], limit: int) -> None:
    count = max(n for n in range(len(lines) + 1) if len("\n".join(lines[:n])) <= limit)
    assert fit(lines, limit) == "\n".join(lines[:count])
