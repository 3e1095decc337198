"""The output of an evaluator: one score for each item, and their mean."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.report.item import EvalItem, plain_json
from scouter.evaluate.report.rules import Compat, mean_score

MOST_AT_ONCE: Final = 8
_VLM: Final = "vlm_field_score"


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemVerdict:
    """One evaluator's verdict about one item."""

    id: JsonValue
    score: float | None = None
    """Score from 0 to 1; None where there is none."""
    reasoning: JsonValue = None
    is_skipped: bool = False
    """The item is not for this evaluator."""
    error: str = ""
    """Reason why there is no score, or a score of 0 that no judge gave; empty for none."""
    vlm_field_score: float | None = None
    """Mean of the sections that a vision model filled."""

    def to_json(self, compat: Compat, *, with_vlm: bool = False) -> dict[str, JsonValue]:
        """Write it as evaluators' output files have it."""
        found: dict[str, JsonValue] = {
            "id": self.id, "score": self.score, "reasoning": self.reasoning,
        }  # fmt: skip
        if compat != "sound":
            found["error"] = None
        if with_vlm and not (compat == "sound" and self.is_skipped):
            found[_VLM] = self.vlm_field_score
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluatorOutput:
    """The verdicts of one evaluator."""

    items: tuple[ItemVerdict, ...]
    compat: Compat = "sound"
    with_vlm: bool = False
    """True if the items have a score of their visual sections."""
    average_score: float | None = field(init=False)
    """Mean of the items that have a score; None where none has."""

    def __post_init__(self) -> None:
        mean = mean_score((item.score for item in self.items), self.compat)
        object.__setattr__(self, "average_score", mean)

    @property
    def average_vlm_field_score(self) -> float | None:
        """Mean of the visual sections' scores of the items that have one.

        In `vss` an item without one counts 0, a skipped one too.
        """
        found = [item.vlm_field_score for item in self.items]
        if self.compat == "vss":
            return sum(score or 0.0 for score in found) / len(found) if found else None
        return mean_score(found, "sound")

    @property
    def n_skipped(self) -> int:
        """Items that are not for this evaluator."""
        return sum(item.is_skipped for item in self.items)

    @property
    def n_errored(self) -> int:
        """Items without a score that should have one."""
        return sum(item.score is None and not item.is_skipped for item in self.items)

    @property
    def n_scored(self) -> int:
        """Items with a score."""
        return len(self.items) - self.n_skipped - self.n_errored

    def to_json(self) -> dict[str, JsonValue]:
        """Write the whole output file."""
        found: dict[str, JsonValue] = {"average_score": self.average_score}
        if self.with_vlm:
            found["average_vlm_field_score"] = self.average_vlm_field_score
        found["eval_output_items"] = [
            item.to_json(self.compat, with_vlm=self.with_vlm) for item in self.items
        ]
        return found


def skipped(item: EvalItem, method_id: str) -> ItemVerdict:
    """The verdict about an item that is not for an evaluator."""
    reasoning = f"Skipped: not marked for {method_id} evaluation"
    return ItemVerdict(id=item.id, reasoning=reasoning, is_skipped=True)


def errored(item: EvalItem, message: str) -> ItemVerdict:
    """The verdict about an item that could not be evaluated: no score."""
    return ItemVerdict(id=item.id, reasoning={"error": message}, error=message)


async def judge_all(
    items: Sequence[EvalItem],
    judge: Callable[[EvalItem], Awaitable[ItemVerdict]],
    compat: Compat,
    *,
    most: int = MOST_AT_ONCE,
    with_vlm: bool = False,
    on_verdict: Callable[[ItemVerdict], None] | None = None,
) -> EvaluatorOutput:
    """Evaluate items, several at a time.

    An item whose evaluation raises is errored and has no score; the originals give it 0, which
    counts in their mean.

    Args:
        items: The items; the verdicts keep their order.
        judge: Evaluates one item.
        compat: Name of the rules.
        most: Items at a time.
        with_vlm: Whether verdicts have a score of the visual sections.
        on_verdict: Is told each verdict as it comes.
    """
    slots = asyncio.Semaphore(most)

    async def one(item: EvalItem) -> ItemVerdict:
        async with slots:
            try:
                found = await judge(item)
            except Exception as error:  # noqa: BLE001 - one item's failure is its verdict
                found = errored(item, f"Evaluator error: {error}")
                found = found if compat == "sound" else replace(found, score=0.0)
        found = replace(found, reasoning=plain_json(found.reasoning))
        if on_verdict is not None:
            on_verdict(found)
        return found

    verdicts = await asyncio.gather(*map(one, items))
    return EvaluatorOutput(items=tuple(verdicts), compat=compat, with_vlm=with_vlm)
