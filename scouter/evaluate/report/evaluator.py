"""The common part of evaluators of items: many items at a time."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from scouter.evaluate.engine.judged import run_apart
from scouter.evaluate.report.item import EvalItem
from scouter.evaluate.report.rules import Compat, check_compat
from scouter.evaluate.report.verdicts import EvaluatorOutput, ItemVerdict, judge_all


class ItemEvaluator(ABC):
    """Evaluates items one by one, several at a time.

    Args:
        evaluation_method_id: Items that do not name it are skipped.
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

    async def evaluate_async(
        self,
        items: Sequence[EvalItem],
        on_verdict: Callable[[ItemVerdict], None] | None = None,
    ) -> EvaluatorOutput:
        """Evaluate items in the running event loop.

        Args:
            items: The items; the verdicts keep their order.
            on_verdict: Is told each verdict as it comes.
        """
        return await judge_all(
            items, self.judge_item, self._compat,
            most=self._most, with_vlm=self._with_vlm, on_verdict=on_verdict,
        )  # fmt: skip

    @abstractmethod
    async def judge_item(self, item: EvalItem) -> ItemVerdict:
        """Evaluate one item.

        Raises:
            DataError: It does not say which evaluators are to look at it.
        """
