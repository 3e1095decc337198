"""Scores of an agent's calls, doubted where calls are missing that could turn them."""

from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.engine.compiled_task import CompiledTask
from scouter.evaluate.engine.doubt import Motion, doubting_motion, on_moving_spans
from scouter.evaluate.engine.more_spans import Fixed, Numbers, Reach
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.spans.about import find_calls
from scouter.evaluate.spans.tree import SpanTree
from scouter.model.agent_work import CallsToldBy, why_untold

_ANY: Final = Numbers(low=0.0, high=1.0)
_EITHER: Final = Numbers(low=0, high=1, is_whole=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallsScore:
    """Properties of a score from 0 to 1 that is computed from the tool calls of a trace."""

    is_flag: bool
    """True if the score is 0 or 1."""
    only_rises: bool
    """More calls cannot lower it."""
    minds_order: bool
    """More calls cannot turn it, but their order can."""
    minds_arguments: bool
    """A further argument of a known call can lower it."""

    def doubt(
        self, compiled: CompiledTask, operator: ComparisonOperator, by: CallsToldBy | None
    ) -> CompiledTask:
        """Let results name the spans of the calls, and be errored where more could turn them.

        Args:
            compiled: The task, which knows nothing of missing spans.
            operator: Operator of the task.
            by: Source that tells of the calls, as a person says.
        """
        named = on_moving_spans(compiled, operator, self._motion(), find_calls)
        return doubting_motion(
            named,
            operator,
            self._risen,
            lambda spans, _: why_untold(spans.agent_work, by) if spans else "",
        )

    def _motion(self) -> Motion:
        """Say which values the score can still take while spans, or parts of spans, are missing."""
        free = _EITHER if self.is_flag else _ANY

        def by_spans(tree: SpanTree, value: JsonValue) -> Reach:
            # The execution of a call that only a message tells of may come, and tell otherwise.
            # An executed call may gain arguments from its message, or from a span inside of it.
            is_open = self.minds_arguments or not all(
                call.is_executed for call in tree.agent_work.tool_calls
            )
            # A message that comes may say that calls which overlap were asked for in turn.
            is_loose = self.minds_order and (tree.has_loose_order or tree.agent_work.has_overlaps)
            return free if is_open or is_loose else self._risen(tree, value)

        return Motion(
            by_spans=by_spans,
            by_attributes=lambda _, __: free,
            by_cut=Fixed.ANYTHING,
            reads=lambda _: True,
        )

    def _risen(self, _: SpanTree, value: JsonValue) -> Reach:
        """Range of the score if the trace has more calls than are known."""
        floor = value if isinstance(value, int | float) and self.only_rises else 0.0
        return Numbers(low=floor, high=1.0, is_whole=self.is_flag)
