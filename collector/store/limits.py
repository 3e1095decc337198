"""Bounds on what is read into memory at once, and how a read says that it goes beyond them."""

from typing import Final

from scouter.errors import TransientError

MOST_SPANS: Final = 100_000
"""Spans that are read at once: about 200 MB in memory."""
MOST_SPAN_BYTES: Final = 64 * 2**20
"""The same in bytes, as they were sent."""


class NoMemoryError(TransientError):
    """A read needs more memory than is free; one that asks for less may find it."""


class TooLargeError(NoMemoryError):
    """A read asks for more than is ever read at once; to ask for the same again is useless."""
