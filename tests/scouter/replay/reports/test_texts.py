"""Figures in words, and spans as bars."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scouter.model.span import Span
from scouter.replay.reports import texts
from scouter.replay.reports.plain import scenario_text
from scouter.replay.reports.view import make_view
from scouter.replay.reports.waterfall import waterfall
from tests.support.replay_results import TRACE, record, results, scenario, span


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


def test_waterfall_places_and_indents() -> None:
    found = waterfall(TRACE, 100)
    assert [(b.name, b.depth, b.start_percent, b.width_percent) for b in found.bars] == [
        ("answer", 0, 0.0, 100.0),
        ("find_hours", 1, 10.0, 50.0),
        ("write", 1, 60.0, 40.0),
    ]
    assert [bar.error for bar in found.bars] == ["", "", "the pen broke"]
    assert (found.duration, found.left_out) == ("100 ms", 0)


def test_waterfall_says_what_it_leaves_out() -> None:
    found = waterfall([span(f"s{i}", i + 1, None, i, i + 1) for i in range(10)], 3)
    assert ([bar.name for bar in found.bars], found.left_out) == (["s0", "s1", "s2"], 7)


def test_spans_in_a_circle_are_each_shown_once() -> None:
    circle = [span("a", 1, 2, 0, 5), span("b", 2, 1, 1, 4), span("own", 3, 3, 2, 3)]
    assert sorted(bar.name for bar in waterfall(circle, 100).bars) == ["a", "b", "own"]


spans = st.lists(
    st.builds(
        span,
        st.just("s"),
        st.integers(1, 8),
        st.none() | st.integers(1, 9),
        st.integers(0, 50),
        st.integers(0, 50),
    ),
    max_size=12,
)


@given(spans)
def test_bars_stay_inside_of_the_track(made: list[Span]) -> None:
    """Whatever the clocks did; and every span is there once."""
    found = waterfall(made, 100)
    assert len(found.bars) == len({item.span_id for item in made})
    for bar in found.bars:
        assert 0 <= bar.start_percent <= 100
        assert 0 < bar.width_percent <= 100
        assert bar.start_percent + bar.width_percent <= 100.02  # both are rounded


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
