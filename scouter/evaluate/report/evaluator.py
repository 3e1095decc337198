"""Evaluators of items: their common part, their input, and their output."""

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.judge.loops import run_apart
from scouter.evaluate.outcome import Reason
from scouter.evaluate.report.field_metrics import Compat, check_compat, mean_score
from scouter.evaluate.report.steps import TrajectoryStep
from scouter.model.json_value import to_json_value

METHODS_KEY: Final = "evaluation_method"
EXPECTED_CALLS_KEY: Final = "trajectory_ground_truth"
HISTORY_KEY: Final = "_conversation_history"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalItem:
    """One question, or one turn of a conversation."""

    id: JsonValue
    """Id of the dataset's row; a turn has one such as `mt_001_turn_1`."""
    question: JsonValue = ""
    ground_truth: JsonValue = None
    """The right answer, or the path of the reference of a report; None where there is none."""
    answer: JsonValue = None
    """Answer of the agent; None where there was none."""
    entry: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """The row of the dataset, or the turn."""
    steps: tuple[TrajectoryStep, ...] = ()
    """Steps of the agent's work, in the order in which they ended."""
    earlier: Mapping[str, tuple[TrajectoryStep, ...]] = field(
        default_factory=dict[str, tuple[TrajectoryStep, ...]]
    )
    """Steps of the agent's work in earlier turns, by the turn's id."""
    tools: tuple[JsonValue, ...] = ()
    """Definitions of the tools that the agent had, as its spans tell them."""
    failure: str = ""
    """Reason why the agent gave no answer; empty if it gave one."""
    unreported: str = ""
    """Reason why `steps` may not be all; empty if they are."""

    @property
    def methods(self) -> list[str]:
        """Ids of the evaluators that are to look at it.

        Raises:
            DataError: The row has no list of them.
        """
        found = self.entry.get(METHODS_KEY)
        if not isinstance(found, list):
            fault = "missing required 'evaluation_method' field"
            if found is not None:
                fault = f"has invalid 'evaluation_method' field: {found}"
            raise DataError(
                f"Item {self.id} {fault}. Must be a list like "
                '["qa"], ["trajectory"], ["report"], or ["qa", "trajectory", "report"]'
            )
        return [str(each) for each in found]

    @property
    def has_expected_calls(self) -> bool:
        """True if the row names the expected calls; an empty list does, too."""
        return self.entry.get(EXPECTED_CALLS_KEY) is not None

    @property
    def history(self) -> list[dict[str, JsonValue]]:
        """The turns before this one: `turn_id`, `query` and `answer` each."""
        found = self.entry.get(HISTORY_KEY)
        turns = found if isinstance(found, list) else []
        return [cast("dict[str, JsonValue]", turn) for turn in turns if isinstance(turn, dict)]


def plain_json(value: object) -> JsonValue:
    """Write a value as JSON, whatever the reader of a dataset made: NaN is null, a time a text."""
    if isinstance(value, Mapping):
        reported = cast("Mapping[object, object]", value)
        return {str(name): plain_json(each) for name, each in reported.items()}
    if isinstance(value, list | tuple):
        return [plain_json(each) for each in cast("list[object]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        return to_json_value(value)
    except ValueError:
        return str(value)


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


class ItemEvaluator(ABC):
    """Evaluates items one by one, several at a time.

    Args:
        evaluation_method_id: Items that do not name it are skipped; empty skips none.
        compat: Name of the rules.
        max_concurrency: Items at a time.
        with_vlm: Whether verdicts have a score of the visual sections.

    Raises:
        ConfigError: There is no such profile of rules.
    """

    def __init__(
        self,
        evaluation_method_id: str,
        compat: Compat,
        max_concurrency: int,
        *,
        with_vlm: bool = False,
    ) -> None:
        check_compat(compat)
        self.evaluation_method_id = evaluation_method_id
        self._compat: Compat = compat
        self._most = max_concurrency
        self._with_vlm = with_vlm

    def evaluate(self, items: Sequence[EvalItem]) -> EvaluatorOutput:
        """Evaluate items; works inside a running event loop, too."""
        return run_apart(lambda: self.evaluate_async(items))

    async def evaluate_async(self, items: Sequence[EvalItem]) -> EvaluatorOutput:
        """Evaluate items in the running event loop; the verdicts keep their order."""
        slots = asyncio.Semaphore(self._most)

        async def one(item: EvalItem) -> ItemVerdict:
            async with slots:
                return await self.judged(item)

        return self.output(await asyncio.gather(*map(one, items)))

    def is_for(self, item: EvalItem) -> bool:
        """Tell whether this evaluator is to look at an item.

        Raises:
            DataError: The item does not say which evaluators are.
        """
        return not self.evaluation_method_id or self.evaluation_method_id in item.methods

    def output(self, items: Sequence[ItemVerdict]) -> EvaluatorOutput:
        """Put the verdicts of the evaluator together."""
        return EvaluatorOutput(items=tuple(items), compat=self._compat, with_vlm=self._with_vlm)

    async def judged(self, item: EvalItem) -> ItemVerdict:
        """Evaluate one item, whatever becomes of it.

        An item whose evaluation raises is errored and has no score; the originals give it 0, which
        counts in their mean.
        """
        try:
            found = await self.judge_item(item)
        except Exception as error:  # noqa: BLE001 - one item's failure is its verdict
            found = errored(item, f"Evaluator error: {error}")
            found = found if self._compat == "sound" else replace(found, score=0.0)
        return replace(found, reasoning=plain_json(found.reasoning))

    @abstractmethod
    async def judge_item(self, item: EvalItem) -> ItemVerdict:
        """Evaluate one item.

        Raises:
            DataError: It does not say which evaluators are to look at it.
        """
