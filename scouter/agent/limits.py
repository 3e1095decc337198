"""Limits of one provider entry, at a time and in a minute, shared by all who ask it."""

import asyncio
import math
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Final
from weakref import WeakValueDictionary

from scouter.agent.entries import ProviderEntry
from scouter.errors import TransientError
from scouter.transport.process import watch

MINUTE_S: Final = 60.0


class PausedError(TransientError):
    """The provider requested a longer pause than anyone here wants to wait."""


class _Use:
    """One question within the window of the last minute."""

    __slots__ = ("began", "is_counted", "tokens")

    def __init__(self, began: float, tokens: int) -> None:
        self.began, self.tokens, self.is_counted = began, tokens, False


class Limits:
    """Lets questions begin in the order in which they came, and no more of them than is allowed.

    All of them are sent in one event loop. In any 60 seconds at most so many questions begin, and
    their tokens add up to at most so many; tokens are estimated before the call and corrected after
    it. A question that is cancelled while waiting leaves the queue. One that is cancelled later
    gives back its place by `Ticket.leave`.

    Args:
        concurrency: Most questions at a time.
        requests_per_minute: Most questions started in any 60 seconds.
        tokens_per_minute: Most tokens of those.
        max_pause_s: Longest pause that is waited for.
        clock: Seconds that never run backwards.

    Cost: constant for a question that need not wait; else linear in the questions of a minute.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        max_pause_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._concurrency = concurrency
        self._requests = requests_per_minute
        self._tokens = tokens_per_minute
        self._max_pause_s = max_pause_s
        self._clock = clock
        self._uses: deque[_Use] = deque()
        self._used_tokens = 0
        self._paused_until = -math.inf
        self.after_fork_in_child()
        watch(self)

    def after_fork_in_child(self) -> None:
        """Forget the questions that the parent is asking."""
        self._inside = 0
        self._waiting: deque[asyncio.Event] = deque()
        """Events that wake the questions that wait, the first one in front."""

    async def enter(self, tokens: int = 0) -> "Ticket":
        """Wait until a question may begin.

        Args:
            tokens: Estimate of what it will take; more than a whole minute's counts as that.

        Raises:
            PausedError: The provider's pause is longer than `max_pause_s`.
        """
        if self._tokens is not None:
            tokens = min(tokens, self._tokens)
        if not self._waiting and self._delay(tokens) <= 0:
            return self._admit(tokens)
        news = asyncio.Event()
        self._waiting.append(news)
        try:
            while True:
                news.clear()
                delay = self._delay(tokens) if self._waiting[0] is news else math.inf
                if delay <= 0:
                    return self._admit(tokens)
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if delay == math.inf else delay):
                        await news.wait()
        finally:
            self._waiting.remove(news)
            self._wake_first()

    def pause(self, seconds: float) -> None:
        """Let nobody begin for a while; a pause that ends later stays."""
        self._paused_until = max(self._paused_until, self._clock() + seconds)

    def _delay(self, tokens: int) -> float:
        """Seconds until a question may begin: 0 is now, infinity is until another one ends."""
        now = self._clock()
        pause = self._paused_until - now
        if pause > self._max_pause_s:
            raise PausedError("the provider requested a pause", round(pause, 1))
        if self._inside >= self._concurrency:
            return math.inf
        self._forget(now)
        return max(pause, self._delay_of_minute(tokens, now), 0.0)

    def _delay_of_minute(self, tokens: int, now: float) -> float:
        delay = 0.0
        if self._requests is not None and len(self._uses) >= self._requests:
            delay = self._uses[len(self._uses) - self._requests].began + MINUTE_S - now
        if self._tokens is not None:
            excess = self._used_tokens + tokens - self._tokens
            for use in self._uses:
                if excess <= 0:
                    break
                excess -= use.tokens
                delay = max(delay, use.began + MINUTE_S - now)
        return delay

    def _forget(self, now: float) -> None:
        while self._uses and now >= self._uses[0].began + MINUTE_S:
            use = self._uses.popleft()
            use.is_counted = False
            self._used_tokens -= use.tokens

    def _admit(self, tokens: int) -> "Ticket":
        self._inside += 1
        use = _Use(self._clock(), tokens)
        if self._requests is not None or self._tokens is not None:
            use.is_counted = True
            self._uses.append(use)
            self._used_tokens += tokens
        return Ticket(self, use)

    def _wake_first(self) -> None:
        if self._waiting:
            self._waiting[0].set()

    def leave(self, use: _Use, tokens: int | None) -> None:
        """End a question; `Ticket.leave` does this once."""
        self._inside -= 1
        if tokens is not None and use.is_counted:
            self._used_tokens += tokens - use.tokens
            use.tokens = tokens
        self._wake_first()


class Ticket:
    """The right to ask one question."""

    __slots__ = ("_is_open", "_limits", "_use")

    def __init__(self, limits: Limits, use: _Use) -> None:
        self._limits, self._use, self._is_open = limits, use, True

    def leave(self, tokens: int | None = None) -> None:
        """Give the place to the next one; a second time does nothing.

        Args:
            tokens: Tokens that the question really took. None leaves the estimate, as for a
                question that failed and may have been billed.
        """
        if self._is_open:
            self._is_open = False
            self._limits.leave(self._use, tokens)


_SHARED: Final[WeakValueDictionary[tuple[object, ...], Limits]] = WeakValueDictionary()
_SHARED_LOCK: Final = threading.Lock()


def limits_of(entry: ProviderEntry) -> Limits:
    """The limits of an entry: the same object for all judges of this process that ask it."""
    key = (
        entry.name, entry.kind, entry.base_url, entry.key_variable, entry.concurrency,
        entry.requests_per_minute, entry.tokens_per_minute, entry.max_pause_s,
    )  # fmt: skip
    with _SHARED_LOCK:
        found = _SHARED.get(key)
        if found is None:
            found = _SHARED[key] = Limits(
                concurrency=entry.concurrency,
                requests_per_minute=entry.requests_per_minute,
                tokens_per_minute=entry.tokens_per_minute,
                max_pause_s=entry.max_pause_s,
            )
        return found
