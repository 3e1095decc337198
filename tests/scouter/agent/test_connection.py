"""The loop in which providers are called: one bound for all loops, cancellation, and forks."""

import asyncio
import subprocess
import sys
import threading

import pytest

from scouter.agent.connection import JudgeLoop, judge_loop
from scouter.agent.limits import Limits


def test_many_loops_share_one_bound() -> None:
    """Four threads with a loop each: never more than three inside, and all of them get there."""
    limits = Limits(concurrency=3)
    inside, most, done = 0, 0, 0

    async def one() -> None:
        nonlocal inside, most, done
        ticket = await limits.enter()
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0.0005)
        inside -= 1
        done += 1
        ticket.leave()

    async def many() -> None:
        await asyncio.gather(*(judge_loop().run(one()) for _ in range(50)))

    threads = [threading.Thread(target=lambda: asyncio.run(many())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)

    assert (done, most) == (200, 3)


def test_who_is_cancelled_waits_until_it_is_cleaned_up() -> None:
    """So that what a question had put aside is given back before its program ends."""
    steps: list[str] = []

    async def work() -> None:
        started.set()
        try:
            await asyncio.sleep(600)
        finally:
            await asyncio.sleep(0.01)
            steps.append("cleaned up")

    async def main() -> None:
        asking = asyncio.create_task(judge_loop().run(work()))
        await asyncio.to_thread(started.wait)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        steps.append("cancelled")

    started = threading.Event()
    asyncio.run(main())
    assert steps == ["cleaned up", "cancelled"]


def test_what_is_raised_there_is_raised_here() -> None:
    async def work() -> None:
        raise ValueError("of the work")

    with pytest.raises(ValueError, match="of the work"):
        asyncio.run(JudgeLoop().run(work()))


FORK = """
import asyncio, os
from scouter.agent.connection import judge_loop

async def one():
    await asyncio.sleep(0)
    return os.getpid()

assert asyncio.run(judge_loop().run(one())) == os.getpid()
child = os.fork()
if child == 0:
    os._exit(asyncio.run(judge_loop().run(one())) != os.getpid())
assert os.waitpid(child, 0)[1] == 0
assert asyncio.run(judge_loop().run(one())) == os.getpid()
"""


def test_a_forked_child_begins_another_loop() -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", FORK], check=True, timeout=120)
