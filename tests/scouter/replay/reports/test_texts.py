"""Figures in words, and spans as bars."""

import pytest

from scouter.replay.reports import texts
from scouter.replay.reports.plain import scenario_text
from scouter.replay.reports.view import make_view
from tests.support.replay_results import record, results, scenario


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0 µs"),
        (340_000, "340 µs"),
        (12_500_000, "12.5 ms"),
        (999_499_999, "999 ms"),
        (999_900_000, "1 s"),
        (3_200_000_000, "3.2 s"),
        (59_960_000_000, "60 s"),
        (245_000_000_000, "4 min 05 s"),
    ],
)
def test_duration(nanoseconds: int, text: str) -> None:
    assert texts.duration(nanoseconds) == text


@pytest.mark.parametrize(
    ("rate", "text"), [(None, "–"), (0.0, "0%"), (2 / 3, "66.7%"), (1.0, "100%"), (0.9996, "100%")]
)
def test_percent(rate: float | None, text: str) -> None:
    assert texts.percent(rate) == text


@pytest.mark.parametrize(
    ("difference", "text"),
    [(None, ""), (0.125, "+12.5"), (-0.03, "−3"), (0.0, "0"), (-0.0004, "0")],
)
def test_points(difference: float | None, text: str) -> None:
    assert texts.points(difference) == text


def test_plain_text_of_a_failure() -> None:
    run = results(
        [scenario("paris", {"right": False, "polite": True})],
        {"answers": [("paris", record("r1", {"short": "no path 'x'"}))]},
    )
    (view,) = make_view(run, None).scenarios
    assert scenario_text(view).splitlines() == [
        "scenario 'paris' did not pass",
        "  user: What about paris?",
        "  agent: Soon.",
        "  check right: failed",
        "    message: 'response' is 'Soon.', expected Paris",
        '    expected: "Paris"',
        '    actual: "Soon."',
        "  check answers, record r1: short: errored",
        "    message: no path 'x'",
        '    expected: "Paris"',
        '    actual: "Soon."',
        "  trace: 3 spans, 100 ms",
        "    answer        |████████████████████|   100 ms",
        "      find_hours  |  ██████████        |    50 ms",
        "      write       |            ████████|    40 ms  ERROR the pen broke",
    ]


def test_plain_text_cannot_write_to_the_terminal() -> None:
    run = results([scenario("a\x1b[2J\u202e", {"b\x1b\nc": False})])
    (view,) = make_view(run, None).scenarios
    lines = scenario_text(view).splitlines()
    assert lines[0] == r"scenario 'a\x1b[2J\u202e' did not pass"
    assert r"  check b\x1b\nc: failed" in lines


def test_plain_text_is_empty_for_what_passed() -> None:
    (view,) = make_view(results([scenario("paris", {"right": True})]), None).scenarios
    assert scenario_text(view) == ""


def test_plain_text_of_attempts_shows_those_that_failed() -> None:
    run = results(
        [
            scenario("rome", {"t": True}, attempt=0),
            scenario("rome", {}, attempt=1, error="ValueError: no\nwhy", traces=()),
        ],
        repeats=2,
    )
    (view,) = make_view(run, None).scenarios
    assert scenario_text(view).splitlines() == [
        "scenario 'rome': 1 of 2 attempts did not pass",
        "attempt 2 of 2",
        "  error: ValueError: no",
        "    why",
        "  user: What about rome?",
        "  agent: Soon.",
    ]
