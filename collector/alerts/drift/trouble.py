"""Troubles: what keeps results from being made, or from being complete, as data."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Trouble(StrEnum):
    """Kinds of findings, each with its words in the headline of an alert."""

    headline: str

    def __new__(cls, value: str, headline: str) -> "Trouble":
        """Make a kind, which has a headline in any case."""
        made = str.__new__(cls, value)
        made._value_, made.headline = value, headline
        return made

    NOT_EVALUATED = "not_evaluated", "records are not evaluated"
    """Records were accepted long ago and have no evaluation."""
    BEHIND = "behind", "evaluation is behind"
    """There is more to be evaluated than the collector gets through."""
    JUDGE_WAITS = "judge_waits", "tasks wait for a judge"
    JUDGE_BUDGET = "judge_budget", "a judge's budget is spent"
    ERRORED = "errored", "most results of a task are errors"
    UNKNOWN_PROFILE = "unknown_profile", "records name no profile that can evaluate them"
    INCOMPLETE = "incomplete", "traces lack spans"
    """They lacked them at their deadline."""
    DEAD_LETTERS = "dead_letters", "much of what comes in cannot be used"
    DROPPED = "dropped", "senders give up records or spans"
    OVERTAKEN = "overtaken", "a broker deleted messages before they were read"
    LOST = "lost", "accepted records or spans are gone"
    """They are gone from the store."""
    SILENT = "silent", "results have stopped"
    """No result in an hour that mostly has some."""


class TroubleKey(NamedTuple):
    """The name of a cause: two findings with one name are the same."""

    space: str
    trouble: Trouble
    subject: str
    """Alias of the profile, where it is about one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something that should not be."""

    space: str
    trouble: Trouble
    subject: str = ""
    """Alias of the profile, where it is about one."""
    message: str
    """The finding, and the remedy."""
    since_ns: int
    """Time at which it was found first."""

    @property
    def key(self) -> TroubleKey:
        """Its cause."""
        return TroubleKey(self.space, self.trouble, self.subject)
