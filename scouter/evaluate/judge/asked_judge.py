"""A judge that is asked outside of a plan, until its answer can be read."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.judge.ask import Backoff, Reply, ask
from scouter.evaluate.judge.port import (
    AnyJudge,
    Judge,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    Message,
    as_judge,
    usual_judge,
)
from scouter.evaluate.outcome import Reason

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedJudge:
    """A judge, with the settings of its questions."""

    judge: Judge
    model: str = ""
    provider: str = ""
    settings: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    max_retries: int = 2
    """Most repeats of a question that nobody answered, or whose answer cannot be read."""
    backoff: Backoff = field(default_factory=Backoff)

    @staticmethod
    def of(judge: "AskedJudge | AnyJudge | str") -> "AskedJudge":
        """Take a judge as users give it.

        Args:
            judge: A judge, a plain or async function from `JudgeRequest` to the answer, or
                `entry/model` of a provider entry, such as `openai/gpt-4o-mini`.

        Raises:
            ConfigError: It can answer nothing, or the text names no model.
        """
        if isinstance(judge, AskedJudge):
            return judge
        if not isinstance(judge, str):
            return AskedJudge(judge=as_judge(judge))
        provider, _, model = judge.partition("/")
        if not (provider and model):
            raise ConfigError(
                f"judge {judge!r}: expected entry/model, such as openai/gpt-4o-mini, a judge, or "
                "a function from JudgeRequest to the answer"
            )
        return AskedJudge(judge=usual_judge(), provider=provider, model=model)

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

        def is_usable(reply: JudgeReply) -> bool:
            try:
                read(reply)
            except JudgeError:
                return False
            return True

        request = JudgeRequest(
            task_id=task_id, messages=tuple(messages), model=self.model, provider=self.provider,
            settings=self.settings, response_schema=schema, is_usable=is_usable,
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
        raise JudgeError(Reason.PARSE, "the judge was not asked: max_retries is below 0")

    async def reply(self, request: JudgeRequest) -> Reply:
        """Ask once."""
        return await ask(self.judge, request, 0, self.backoff, nullcontext())

    async def gather(self, walks: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Wait for several that ask, at the same time."""
        return await asyncio.gather(*walks)


def _counted(error: JudgeError, attempts: int) -> JudgeError:
    times = f" (asked {attempts} times)" if attempts > 1 else ""
    return JudgeError(error.reason, f"{error.message}{times}", usage=error.usage)
