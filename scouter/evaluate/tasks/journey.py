"""JourneyTask: hold a conversation against the goals of a journey and their order."""

from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias

from pydantic import Field, JsonValue, model_validator

from scouter.evaluate.journey.case import Case, case_of
from scouter.evaluate.journey.case_faults import faults_of
from scouter.evaluate.tasks.base import Scope
from scouter.evaluate.tasks.scored import ScoredTask

if TYPE_CHECKING:
    from collections.abc import Mapping

    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.tasks.when import When

JourneyMeasure: TypeAlias = Literal["success", "completion", "recall", "precision", "parameter_f1"]


class JourneyTask(ScoredTask):
    """Measure how a conversation meets the goals of a ground-truth dataset; asks no model.

    Without `operator` and `expected_value` it passes where the measure is 1.

    Args:
        id: Unique inside one profile; lower-cased.
        dataset: The content of a ground-truth file of watsonx Orchestrate, without `assert_llm`
            (an `LLMJudgeTask` asks a judge).
        measure: `success` is 1 or 0, the others are in [0, 1]; see `JourneyResult`.
        messages: Path to a list of messages; None reads the spans.
        similarity_threshold: Least similarity of a fuzzy argument or text, in [0, 1]; measured by
            tokens.
        enable_fuzzy_matching: False compares fuzzy arguments as strict ones.
        expected_value: The value that the measure is compared with.
        operator: The comparison.
        description: For people.
        depends_on: Tasks that run before.
        condition: True makes the task a gate.
        scope: `session` evaluates the whole conversation once; `record` one record, which in a
            scenario is the attempt.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "dataset", "measure")

    task_type: Literal["Journey"] = "Journey"
    scope: Scope = "session"
    dataset: dict[str, JsonValue]
    measure: JourneyMeasure = "success"
    messages: str | None = None
    similarity_threshold: float = Field(default=0.8, ge=0, le=1)
    enable_fuzzy_matching: bool = True

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            dataset: dict[str, JsonValue],
            measure: JourneyMeasure = "success",
            *,
            messages: str | None = None,
            similarity_threshold: float = 0.8,
            enable_fuzzy_matching: bool = True,
            expected_value: object = 1,
            operator: ComparisonOperator | str = ...,
            description: str | None = None,
            depends_on: list[str] | None = None,
            condition: bool | None = None,
            scope: Scope = "session",
            when: When | Mapping[str, object] | None = None,
            task_type: Literal["Journey"] = "Journey",
        ) -> None: ...

    @model_validator(mode="after")
    def _dataset_is_one(self) -> Self:
        fault = next(iter(faults_of(self.dataset)), None)
        if fault is not None:
            raise ValueError(f"dataset: {fault}")
        if self.case.checks:
            raise ValueError(
                "dataset: assert_llm asks a judge, which this task does not; use an LLMJudge task"
            )
        return self

    @property
    def case(self) -> Case:
        """The journey as it should go."""
        return case_of(self.dataset, self.id)

    @property
    def reads_spans(self) -> bool:
        """True if the task looks at spans."""
        return self.messages is None
