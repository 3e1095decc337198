"""Reasons in words."""

import pytest

from collector.web.render import reason

_LOOK = '{"ByName": {"name": "look"}}'


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (
            f"SpanDuration(filter={_LOOK}) is 250, expected LessThan 150",
            "Duration of spans named “look” is 250 ms, expected LessThan 150 ms",
        ),
        (
            f"SpanDuration(filter={_LOOK}): item 1 of 3 is 9.5, expected LessThan 5",
            "Duration of spans named “look”: item 1 of 3 is 9.5 ms, expected LessThan 5 ms",
        ),
        ("TraceDuration(): LessThan 150 holds", "TraceDuration(): LessThan 150 ms holds"),
        (
            'SpanCount(filter={"And": {"filters": [{"Not": {"filter": ' + _LOOK + "}}, "
            '{"WithStatus": {"status": "Error"}}]}}) is 2, expected Equals 0',
            "Number of spans other than those named “look” and with the status “Error” is 2, "
            "expected Equals 0",
        ),
        (
            f'SpanAttribute(filter={_LOOK}, attribute_key="k") is 3, expected Equals 4',
            'SpanAttribute(spans named “look”, attribute_key="k") is 3, expected Equals 4',
        ),
        (
            r"""'answer' is "soon", expected MatchesRegex "\\b\\d+ \"May\"" """,
            r"""'answer' is "soon", expected MatchesRegex /\b\d+ "May"/ """,
        ),
        ('SpanCount(filter={"ByName": {"na…) is 3', 'SpanCount(filter={"ByName": {"na…) is 3'),
        ('SpanCount(filter={"New": {}}) is 3', "Number of spans of “New”: {} is 3"),
        ('SpanCount(filter={"New": 1, "B": 2}) is 3', 'SpanCount(filter={"New": 1, "B": 2}) is 3'),
        ("'answer' is 41, expected Equals 42", "'answer' is 41, expected Equals 42"),
    ],
)
def test_a_reason_is_said_in_words(message: str, words: str) -> None:
    """Units and filters; a message of any other form stays as it is."""
    assert reason(message) == words
