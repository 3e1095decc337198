"""Troubles: what keeps results from being made, or from being complete, as data."""

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple


class Trouble(StrEnum):
    """Kinds of findings."""

    NOT_EVALUATED = "not_evaluated"
    """Records were accepted long ago and have no evaluation."""
    BEHIND = "behind"
    """Evaluation is behind: there is more of it than the collector gets through."""
    JUDGE_WAITS = "judge_waits"
    """Tasks have waited long for a judge."""
    JUDGE_BUDGET = "judge_budget"
    """A judge was not asked, as its budget is spent."""
    ERRORED = "errored"
    """Most results of a task are errors."""
    UNKNOWN_PROFILE = "unknown_profile"
    """Records were accepted and not evaluated, as no profile has the name in them."""
    INCOMPLETE = "incomplete"
    """Traces lacked spans at their deadline."""
    DEAD_LETTERS = "dead_letters"
    DROPPED = "dropped"
    """Senders gave up records or spans."""
    OVERTAKEN = "overtaken"
    """A broker deleted messages before they were read."""
    LOST = "lost"
    """Accepted records or spans are gone from the store."""
    SILENT = "silent"
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
