"""The conversation of an attempt that is running."""

import json
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from scouter.errors import DataError
from scouter.model.ids import uuid7
from scouter.model.json_value import to_json_value

Turn: TypeAlias = dict[str, Any]
"""One exchange: `{"user": message, "agent": response}`."""


@dataclass(slots=True, kw_only=True)
class Talk:
    """One conversation with an agent; a retry is another one."""

    session: str = field(default_factory=uuid7)
    """Its id."""
    turns: list[Turn] = field(default_factory=list[Turn])
    """The exchanges so far."""
    times_ns: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """Moments of each question to the agent and of its answer, in ns since the epoch.

    They are of the clock of the spans, so that each span can be assigned to its exchange.
    """
    agent: Callable[[str], Any] | None = None
    """Function that answers in the conversation; None before the first message."""

    def note(self, message: str, response: object, asked_ns: int) -> None:
        """Remember an exchange that ends now."""
        self.turns.append({"user": message, "agent": response})
        self.times_ns.append((asked_ns, time.time_ns()))

    def forget_after(self, turns: int) -> None:
        """Keep so many exchanges."""
        del self.turns[turns:], self.times_ns[turns:]


TALK: Final[ContextVar[Talk | None]] = ContextVar("scouter_replay_talk", default=None)
"""Conversation of the attempt that this context belongs to; None outside of attempts."""


def running_talk() -> Talk:
    """The conversation of the running attempt; a new one if none is running."""
    return TALK.get() or Talk()


def turns_of_attempt() -> tuple[Turn, ...]:
    """The exchanges of the running attempt so far, the last one too; none if none is running."""
    return tuple(running_talk().turns)


def messages_of(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Exchanges as chat messages, oldest first.

    Returns:
        `{"role": "user" or "assistant", "content": text}` each; an answer that is no text as JSON.
    """
    return [
        {"role": role, "content": _content(turn[name])}
        for turn in turns
        for role, name in (("user", "user"), ("assistant", "agent"))
    ]


def _content(said: object) -> str:
    if isinstance(said, str):
        return said
    if said is None:
        return ""
    try:
        return json.dumps(to_json_value(said), ensure_ascii=False)
    except DataError:  # an answer that only `build_scenario_response` can read
        return str(said)
