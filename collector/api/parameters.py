"""Query parameters that several routes read: times and cursors."""

import base64
import binascii

from collector.receivers.problem import ProblemError
from collector.receivers.times import parse_time_ns
from scouter.errors import DataError


def read_time(name: str, value: str | None) -> int | None:
    """Read a time given in the query.

    Raises:
        ProblemError: 400; names the parameter.
    """
    if value is None:
        return None
    try:
        # A plus sign in a query means a space; in a time it can only have been a plus sign.
        return parse_time_ns(value.replace(" ", "+") if "T" in value.upper() else value)
    except DataError as error:
        raise ProblemError(400, f"{name}: {error}") from error


def write_cursor(position: tuple[int, int] | None) -> str | None:
    """Write a position as a text that clients pass back unread."""
    if position is None:
        return None
    return base64.urlsafe_b64encode(f"{position[0]}.{position[1]}".encode()).decode().rstrip("=")


def read_cursor(text: str | None) -> tuple[int, int] | None:
    """Read a cursor.

    Raises:
        ProblemError: 400; it was not written by `write_cursor`.
    """
    if text is None:
        return None
    try:
        padded = text.encode("ascii") + b"=" * (-len(text) % 4)
        commit, _, ordinal = base64.b64decode(padded, b"-_", validate=True).partition(b".")
        position = int(commit), int(ordinal)
        if write_cursor(position) != text or not all(0 <= part < 2**62 for part in position):
            raise ValueError
    except (ValueError, binascii.Error) as error:
        raise ProblemError(
            400, "cursor: not a cursor of this API; pass next_cursor of an answer unchanged"
        ) from error
    return position
