"""One item of an evaluator: a question, with the agent's answer and work."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, cast

from pydantic import JsonValue

from scouter.errors import DataError
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
    untold: str = ""
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
        told = cast("Mapping[object, object]", value)
        return {str(name): plain_json(each) for name, each in told.items()}
    if isinstance(value, list | tuple):
        return [plain_json(each) for each in cast("list[object]", value)]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    try:
        return to_json_value(value)
    except ValueError:
        return str(value)
