"""A result's score: the number that stands beside its outcome."""

from typing import Final

from scouter.evaluate.outcome import Outcome

LARGEST: Final = 2.0**53
"""Above it floats skip whole numbers; a number beyond it is no measure of anything."""
ASSERTIONS: Final = frozenset(("Assertion", "TraceAssertion", "AgentAssertion"))
"""Types of tasks that hold or do not hold; the value that they compare is no score."""

_PASSED: Final = Outcome.PASSED
_FAILED: Final = Outcome.FAILED


def as_score(value: object) -> float | None:
    """Read a number as a score.

    Args:
        value: Anything.

    Returns:
        The number, in [-2**53, 2**53]; None for a flag, for NaN, for a number beyond these bounds
        and for all that is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if -LARGEST <= value <= LARGEST else None


def plain_score(outcome: Outcome) -> float | None:
    """The score of a task that holds or does not: 1 passed, 0 failed, None for all else."""
    if outcome is _PASSED:
        return 1.0
    return 0.0 if outcome is _FAILED else None


def own_score(score: float | None, outcome: Outcome) -> float | None:
    """A score that says more than the outcome; None where it is the 1 or 0 of that."""
    return None if score == plain_score(outcome) else score


def score_of(
    task_type: str, outcome: Outcome, actual: object, stated: float | None = None
) -> float | None:
    """Tell a result's score from the fields that every result has.

    Args:
        task_type: Such as `Assertion`.
        outcome: Outcome of the task.
        actual: The value that was compared.
        stated: The score of a decided task, where it does not follow from the others.

    Returns:
        None where the task was not decided. Of assertions 1.0 if it passed and 0.0 if it failed;
        of all other tasks the compared value, and where that is no score the same 1.0 or 0.0.
    """
    plain = plain_score(outcome)
    if plain is not None and stated is not None:
        return stated
    if plain is None or task_type in ASSERTIONS:
        return plain
    given = as_score(actual)
    return plain if given is None else given
