"""Fetch sizes for servers that count messages and not bytes."""

from collections.abc import Sequence
from typing import Final

_FIRST: Final = 8
_MOST: Final = 64
_BYTES: Final = 8 * 2**20


class ReadSize:
    """Few while messages are large, more while they are small; a power of two.

    It goes by the messages seen last, so that a single read may hold more than the bound: at most
    `count` messages of the largest size that the server takes.

    Args:
        max_bytes: Bytes that a read should hold at most.
    """

    def __init__(self, max_bytes: int = _BYTES) -> None:
        self._max_bytes = max_bytes
        self.count = _FIRST
        """Messages to ask for."""

    def saw(self, sizes: Sequence[int]) -> None:
        """Learn from what came in.

        Args:
            sizes: Bytes of each message.
        """
        if not sizes:
            return
        room = self._max_bytes // max(1, *sizes)
        while self.count > 1 and self.count > room:
            self.count //= 2
        if self.count < _MOST and self.count * 2 <= room:
            self.count *= 2
