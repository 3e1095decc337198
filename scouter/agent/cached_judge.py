"""A judge that asks nothing twice."""

import asyncio
import json
import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from hashlib import sha256
from typing import Final, TypeAlias

from scouter.agent.cache import JudgeCache
from scouter.evaluate.judge.port import (
    AnyJudge,
    JudgeError,
    JudgeReply,
    JudgeRequest,
    JudgeUsage,
    as_judge,
    concurrency_of,
    time_limit_of,
    to_judge_error,
)
from scouter.transport.process import watch

_FORM: Final = "scouter judge 1"
"""Part of every key: raised when answers to the same question mean something else."""


def cache_key(request: JudgeRequest, *, space: str, entry: str) -> bytes:
    """Make the key of a question.

    The key covers everything that an answer depends on: provider, model, settings, form of the
    answer, every message with its role, and the number among several samples. It covers the space,
    too, as no space reads the questions of another one. The asker does not count: neither record
    nor task.

    The encoding is a JSON list, from which every part could be read back; so different questions
    have different encodings. Settings are sorted by name. The order inside of a schema counts:
    models write the fields of an answer in that order.

    Args:
        request: The question.
        space: Space of the answer.
        entry: Identity of the provider entry.

    Returns:
        A SHA-256, 32 bytes.

    Raises:
        ValueError: The question has no JSON form.

    Cost: linear in the question; 60 µs for 10,000 letters.
    """
    parts = (
        _FORM,
        space,
        entry,
        request.model,
        sorted(request.settings.items()),
        request.response_schema,
        [(message["role"], message["content"]) for message in request.messages],
        request.sample,
    )
    try:
        text = json.dumps(parts, separators=(",", ":"), ensure_ascii=False, default=_plain)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"the question has no JSON form: {error}") from error
    # Half characters stay what they are; escaped, two of them would look like a whole one.
    return sha256(text.encode("utf-8", "surrogatepass")).digest()


def _plain(value: object) -> object:
    """A mapping that is no dict, as one that is read-only."""
    if hasattr(value, "items"):
        return dict(value)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]
    raise TypeError(f"{type(value).__name__} has none")


Reply: TypeAlias = JudgeReply | JudgeError
Flight: TypeAlias = "Future[Reply | None]"
"""A question in progress; None where no caller waits for it any more."""


class CachedJudge:
    """Answers known questions from a cache, and asks a judge the other ones.

    Only usable answers are stored: no errors, no refusals, no truncated answers, and none that the
    question itself calls of no use (`JudgeRequest.is_usable`), such as a score beyond its scale. A
    stored answer is checked in the same way, as others may have put it there. One of no use
    counts as absent, and the next usable answer takes its place. An answer from the cache says so
    (`JudgeReply.is_cached`), and took no tokens and no money.

    A question that comes again while it is being answered, in any event loop of this process, is
    put once: the other callers wait for its reply. They share a failure, too. If the asking caller
    is cancelled, one of the others asks.

    Args:
        judge: The judge; anything that `as_judge` takes.
        cache: Keeps the answers.
        space: Space of the answers; those of other spaces are never read.
        entry_of: From the provider that a question names to its identity in keys, such as
            `ModelJudge.identity`; by default the name itself.

    Raises:
        ConfigError: The judge can answer nothing.
    """

    def __init__(
        self,
        judge: AnyJudge,
        cache: JudgeCache,
        *,
        space: str = "default",
        entry_of: Callable[[str], str] | None = None,
    ) -> None:
        self.judge: object = judge
        """The judge that answers what the cache does not."""
        self._judge = as_judge(judge)
        self._cache = cache
        self._space = space
        found = getattr(judge, "identity", None) if entry_of is None else entry_of
        self._entry_of: Callable[[str], str] = str if found is None else found
        self.after_fork_in_child()
        watch(self)

    def __repr__(self) -> str:
        return f"CachedJudge({self._judge!r}, {self._cache!r})"

    def after_fork_in_child(self) -> None:
        """Forget questions that the parent is asking."""
        self._lock = threading.Lock()
        self._flights: dict[bytes, Flight] = {}

    @property
    def concurrency(self) -> int | None:
        """Questions at a time that the judge itself bounds; None if it does not."""
        return concurrency_of(self._judge)

    @property
    def time_limit_s(self) -> float | None:
        """Most seconds for a question to the judge itself."""
        return time_limit_of(self._judge)

    async def ask(self, request: JudgeRequest) -> JudgeReply:
        """Answer from the cache, else ask.

        Raises:
            JudgeError: There is no usable answer.
        """
        try:
            entry = self._entry_of(request.provider)
            key = cache_key(request, space=self._space, entry=entry)
        except ValueError:
            # No such entry, or a question that cannot be written down: the judge says so.
            return await self._judge.ask(request)
        while True:
            with self._lock:
                flight = self._flights.get(key)
                is_ours = flight is None
                if flight is None:
                    flight = self._flights[key] = Future()
                    # So that a waiter that is cancelled does not cancel it for all.
                    flight.set_running_or_notify_cancel()
            if is_ours:
                return await self._lead(key, flight, request)
            reply = await asyncio.wrap_future(flight)
            if isinstance(reply, JudgeError):
                raise _shared(reply)
            # One that was stored, and is of use to the one who looked it up alone, is not answered.
            if reply is not None and not (reply.is_cached and not request.is_usable(reply)):
                return _free(reply)

    async def _lead(self, key: bytes, flight: Flight, request: JudgeRequest) -> JudgeReply:
        """Look up or ask, for all who want to know."""
        found: Reply | None = None
        try:
            retained = await self._cache.get(key)
            if retained is not None and request.is_usable(retained):
                found = _free(retained)
                return found
            found = await self._judge.ask(request)
            if not found.is_cached and request.is_usable(found):
                await self._cache.put(key, found)
            return found
        except Exception as error:
            found = to_judge_error(error)
            raise
        finally:
            with self._lock:
                self._flights.pop(key, None)
            flight.set_result(found)


def _free(reply: JudgeReply) -> JudgeReply:
    """The same answer, as one that took nothing."""
    return replace(
        reply, is_cached=True, input_tokens=0, output_tokens=0, cost_usd=0.0, earlier=None
    )


def _shared(error: JudgeError) -> JudgeError:
    """The same failure, for one who did not ask himself."""
    return JudgeError(
        error.reason, error.message, error.retry_after_s, error.permanent, JudgeUsage()
    )
