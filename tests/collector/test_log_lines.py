"""Lines that strangers can cause: one, then how many more there were."""

import asyncio
import logging

import pytest

from collector.log_lines import FewerRepeats


def test_a_warning_is_written_once_a_minute_and_then_counted(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = 0.0
    repeats = FewerRepeats(every_s=60, clock=lambda: now)
    logger = logging.getLogger("collector.receivers.tests")
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
        logger.warning("from %d", 5)
        now = 120.0
        repeats.tell()
        assert caplog.messages[4:] == ["1 more time within 60 s: from 5"]
    finally:
        logger.removeFilter(repeats)


def test_a_fault_is_written_once_a_minute_for_each_place(caplog: pytest.LogCaptureFixture) -> None:
    """Kind: a stranger fills the log. A request that the end cut off leaves nothing behind."""
    logger, repeats = logging.getLogger("uvicorn.tests"), FewerRepeats()
    logger.addFilter(repeats)
    try:
        for number in range(3):
            for fault in (ValueError(number), OSError(24, "Too many open files")):
                try:
                    raise fault
                except Exception:
                    logger.exception("failed %d", number)
            logger.error("ended", exc_info=asyncio.CancelledError())
        logger.error("broken")
        repeats.tell(is_end=True)
    finally:
        logger.removeFilter(repeats)
    assert [text.partition(" within")[0] for text in caplog.messages] == [
        "failed 0", "failed 0", "broken", "2 more times", "2 more times",
    ]  # fmt: skip


def test_lines_that_no_stranger_can_cause_are_all_written(caplog: pytest.LogCaptureFixture) -> None:
    logger, repeats = logging.getLogger("collector.store.tests"), FewerRepeats()
    logger.addFilter(repeats)
    try:
        for number in range(3):
            logger.warning("%d rows are lost", number)
    finally:
        logger.removeFilter(repeats)
    assert caplog.messages == [f"{number} rows are lost" for number in range(3)]
