"""ReliabilityTask: check that an agent called the tools that it has to call."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from scouter.evaluate.tasks.scored import ScoredTask
from scouter.model.agent_work import CallsToldBy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.tasks.base import Scope
    from scouter.evaluate.tasks.when import When


def _is_none(value: object) -> bool:
    return value is None


class ReliabilityTask(ScoredTask):
    """Compare the names of the called tools with the expected ones; the score is 1 or 0.

    Without `operator` and `expected_value` it passes where the score is 1.

    Args:
        id: Unique inside one profile; lower-cased.
        expected_tool_calls: Names, at least one. A name that stands there twice has to be called
            twice.
        order_matters: Whether the calls have to come in this order; others may come between.
        exact_match: Whether nothing else may be called; a call more than expected is too much.
        predicted: Path in the context that leads to the calls, as a `TrajectoryTask` reads them;
            None takes those that the spans of the trace tell of.
        operator: The comparison of the score.
        expected_value: The value that the score is compared with.
        description: For people.
        depends_on: Tasks that run before.
        condition: True makes the task a gate.
        scope: `session` takes the calls of all traces of a session.
        calls_told_by: Source that tells of the agent's calls, where the rule would choose another.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "expected_tool_calls")

    task_type: Literal["Reliability"] = "Reliability"
    expected_tool_calls: list[str] = Field(min_length=1)
    order_matters: bool = False
    exact_match: bool = False
    predicted: str | None = Field(default=None, exclude_if=_is_none)
    calls_told_by: CallsToldBy | None = Field(default=None, exclude_if=_is_none)

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            expected_tool_calls: Sequence[str],
            *,
            order_matters: bool = False,
            exact_match: bool = False,
            predicted: str | None = None,
            operator: ComparisonOperator | str = ...,
            expected_value: object = ...,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            condition: bool | None = None,
            scope: Scope = "record",
            when: When | Mapping[str, object] | None = None,
            calls_told_by: CallsToldBy | str | None = None,
            task_type: Literal["Reliability"] = "Reliability",
        ) -> None: ...

    @property
    def reads_spans(self) -> bool:
        """True if the calls are those of the trace's spans."""
        return self.predicted is None
