"""Many answers to one question, and what they amount to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from pydantic import JsonValue

from scouter.evaluate.engine.judge_answer import is_number
from scouter.evaluate.judge.port import JudgeError, JudgeReply
from scouter.evaluate.judge.usage import JudgeUsage, sum_of
from scouter.evaluate.outcome import DECIDED, Outcome, Reason, TaskFault
from scouter.evaluate.results.task_result import EvalTaskResult


@dataclass(frozen=True, slots=True)
class Vote:
    """Vote of one sample of a judge task."""

    result: EvalTaskResult
    """Errored where the sample has no vote."""
    answer: JsonValue
    """The judge's whole answer, for dependent tasks."""


def majority_of(samples: int) -> int:
    """The least number of votes that is more than half."""
    return samples // 2 + 1


def still_needed(votes: Sequence[Vote], samples: int) -> int:
    """Count the samples that must still be asked at once for a majority.

    Returns:
        As many as would decide if they agreed with those in front; 0 where the majority is
        there, or can no more be reached.
    """
    lead = max(count(votes, Outcome.PASSED), count(votes, Outcome.FAILED))
    needed = majority_of(samples) - lead
    return needed if 0 < needed <= samples - len(votes) else 0


def count(votes: Sequence[Vote], outcome: Outcome) -> int:
    """Count the votes for an outcome."""
    return sum(vote.result.outcome is outcome for vote in votes)


def winner(votes: Sequence[Vote], samples: int) -> Vote:
    """Find the first vote for the outcome that more than half of all samples have.

    Raises:
        TaskFault: There is none. `ABSTAINED` for a tie; where samples errored, the reason that
            most of them have.
    """
    for outcome in (Outcome.PASSED, Outcome.FAILED):
        if count(votes, outcome) >= majority_of(samples):
            return next(vote for vote in votes if vote.result.outcome is outcome)
    raise _undecided(votes, f"no majority in {samples} samples: {tally(votes)}")


def middle(votes: Sequence[Vote], samples: int) -> tuple[float, Vote]:
    """Find the median of what the votes compared, and the first vote that is nearest to it.

    Raises:
        TaskFault: Fewer than a majority of the samples have a value; or one is no number.
    """
    valid = [vote for vote in votes if vote.result.outcome is not Outcome.ERRORED]
    numbers: list[float] = []
    for vote in valid:
        value = vote.result.actual
        if not is_number(value):
            raise TaskFault(Reason.TYPE, f"the median is of numbers, a sample has {value!r:.100}")
        numbers.append(value)
    if len(numbers) < majority_of(samples):
        raise _undecided(votes, f"{len(numbers)} of {samples} samples have a number")
    found = median(numbers)
    nearest = min(range(len(numbers)), key=lambda at: abs(numbers[at] - found))
    return found, valid[nearest]


def _undecided(votes: Sequence[Vote], text: str) -> TaskFault:
    errored = [vote.result for vote in votes if vote.result.outcome is Outcome.ERRORED]
    if not errored:
        return TaskFault(Reason.ABSTAINED, f"{text}; a tie is no outcome")
    reasons = Counter(str(result.reason) for result in errored)
    reason = Reason(reasons.most_common(1)[0][0])
    first = next(result for result in errored if result.reason is reason)
    return TaskFault(reason, f"{text}; {first.message}")


def tally(votes: Sequence[Vote]) -> str:
    """Say how the votes are spread: `2 passed, 1 failed`."""
    counts = ((count(votes, outcome), outcome) for outcome in DECIDED)
    return ", ".join(f"{number} {outcome}" for number, outcome in counts if number)


def usage_of(replies: Sequence[JudgeReply | JudgeError]) -> JudgeUsage | None:
    """Add up what replies tell of what they took.

    Returns:
        None where nobody was asked and nothing was there.
    """
    total = sum_of(reply.taken for reply in replies)
    return total if total.calls or total.cached else None
