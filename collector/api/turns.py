"""Turns of questions: the spaces take turns in being answered."""

import asyncio
from collections import OrderedDict, deque
from typing import Final

from collector.problem import ProblemError

_WAITING: Final = 100
"""Questions of one space that wait; who comes behind them would hardly wait to the end."""
_RETRY_AFTER_S: Final = 5


class Turns:
    """Places for questions: one that is free is taken at once, else each space gets one in turn.

    So a space that asks a lot waits for itself, and the others for one of its questions at most.
    For one event loop.

    Args:
        places: Number of questions at a time.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        """By space, the one whose turn is next first; only while no place is free."""

    async def take(self, space: str) -> bool:
        """Take a place, to be given back.

        Returns:
            True if there was none at first.

        Raises:
            ProblemError: 503, too many questions of the space wait already.
        """
        if self._free:
            self._free -= 1
            return False
        queue = self._waiting.setdefault(space, deque())
        if len(queue) >= _WAITING:
            raise ProblemError(
                503, f"{_WAITING} questions of this space wait already", _RETRY_AFTER_S
            )
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it came at the same moment
                self.give_back()
            raise
        return True

    def give_back(self) -> None:
        """Give a place to the next space's first question."""
        while self._waiting:
            space, queue = next(iter(self._waiting.items()))
            turn = queue.popleft()
            if queue:
                self._waiting.move_to_end(space)
            else:
                del self._waiting[space]
            if not turn.done():  # else it was cancelled
                turn.set_result(None)
                return
        self._free += 1
