"""The common part of evaluators of items: many items at a time."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace

from scouter.evaluate.judge.ask import run_apart
from scouter.evaluate.report.item import EvalItem, plain_json
from scouter.evaluate.report.rules import Compat, check_compat
from scouter.evaluate.report.verdicts import EvaluatorOutput, ItemVerdict, errored


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

    async def evaluate_async(self, items: Sequence[EvalItem]) -> EvaluatorOutput:
        """Evaluate items in the running event loop; the verdicts keep their order."""
        slots = asyncio.Semaphore(self._most)

        async def one(item: EvalItem) -> ItemVerdict:
            async with slots:
                return await self.judged(item)

        return self.output(await asyncio.gather(*map(one, items)))

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
