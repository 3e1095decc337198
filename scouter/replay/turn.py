"""The conversation of an attempt that is running."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias, cast

from scouter.errors import DataError, ScouterError
from scouter.model.ids import uuid7
from scouter.model.json_value import to_json_value

Turn: TypeAlias = dict[str, Any]
"""One exchange: `{"user": message, "agent": response}`."""


_REPEATS: Final = 4
"""Messages in a row that say the same, from which on a user is stuck."""
_ECHO: Final = 40
"""Letters from which on one repeated answer is an echo; a shorter one may be courtesy."""
_MODEL: Final = re.compile(
    r"\b(?:I am|I['’]m) (?:just |only )?an? (?:AI|(?:large )?language model)\b"
    r"|\bas an? (?:AI|(?:large )?language model)\b[^.?!]*\bI\b"
    r"|\b(?:als|ich bin(?: nur)?) (?:eine? )?(?:KI|(?:großes )?Sprachmodell)(?![-\w])"
    r"|\b(?:en tant qu['’]|en tant que |je suis (?:une? )?)(?:IA|modèle de langage)(?![-\w])"
    r"|\b(?:como|soy|sou) (?:una? |uma? )?(?:IA|modelo de (?:lenguaje|linguagem))(?![-\w])"
    r"|\b(?:как|я) (?:ИИ|языковая модель)(?![-\w])"
    r"|(?:作为|作為|我是)(?:一个|一個|一名)?(?:AI|人工智能|大?语言模型)|(?:AI|言語モデル)として",
    re.IGNORECASE,
)
"""In English, German, French, Spanish, Portuguese, Russian, Chinese and Japanese."""


class Line(str):
    """A line of a script: it is said as it stands, so that it departs from nothing."""

    __slots__ = ()


class UserFaultError(ScouterError):
    """The simulated user left its brief, so that the conversation says nothing about the agent."""

    def __init__(self, scenario_id: str, problem: str) -> None:
        super().__init__(scenario_id, problem)
        self.scenario_id, self.problem = scenario_id, problem

    def __str__(self) -> str:
        return (
            f"scenario {self.scenario_id!r}: the simulated user left its brief: {self.problem}; "
            "change the persona, or who plays it"
        )


def departure(message: str, turns: Sequence[Turn]) -> str | None:
    """Say how a simulated user left its brief, as far as that can be seen without a model.

    Args:
        message: Its next message.
        turns: The exchanges before it.

    Returns:
        The fault in words; None for a message that a user may well say.
    """
    if isinstance(message, Line):
        return None
    said = [_plain(turn["user"]) for turn in turns] + [_plain(message)]
    heard = [_plain(turn["agent"]) for turn in turns]
    if not said[-1]:
        return "its message is empty"
    if _MODEL.search(message):
        return f"it speaks as a model: {message!r:.200}"
    if len(said) >= _REPEATS and len(set(said[-_REPEATS:])) == 1:
        return f"it said the same {_REPEATS} times in a row: {message!r:.200}"
    is_own = said[-1] in said[:-1]  # it is the agent that repeats the user
    is_again = len(heard) > 1 and said[-2] == heard[-2]
    if said[-1] == heard[-1] and (is_again or (len(said[-1]) >= _ECHO and not is_own)):
        return f"it repeats what the agent said: {message!r:.200}"
    return None


def _plain(said: object) -> str:
    """What was said in one case and with single spaces."""
    return " ".join(_content(said).casefold().split())


@dataclass(slots=True, kw_only=True)
class LiveConversation:
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
    arguments: Callable[[int], Mapping[str, object]] = field(default=lambda _: {})
    """Gives what the agent can take by further names with the message of a turn, from 0."""

    def given(self) -> Mapping[str, object]:
        """What the agent can take by further names with the next message."""
        return self.arguments(len(self.turns))

    def note(self, message: str, response: object, sent_ns: int) -> None:
        """Remember an exchange that ends now."""
        self.turns.append({"user": message, "agent": response})
        self.times_ns.append((sent_ns, time.time_ns()))

    def forget_after(self, turns: int) -> None:
        """Keep so many exchanges."""
        del self.turns[turns:], self.times_ns[turns:]


CONVERSATION: Final[ContextVar[LiveConversation | None]] = ContextVar(
    "scouter_replay_conversation", default=None
)
"""Conversation of the attempt that this context belongs to; None outside of attempts."""


def running_conversation() -> LiveConversation:
    """The conversation of the running attempt; a new one if none is running."""
    return CONVERSATION.get() or LiveConversation()


def turns_of_attempt() -> tuple[Turn, ...]:
    """The exchanges of the running attempt so far, the last one too; none if none is running."""
    return tuple(running_conversation().turns)


def messages_of(turns: Sequence[Turn]) -> list[dict[str, str]]:
    """Exchanges as chat messages, oldest first.

    Returns:
        `{"role": "user" or "assistant", "content": text}` each. Of an answer that is an object with
        a text `response` it is that text; other answers that are no text are JSON.
    """
    return [
        {"role": role, "content": _content(turn[name])}
        for turn in turns
        for role, name in (("user", "user"), ("assistant", "agent"))
    ]


def _response_of(said: object) -> str | None:
    found = cast("Mapping[str, object]", said).get("response") if isinstance(said, dict) else None
    return found if isinstance(found, str) else None


def _content(said: object) -> str:
    if isinstance(said, str):
        return said
    if said is None:
        return ""
    text = _response_of(said)
    if text is not None:
        return text
    try:
        return json.dumps(to_json_value(said), ensure_ascii=False)
    except DataError:  # an answer that only `build_scenario_response` can read
        return str(said)
