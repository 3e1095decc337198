"""TaskJudge: the judge of a task, as the task's own function asks it.

What it awaits are questions, which the engine puts to the judge of the run. So cache, budget,
retries and the bound on questions at a time are those of every task.
"""

from collections.abc import Coroutine, Generator, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from scouter.evaluate.judge.ask import Reply
from scouter.evaluate.judge.asked_judge import AskedJudge
from scouter.evaluate.judge.port import Judge, JudgeError, JudgeReply, JudgeRequest

T = TypeVar("T")
Asking: TypeAlias = Generator[Sequence[JudgeRequest], Sequence[Reply], T]
"""Yields questions that can be put at the same time, gets their replies in the same order."""


@dataclass(frozen=True, slots=True)
class _Put:
    """Waits for the answer to one question."""

    request: JudgeRequest

    def __await__(self) -> Asking[Reply]:
        [reply] = yield [self.request]
        return reply


@dataclass(frozen=True, slots=True)
class Together(Generic[T]):
    """Waits for several coroutines that ask; in each round all of their questions are put."""

    walks: Sequence[Coroutine[Any, Any, T]]

    def __await__(self) -> Asking[list[T]]:
        found: dict[int, T] = {}
        waiting: dict[int, Sequence[JudgeRequest]] = {}

        def go_on(at: int, replies: Sequence[Reply] | None) -> None:
            try:
                waiting[at] = self.walks[at].send(replies)
            except StopIteration as end:
                found[at] = end.value

        try:
            for at in range(len(self.walks)):
                go_on(at, None)
            while waiting:
                asked = dict(waiting)
                waiting.clear()
                replies = iter((yield [request for each in asked.values() for request in each]))
                for at, requests in asked.items():
                    go_on(at, [next(replies) for _ in requests])
        finally:
            for walk in self.walks:
                walk.close()
        return [found[at] for at in range(len(self.walks))]


def at_once(walk: Coroutine[Any, Any, T]) -> T:
    """Run to its end what asks nobody, without an event loop."""
    try:
        walk.send(None)
    except StopIteration as done:
        return done.value
    finally:
        walk.close()
    raise RuntimeError("it waits for a judge, and nobody is there to answer")


class _RunJudge:
    """The judge of the run."""

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Put a question.

        Raises:
            JudgeError: There is no answer, however often it was put.
        """
        reply = await _Put(request)
        if isinstance(reply, JudgeError):
            raise reply
        return reply


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskJudge(AskedJudge):
    """The judge of the run, for the function of a `FunctionTask` with a prompt.

    `max_retries` bounds how often it is asked again for an answer that can be read; that of the
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
        return await Together(walks)
