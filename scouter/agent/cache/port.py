"""The port of the cache: where usable answers are kept by key."""

from typing import Final, Protocol

from scouter.evaluate.judge.port import JudgeReply

MAX_BYTES: Final = 256 * 1024 * 1024
MAX_AGE_S: Final = 30 * 24 * 3600.0
MAX_CHARACTERS: Final = 500_000
"""Most characters of one answer, written as JSON, that a collector keeps for a client."""


class JudgeCache(Protocol):
    """Keeps answers. Called from any event loop and thread, many calls at a time.

    Neither method raises: what cannot be read is not there, and what cannot be kept is not. An
    implementation says once, in the log, that it is of no use.
    """

    async def get(self, key: bytes) -> JudgeReply | None:
        """Look an answer up.

        Args:
            key: From `cache_key`.

        Returns:
            The answer as it was put; None where there is none, or it is too old.
        """
        ...

    async def put(self, key: bytes, reply: JudgeReply) -> None:
        """Keep an answer, in the place of an earlier one; the oldest make room for it."""
        ...

    def close(self) -> None:
        """Let go of what is open; a later call opens it again."""
        ...
