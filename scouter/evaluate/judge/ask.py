"""Questions to a judge: repeated until it answers, or until that is of no use."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Generator, Hashable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, field
from types import coroutine
from typing import Any, TypeAlias, TypeVar

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.judge.port import (
    AnyJudge,
    Judge,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    JudgeUsage,
    Message,
    as_judge,
    close_unawaited,
    readable_by,
    sum_of,
    time_limit_of,
    to_judge_error,
    usual_judge,
)
from scouter.evaluate.outcome import Reason

Reply: TypeAlias = JudgeReply | JudgeError
Sleep: TypeAlias = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Pauses before a judge is called again.

    A pause is a random part of a time that doubles with every attempt, so that many tasks that
    failed together do not come back together. It is never shorter than the provider requested.
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
        max_retries: Most times that it is called again.
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
            times = f" (called {attempt + 1} times)" if attempt else ""
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


T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeCaller:
    """A judge, with the settings of its questions."""

    judge: Judge
    model: str = ""
    provider: str = ""
    settings: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    max_retries: int = 2
    """Most repeats of a question that nobody answered, or whose answer cannot be read."""
    backoff: Backoff = field(default_factory=Backoff)

    @staticmethod
    def of(judge: "JudgeCaller | AnyJudge | str") -> "JudgeCaller":
        """Take a judge as users give it.

        Args:
            judge: A judge, a plain or async function from `JudgeRequest` to the answer, or
                `entry/model` of a provider entry, such as `openai/gpt-4o-mini`.

        Raises:
            ConfigError: It can answer nothing, or the text names no model.
        """
        if isinstance(judge, JudgeCaller):
            return judge
        if not isinstance(judge, str):
            return JudgeCaller(judge=as_judge(judge))
        provider, _, model = judge.partition("/")
        if not (provider and model):
            raise ConfigError(
                f"judge {judge!r}: expected entry/model, such as openai/gpt-4o-mini, a judge, or "
                "a function from JudgeRequest to the answer"
            )
        return JudgeCaller(judge=usual_judge(), provider=provider, model=model)

    async def ask(
        self,
        task_id: str,
        messages: Sequence[Message],
        read: Callable[[JudgeReply], T],
        schema: Mapping[str, JsonValue] | None = None,
        retries: int | None = None,
    ) -> T:
        """Ask until there is an answer that can be read.

        Args:
            task_id: Name of the asker, for logs and scripts.
            messages: The question.
            read: Reads a reply; raises `JudgeError` for one of no use.
            schema: JSON schema of the wanted answer.
            retries: In place of `max_retries`.

        Raises:
            JudgeError: No attempt gave an answer of use; says what was wrong with the last one.
        """
        request = JudgeRequest(
            task_id=task_id, messages=tuple(messages), model=self.model, provider=self.provider,
            settings=self.settings, response_schema=schema, is_usable=readable_by(read),
        )  # fmt: skip
        attempts = 1 + (self.max_retries if retries is None else retries)
        for attempt in range(attempts):
            is_last = attempt == attempts - 1
            reply = await self.reply(request)
            if isinstance(reply, JudgeReply):
                try:
                    return read(reply)
                except JudgeError as error:
                    if is_last:
                        raise _counted(error, attempts) from error
            elif is_last or not (reply.is_worth_retrying or reply.reason is Reason.PARSE):
                raise _counted(reply, attempt + 1)
            else:
                await self.backoff.sleep(self.backoff.seconds(attempt, reply))
        raise JudgeError(Reason.PARSE, "the judge was not called: max_retries is below 0")

    async def reply(self, request: JudgeRequest) -> Reply:
        """Ask once."""
        return await ask(self.judge, request, 0, self.backoff, nullcontext())

    async def gather(self, walks: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Wait for several that ask, at the same time."""
        return await asyncio.gather(*walks)


def _counted(error: JudgeError, attempts: int) -> JudgeError:
    times = f" (called {attempts} times)" if attempts > 1 else ""
    return JudgeError(error.reason, f"{error.message}{times}", usage=error.usage)


K = TypeVar("K", bound=Hashable)
AskingFor: TypeAlias = Generator[Sequence[JudgeRequest], Sequence[Reply], T]
"""Yields questions that can be put at the same time, gets their replies in the same order."""


@coroutine
def result_of(steps: AskingFor[T]) -> AskingFor[T]:
    """Wait, in a coroutine, for the end of what asks."""
    return (yield from steps)


def _put(request: JudgeRequest) -> AskingFor[Reply]:
    [reply] = yield [request]
    return reply


def together(
    asking: Mapping[K, AskingFor[T]], fault: Callable[[K, Exception], T]
) -> Generator[Sequence[tuple[K, JudgeRequest]], Sequence[Reply], dict[K, T]]:
    """Let several ask together, until each is at its end.

    What asks more than once does so in rounds. In each round, the questions of all that are not
    done are put at the same time.

    Args:
        asking: By a key of each.
        fault: The end of one that raises.

    Returns:
        What each ended with, by its key.
    """
    ends: dict[K, T] = {}
    waiting: dict[K, Sequence[JudgeRequest]] = {}

    def go_on(key: K, replies: Sequence[Reply] | None) -> None:
        waiting.pop(key, None)
        try:
            steps = asking[key]
            waiting[key] = next(steps) if replies is None else steps.send(replies)
        except StopIteration as end:
            ends[key] = end.value
        except Exception as error:  # noqa: BLE001 — one never touches another
            ends[key] = fault(key, error)

    for key in asking:
        go_on(key, None)
    while waiting:
        counts = [(key, len(requests)) for key, requests in waiting.items()]
        replies = yield [(key, request) for key, each in waiting.items() for request in each]
        given = iter(replies)
        for key, count in counts:
            go_on(key, [next(given) for _ in range(count)])
    return ends


def _all_of(walks: Sequence[Coroutine[Any, Any, T]]) -> AskingFor[list[T]]:
    """Put the questions of several coroutines together; the first one that raises ends it."""

    def fault(_: int, error: Exception) -> T:
        raise error

    steps = together({at: each.__await__() for at, each in enumerate(walks)}, fault)
    try:
        requests = next(steps)
        while True:
            requests = steps.send((yield [request for _, request in requests]))
    except StopIteration as end:
        return [end.value[at] for at in range(len(walks))]
    finally:
        for walk in walks:
            walk.close()


class _RunJudge:
    """The judge of the run."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Put a question.

        Raises:
            JudgeError: There is no answer, however often it was put.
        """
        reply = await result_of(_put(request))
        if isinstance(reply, JudgeError):
            raise reply
        return reply


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJudge(JudgeCaller):
    """The judge of the run, for the function of a `FunctionTask` with a prompt.

    `max_retries` bounds how often it is called again for an answer that can be read; that of the
    task, how often where the provider fails.
    """

    judge: Judge = field(default_factory=_RunJudge)

    async def reply(self, request: JudgeRequest) -> Reply:
        """Put a question.

        Raises:
            JudgeError: There is no answer.
        """
        return await self.judge.ask(request)

    async def gather(self, walks: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Wait for several that ask; their questions are put at the same time."""
        return await result_of(_all_of(walks))
