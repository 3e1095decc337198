"""TrajectoryTask: hold the calls of an agent against those that were expected."""

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, JsonValue, model_validator

from scouter.evaluate.tasks.scored import ScoredTask
from scouter.evaluate.trajectory.call import read_reference
from scouter.evaluate.trajectory.rules import TrajectoryRules
from scouter.model.agent_work import CallsToldBy

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.tasks.base import Scope

TrajectoryMetricName = Literal[
    "exact_match", "in_order_match", "any_order_match", "precision", "recall", "single_tool_use"
]
_PREFIX = "trajectory_"


def _metric(value: object) -> object:
    return value.removeprefix(_PREFIX) if isinstance(value, str) else value


def _is_none(value: object) -> bool:
    return value is None


class TrajectoryTask(ScoredTask):
    """Score the calls of tools; the score compares with `expected_value` by `operator`.

    Args:
        id: Unique inside one profile; lower-cased.
        metric: A metric of trajectories, with or without `trajectory_` before it.
        reference: The expected calls, or the path in the context that leads to them. In a
            scenario `expected_trajectory` is what the scenario expects.
        tool_name: The tool of `single_tool_use`, which needs no reference.
        predicted: Path in the context that leads to the calls; None takes those that the spans of
            the trace tell of.
        rules: How calls are compared.
        operator: How the score is compared.
        expected_value: With what; without operator and value the score must be 1.
        description: For people.
        depends_on: Tasks that run before.
        condition: True makes the task a gate.
        scope: `session` takes the calls of all traces of a session.
        calls_told_by: Who tells of the agent's calls, where the rule would see it otherwise.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "metric", "reference")

    task_type: Literal["Trajectory"] = "Trajectory"
    metric: Annotated[TrajectoryMetricName, BeforeValidator(_metric)]
    reference: str | list[JsonValue] = "expected_trajectory"
    tool_name: str | None = Field(default=None, min_length=1, exclude_if=_is_none)
    predicted: str | None = Field(default=None, exclude_if=_is_none)
    rules: TrajectoryRules = Field(default_factory=TrajectoryRules)
    calls_told_by: CallsToldBy | None = Field(default=None, exclude_if=_is_none)

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            metric: str,
            reference: str | Sequence[object] = ...,
            *,
            tool_name: str | None = None,
            predicted: str | None = None,
            rules: TrajectoryRules | Mapping[str, object] = ...,
            operator: ComparisonOperator | str = ...,
            expected_value: object = ...,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            condition: bool | None = None,
            scope: Scope = "record",
            calls_told_by: CallsToldBy | str | None = None,
            task_type: Literal["Trajectory"] = "Trajectory",
        ) -> None: ...

    @model_validator(mode="after")
    def _parts_fit(self) -> Self:
        if (self.tool_name is not None) != (self.metric == "single_tool_use"):
            raise ValueError("tool_name: single_tool_use needs one, and no other metric has one")
        if self.rules.empty == "skip":
            raise ValueError("rules.empty: a task has a score or an error; expected score or error")
        if isinstance(self.reference, list):
            read_reference(self.reference, "reference", is_wire=self.rules.compat == "vertex")
        return self

    @property
    def reads_spans(self) -> bool:
        """True if the calls are those of the trace's spans."""
        return self.predicted is None
