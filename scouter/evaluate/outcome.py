"""The outcome of a task or a record, its reason, and the fault by which a check says the reason."""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

from scouter.errors import DataError


class Outcome(StrEnum):
    """Exactly one of four in the end; `errored` and gate-skipped tasks count against the pass rate.

    Before, in the collector alone, a task may be `pending`: a judge has yet to answer.
    """

    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    SKIPPED = "skipped"
    PENDING = "pending"
    """Not decided yet, and in no rate, alert or gate."""


DECIDED: Final = (Outcome.PASSED, Outcome.FAILED, Outcome.ERRORED, Outcome.SKIPPED)
"""Outcomes in which a task can end; `pending` is not one of them."""
WORST_FIRST: Final = (
    Outcome.PENDING, Outcome.FAILED, Outcome.ERRORED, Outcome.PASSED, Outcome.SKIPPED,
)  # fmt: skip
"""All outcomes, in the order in which one of them decides over several.

A proven failure outranks missing evidence. `pending` comes before both: a pending task can still
fail, and nothing is counted before all is decided.
"""


def worst(outcomes: Iterable[Outcome]) -> Outcome:
    """Find the worst of some outcomes; `skipped` for none."""
    found = set(outcomes)
    return next((outcome for outcome in WORST_FIRST if outcome in found), Outcome.SKIPPED)


class Reason(StrEnum):
    """Reasons for an errored or skipped task."""

    MISSING_PATH = "missing_path"
    """A path leads nowhere in the record, the response or the span."""
    TYPE = "type"
    """A value has a type that the operator cannot compare."""
    EXPECTED = "expected"
    """The expected value does not fit the operator, or its template resolves to nothing."""
    LIMIT = "limit"
    """A value, a trace or a session is larger than what is looked at."""
    NO_SPANS = "no_spans"
    """The task reads spans, and there are none."""
    INCOMPLETE = "incomplete"
    """Spans, parts of them or the end of a conversation are missing that could turn the outcome."""
    NOT_TOLD = "not_told"
    """Calls of tools may have been made that nobody tells of, and that could turn the outcome."""
    PARSE = "parse"
    """A response is in none of the known formats, or a judge's answer is not what was requested."""
    PROVIDER = "provider"
    """Nobody answered for the judge: none is configured, or its provider failed."""
    REFUSAL = "refusal"
    """The judge's model declined to answer."""
    ABSTAINED = "abstained"
    """The judge answered that it cannot tell."""
    DEPENDENCY = "dependency"
    """A task that this one reads from errored, so there is nothing to read."""
    CHECK = "check"
    """A check in Python raised, took too long, or ended its process."""
    AGENT = "agent"
    """The agent raised or took too long, so there is nothing to judge."""
    USER = "user"
    """The simulated user raised or left its brief, so the agent was not tried as it should be."""
    GATE = "gate"
    """Skipped: a gate before this task did not pass."""
    SAMPLED = "sampled"
    """Skipped: the task judges a part of the records, and this one is not among them."""
    BUDGET = "budget"
    """Skipped: what a judge may spend is spent."""
    LATE = "late"
    """Beside a score that passed or failed: it came too late to be compared in order."""
    NOT_APPLICABLE = "not_applicable"
    """Skipped: the condition on which the task is judged does not hold, or it says nothing here."""


NOT_CALLED: Final = frozenset({Reason.SAMPLED, Reason.BUDGET})
"""Reasons of skips that leave a record undecided: a judge was not called."""
OUT_OF_RATE: Final = NOT_CALLED | {Reason.NOT_APPLICABLE}
"""Reasons of skips that are in no rate."""


def is_in_rate(outcome: Outcome, reason: Reason | None) -> bool:
    """Tell whether a task belongs into a pass rate: it was judged, or a gate prevented that."""
    if outcome is Outcome.PENDING:
        return False
    return outcome is not Outcome.SKIPPED or reason is Reason.GATE


class TaskFault(DataError):
    """One task cannot be decided for one record; it becomes that task's `errored` result.

    Args:
        reason: Kind of fault, as results carry it.
        message: The fault, its place, and the value that is there instead.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(reason, message)
        self.reason, self.message = reason, message

    def __str__(self) -> str:
        return self.message


class VacuousFault(TaskFault):
    """The expected value asks nothing: whatever is found would pass, or fail.

    Unlike other expected values that do not fit, it is refused where the task is compiled.
    """
