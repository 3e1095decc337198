"""Pairs as texts, also those whose keys have the signs that the text needs."""

import pytest

from scouter.model.pair import pair_of, pair_text


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("tier", "free", "tier=free"),
        ("query", "a=b%3D", "query=a=b%3D"),
        ("a=b", "c", "a%3Db=c"),
        ("cpu%", "", "cpu%25="),
        ("a%3Db", "c", "a%253Db=c"),
        ("=", "=", "%3D=="),
    ],
)
def test_what_is_written_is_read(key: str, value: str, text: str) -> None:
    assert pair_text(key, value) == text
    assert pair_of(text) == (key, "=", value)


def test_what_a_person_wrote() -> None:
    """Other per cent signs stand for themselves, and what is no pair has no sign."""
    assert pair_of("50%=x") == ("50%", "=", "x")
    assert pair_of("a%3Db") == ("a=b", "", "")
