"""The cost of the questions of one judge task."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from pydantic import JsonValue


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeUsage:
    """Sums over the questions of one task and record; a sum is None where no reply tells.

    Args:
        calls: Questions that were put, answered or not; each attempt at one, where its provider
            failed, is a question of its own.
        cached: Questions that were not put, as their answers were there already; they take
            nothing.
        input_tokens: Read by the model.
        output_tokens: Written by it.
        cost_usd: In US dollars, of the calls whose cost is known.
        unpriced_calls: Calls whose cost is not known, and which `cost_usd` leaves out; all of them
            where that is None.
    """

    calls: int = 0
    cached: int = 0
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None
    unpriced_calls: int = 0

    def __post_init__(self) -> None:
        if self.cost_usd is None:
            object.__setattr__(self, "unpriced_calls", self.calls)  # frozen for everybody else

    def to_json(self) -> dict[str, JsonValue]:
        """Write all fields as plain JSON."""
        return asdict(self)


def sum_of(usages: Iterable[JudgeUsage]) -> JudgeUsage:
    """Add up what questions took.

    Answers that were there already take nothing, and do not make a sum known.
    """
    found = list(usages)
    cached = sum(each.cached for each in found)
    asked = [each for each in found if each.calls]
    if not asked:
        return (
            JudgeUsage(cached=cached, input_tokens=0, output_tokens=0, cost_usd=0.0)
            if cached
            else JudgeUsage()
        )
    read = [each.input_tokens for each in asked if each.input_tokens is not None]
    written = [each.output_tokens for each in asked if each.output_tokens is not None]
    paid = [each.cost_usd for each in asked if each.cost_usd is not None]
    return JudgeUsage(
        calls=sum(each.calls for each in asked),
        cached=cached,
        input_tokens=sum(read) if read else None,
        output_tokens=sum(written) if written else None,
        cost_usd=sum(paid) if paid else None,
        unpriced_calls=sum(each.unpriced_calls for each in asked),
    )
