"""Stand-ins for tests of agents and profiles; needs no test framework."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeAlias, cast

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.judge.port import (
    JudgeError,
    JudgeFunction,
    JudgeReply,
    JudgeRequest,
    as_judge,
    to_answer,
)
from scouter.evaluate.outcome import Reason

Reply: TypeAlias = JudgeReply | JsonValue | Exception
"""Reply of a scripted judge: an answer, or an exception to raise."""

Script: TypeAlias = Mapping[str, "Reply | list[Reply]"] | Iterable[Reply] | JudgeFunction


class ScriptedJudge:
    """A judge that answers from a script and stores its requests.

    Args:
        replies: By task id, a reply that is given again and again, or a list of replies given
            one after the other (an answer that is itself a list is written `JudgeReply`); or a
            list of replies to whatever requests come, in that order; or a function from
            `JudgeRequest` to the reply, plain or async. An exception among the replies is raised.
        delay_s: Seconds that every answer takes, or a function from request to seconds.
        sleep: Waits; a test passes a clock of its own, and nothing really waits.

    A question that the script has no answer for raises a `JudgeError` that names the task and
    those there are.
    """

    def __init__(
        self,
        replies: Script,
        *,
        delay_s: float | Callable[[JudgeRequest], float] = 0.0,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        self.requests: list[JudgeRequest] = []
        """Every question, in the order in which they came."""
        self.most_at_once: int = 0
        """The largest number of questions that were being answered at the same time."""
        self._inside = 0
        self._delay = delay_s
        self._sleep = sleep
        self._by_task: dict[str, Reply | deque[Reply]] | None = None
        self._in_order: deque[Reply] = deque()
        self._function: JudgeFunction | None = None
        if isinstance(replies, Mapping):
            given = cast("Mapping[str, Reply | list[Reply]]", replies)
            self._by_task = {
                task.lower(): deque[Reply](reply) if isinstance(reply, list) else reply
                for task, reply in given.items()
            }
        elif callable(replies):
            self._function = replies
        elif isinstance(replies, str):
            raise ConfigError(
                "ScriptedJudge: expected replies by task id, a list of replies or a function, got "
                f"the text {replies!r}; write [{replies!r}]"
            )
        else:
            self._in_order = deque(replies)

    def __repr__(self) -> str:
        return f"ScriptedJudge({len(self.requests)} questions so far)"

    def requests_of(self, task_id: str) -> list[JudgeRequest]:
        """The questions of one task."""
        return [request for request in self.requests if request.task_id == task_id.lower()]

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Answer from the script.

        Raises:
            JudgeError: The script says so, or has nothing to say.
        """
        self.requests.append(request)
        self._inside += 1
        self.most_at_once = max(self.most_at_once, self._inside)
        try:
            reply = None if self._function else self._next(request)  # taken in order of asking
            delay = self._delay(request) if callable(self._delay) else self._delay
            if delay > 0:
                await self._sleep(delay)
            if self._function is not None:
                return await as_judge(self._function).ask(request)
        finally:
            self._inside -= 1
        if isinstance(reply, Exception):
            raise reply
        return to_answer(reply)

    def _next(self, request: JudgeRequest) -> Reply:
        if self._by_task is None:
            return self._pop(self._in_order, request)
        if request.task_id not in self._by_task:
            raise _no_reply(request, f"there are replies for {', '.join(self._by_task) or 'none'}")
        found = self._by_task[request.task_id]
        return self._pop(found, request) if isinstance(found, deque) else found

    def _pop(self, replies: deque[Reply], request: JudgeRequest) -> Reply:
        if not replies:
            raise _no_reply(request, "all its replies have been given")
        return replies.popleft()


def _no_reply(request: JudgeRequest, why: str) -> JudgeError:
    text = f"the script has no reply for the task {request.task_id!r}: {why}"
    return JudgeError(Reason.PROVIDER, text, permanent=True)


__all__ = ("ScriptedJudge",)
