"""Lines that strangers can cause: one, then how many more there were."""

import logging

import pytest

from collector.log_lines import FewerRepeats


def test_a_warning_is_written_once_a_minute_and_then_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    repeats = FewerRepeats(every_s=60, clock=lambda: now)
    logger = logging.getLogger("tests.strangers")
    logger.addFilter(repeats)
    try:
        for number in range(4):
            logger.warning("from %d", number)
        logger.warning("another")
        repeats.tell()
        assert caplog.messages == ["from 0", "another"]
        now = 60.0
        repeats.tell()
        assert caplog.messages[2:] == ["3 more times within 60 s: from 3"]
        logger.warning("from %d", 4)
        assert caplog.messages[3:] == ["from 4"]
    finally:
        logger.removeFilter(repeats)


def test_faults_are_always_written(caplog: pytest.LogCaptureFixture) -> None:
    logger, repeats = logging.getLogger("tests.faults"), FewerRepeats()
    logger.addFilter(repeats)
    try:
        for number in range(3):
            logger.error("broken")
            try:
                raise ValueError(number)
            except ValueError:
                logger.warning("failed", exc_info=True)
    finally:
        logger.removeFilter(repeats)
    assert caplog.messages == ["broken", "failed"] * 3
