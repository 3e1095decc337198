"""Waiting for commits of another thread."""

import asyncio
import logging
import threading
from concurrent.futures import Future

import pytest

from collector.receivers.http.receiver import durable


def test_it_waits_for_all_of_them() -> None:
    """The second is done first; the last one by another thread, while the loop waits."""
    first, second, third = Future[int](), Future[int](), Future[int]()
    second.set_result(2)

    async def wait() -> None:
        waiting = asyncio.create_task(durable((first, second, third)))
        await asyncio.sleep(0)
        first.set_result(1)
        threading.Timer(0.02, third.set_result, (3,)).start()
        await waiting

    asyncio.run(wait())
    assert third.done()


@pytest.mark.parametrize("is_done", [False, True])
def test_a_failure_is_raised(is_done: bool) -> None:
    good, bad = Future[int](), Future[int]()
    good.set_result(1)
    if is_done:
        bad.set_exception(KeyError("bad"))
    else:
        threading.Timer(0.02, bad.set_exception, (KeyError("bad"),)).start()
    with pytest.raises(KeyError, match="bad"):
        asyncio.run(durable((good, bad)))


def test_who_goes_away_leaves_the_commit_alone(caplog: pytest.LogCaptureFixture) -> None:
    """The commit ends when nobody waits and no loop runs any more; that is no fault."""
    future = Future[int]()

    async def go_away() -> None:
        async with asyncio.timeout(0.01):
            await durable((future,))

    with pytest.raises(TimeoutError):
        asyncio.run(go_away())
    assert not future.cancelled()
    with caplog.at_level(logging.DEBUG):
        future.set_result(1)
    assert not caplog.records
