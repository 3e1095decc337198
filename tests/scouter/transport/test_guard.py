"""What the host's log says of trouble inside: enough to find the cause, and not too often."""

import pytest

from scouter.transport.guard import Guard


def test_refused_items_are_logged_once_a_minute_with_their_number(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """By hand: 1 at once; 2 and 3 within the minute wait; 4 more after it make nine."""
    now_s = 100.0
    guard = Guard(clock=lambda: now_s)
    for moment_s, count in ((100.0, 1), (110.0, 2), (159.0, 3), (160.0, 4), (161.0, 5)):
        now_s = moment_s
        assert guard.rejected("records", count, f"record 0: field {count}") == count
    assert guard.rejected("spans", 1, "\x1b[2J" + "x" * 1000) == 1
    assert guard.rejected("records", 0, "nothing was refused") == 0
    assert guard.rejected("records", -1, "nonsense of a far side") == 0

    first, later, spans = [each.getMessage() for each in caplog.records]
    assert ("refused 1 " in first, "record 0: field 1" in first) == (True, True)
    assert ("refused 9 " in later, "record 0: field 4" in later) == (True, True)
    assert (spans.isprintable(), len(spans) < 700) == (True, True)
