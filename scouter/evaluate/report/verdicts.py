"""The output of an evaluator: one score for each item, and their mean."""

from dataclasses import dataclass, field
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.outcome import Reason
from scouter.evaluate.report.item import EvalItem
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
    reason: Reason | None = None
    """Kind of that reason, where a judge gave no score."""
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


def errored(item: EvalItem, message: str, reason: Reason | None = None) -> ItemVerdict:
    """The verdict about an item that could not be evaluated: no score."""
    return ItemVerdict(id=item.id, reasoning={"error": message}, error=message, reason=reason)
