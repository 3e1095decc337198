"""The exchanges of an attempt that is running."""

from contextvars import ContextVar
from typing import Any, Final, TypeAlias

Turn: TypeAlias = dict[str, Any]
"""One exchange: `{"user": message, "agent": response}`."""

TURNS: Final[ContextVar[list[Turn] | None]] = ContextVar("scouter_replay_turns", default=None)
"""Those of the attempt that this context belongs to; None outside of attempts."""


def note_turn(message: str, response: object) -> None:
    """Remember an exchange of the running attempt, if one is running."""
    turns = TURNS.get()
    if turns is not None:
        turns.append({"user": message, "agent": response})


def turns_of_attempt() -> tuple[Turn, ...]:
    """The exchanges of the running attempt so far, the last one too; none if none is running."""
    return tuple(TURNS.get() or ())
