"""Questions to a judge: asked until it answers, or until asking again is useless."""

import asyncio
import contextvars
import random
import threading
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from scouter.evaluate.judge.port import (
    Judge,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    close_unawaited,
    time_limit_of,
    to_judge_error,
)
from scouter.evaluate.judge.usage import JudgeUsage, sum_of
from scouter.evaluate.outcome import Reason

Reply: TypeAlias = JudgeReply | JudgeError
Sleep: TypeAlias = Callable[[float], Awaitable[object]]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses before a judge is asked again.

    A pause is a random part of a time that doubles with every attempt, so that many tasks that
    failed together do not come back together. It is never shorter than the provider asked for.
    Source: "full jitter", aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter.
    """

    base_s: float = 0.5
    cap_s: float = 30.0
    most_s: float = 3600.0
    """Longest pause that a provider may ask for, in seconds; a longer one ends the attempts."""
    jitter: Callable[[], float] = random.random
    """Gives the part, in [0, 1)."""
    sleep: Sleep = asyncio.sleep

    def seconds(self, attempt: int, error: JudgeError) -> float:
        """Time to wait after a failed attempt, counted from 0."""
        pause = self.jitter() * min(self.cap_s, self.base_s * 2.0**attempt)
        return max(pause, error.retry_after_s or 0.0)


async def ask(
    judge: Judge,
    request: JudgeRequest,
    max_retries: int,
    backoff: Backoff,
    slots: AbstractAsyncContextManager[object],
) -> Reply:
    """Ask until there is an answer, or an error that asking again does not mend.

    Args:
        judge: The judge.
        request: The question.
        max_retries: Most times that it is asked again.
        backoff: Gives the wait before that.
        slots: Entered for every question, and left while waiting for the next.

    Returns:
        The reply, or the error of the last attempt, with the usage of all attempts. Nothing but a
        cancellation is raised.
    """
    attempt, earlier = 0, JudgeUsage()
    while True:
        async with slots:
            reply = await _once(judge, request)
        if isinstance(reply, JudgeReply) or not reply.is_worth_retrying:
            return reply.after(earlier) if attempt else reply
        earlier = sum_of((earlier, reply.taken))
        if attempt == max_retries or (reply.retry_after_s or 0.0) > backoff.most_s:
            times = f" (asked {attempt + 1} times)" if attempt else ""
            return JudgeError(reply.reason, f"{reply.message}{times}", usage=earlier)
        await backoff.sleep(backoff.seconds(attempt, reply))
        attempt += 1


async def _once(judge: Judge, request: JudgeRequest) -> Reply:
    limit = asyncio.timeout(time_limit_of(judge))
    try:
        async with limit:
            return _reply(await judge.ask(request))
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        # Not we are cancelled: something inside of the judge was, and let it out.
        return JudgeError(Reason.PROVIDER, "the judge's call was cancelled")
    except TimeoutError as error:
        if not limit.expired():  # the judge's own
            return to_judge_error(error)
        text = f"the judge took longer than {time_limit_of(judge):g} s (its time_limit_s)"
        return JudgeError(Reason.PROVIDER, text, permanent=True)
    except SystemExit as error:
        text = f"the judge called sys.exit({error.code!r})"
        return JudgeError(Reason.PROVIDER, text, permanent=True)
    except Exception as error:  # noqa: BLE001 — a judge's failure is one task's result
        return to_judge_error(error)


def _reply(reply: object) -> Reply:
    """Look at what a judge that somebody wrote gave back, whatever its signature says."""
    if isinstance(reply, JudgeReply):
        return reply
    close_unawaited(reply)
    text = f"the judge returned a {type(reply).__name__}; expected a JudgeReply"
    return JudgeError(Reason.PARSE, text)


def run_to_end(make: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end in this thread, or apart where it runs an event loop already.

    Args:
        make: Makes the coroutine.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    return run_apart(make)


def run_apart(make: Callable[[], Coroutine[Any, Any, _T]]) -> _T:
    """Run a coroutine to its end in an event loop of its own, in a thread of its own.

    So it works in notebooks, where a loop is running already, and changes nothing about the
    calling thread's loop. Context variables are those of the caller. An interrupt cancels the
    coroutine before it is raised.

    Args:
        make: Makes the coroutine; called in the other thread.
    """
    future: Future[_T] = Future()
    begun: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[object] | None]] = []
    given_up = threading.Event()

    async def main() -> _T:
        begun.append((asyncio.get_running_loop(), asyncio.current_task()))
        if given_up.is_set():
            raise asyncio.CancelledError
        return await make()

    def work() -> None:
        try:
            result = asyncio.run(main())
        except BaseException as error:  # noqa: BLE001 — raised again where it is waited for
            future.set_exception(error)
        else:
            future.set_result(result)

    context = contextvars.copy_context()
    thread = threading.Thread(target=context.run, args=(work,), name="scouter-judge", daemon=True)
    try:
        thread.start()
        return future.result()
    except BaseException:
        given_up.set()  # before looking: who begins later sees it
        for loop, task in begun if not future.done() else ():
            if task is not None:
                with suppress(RuntimeError):  # the loop has ended meanwhile
                    loop.call_soon_threadsafe(task.cancel)
        raise
    finally:
        with suppress(RuntimeError):  # interrupted before the thread had started
            thread.join()
