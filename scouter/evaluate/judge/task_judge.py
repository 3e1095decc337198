"""TaskJudge: the judge of a task, as the task's own function asks it.

The engine puts the questions that it awaits to the judge of the run. So cache, budget,
retries and the bound on questions at a time are those of every task.
"""

from collections.abc import Callable, Coroutine, Generator, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from scouter.evaluate.judge.ask import Reply
from scouter.evaluate.judge.asked_judge import AskedJudge
from scouter.evaluate.judge.port import Judge, JudgeError, JudgeReply, JudgeRequest

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")
AskingFor: TypeAlias = Generator[Sequence[JudgeRequest], Sequence[Reply], T]
"""Yields questions that can be put at the same time, gets their replies in the same order."""


@dataclass(frozen=True, slots=True)
class _Put:
    """Waits for the answer to one question."""

    request: JudgeRequest

    def __await__(self) -> AskingFor[Reply]:
        [reply] = yield [self.request]
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


@dataclass(frozen=True, slots=True)
class Together(Generic[T]):
    """Waits for several coroutines that ask; the first one that raises ends it."""

    walks: Sequence[Coroutine[Any, Any, T]]

    def __await__(self) -> AskingFor[list[T]]:
        def fault(_: int, error: Exception) -> T:
            raise error

        steps = together({at: each.__await__() for at, each in enumerate(self.walks)}, fault)
        try:
            asked = next(steps)
            while True:
                asked = steps.send((yield [request for _, request in asked]))
        except StopIteration as end:
            return [end.value[at] for at in range(len(self.walks))]
        finally:
            for walk in self.walks:
                walk.close()


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
