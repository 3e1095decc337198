"""TraceAssertionTask: check the spans of the record's trace."""

from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeAlias, Unpack, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.base import Names, Tagged, TaskBase, TaskOptions
from scouter.evaluate.tasks.span_filter import SpanFilter

if TYPE_CHECKING:
    from scouter.evaluate.operators.comparison import ComparisonOperator


TokenPart: TypeAlias = Literal["input", "output", "total"]


class AggregationType(StrEnum):
    """Ways to make one value of an attribute's values."""

    Count = "Count"
    Sum = "Sum"
    Average = "Average"
    Min = "Min"
    Max = "Max"
    First = "First"
    Last = "Last"


class MultiResponseMode(StrEnum):
    """The share of matching spans that must pass: any or all."""

    Any = "Any"
    All = "All"


class AttributeFilterTask(BaseModel):
    """The task that is run on an attribute of every span that has it: exactly one is given.

    On the wire `{"Assertion": {…}}` or `{"AgentAssertion": {…}}`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    Assertion: AssertionTask | None = None
    AgentAssertion: AgentAssertionTask | None = None

    @staticmethod
    def assertion(task: AssertionTask) -> "AttributeFilterTask":
        """Compare a value inside the attribute."""
        return AttributeFilterTask(Assertion=task)

    @staticmethod
    def agent_assertion(task: AgentAssertionTask) -> "AttributeFilterTask":
        """Read the attribute as an agent's response."""
        return AttributeFilterTask(AgentAssertion=task)

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if (self.Assertion is None) == (self.AgentAssertion is None):
            raise ValueError("expected exactly one of Assertion and AgentAssertion")
        inner = self.Assertion or self.AgentAssertion
        if inner is not None and (
            inner.depends_on or inner.condition or inner.required or inner.when
        ):
            raise ValueError(
                "a task inside a filter stands alone: no depends_on, condition, required or when"
            )
        return self

    @model_serializer(mode="wrap")
    def _only_the_given_one(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {key: value for key, value in handler(self).items() if value is not None}

    @property
    def task(self) -> AssertionTask | AgentAssertionTask:
        """The one that was given."""
        if self.Assertion is not None:
            return self.Assertion
        return cast(AgentAssertionTask, self.AgentAssertion)


class TraceAssertion(Tagged):
    """A measure of a trace; made with the functions that it has.

    Spans are in time order: by start, then the longer one first, then by span id.
    """

    SpanSequence: ClassVar[type["SpanSequenceAssertion"]]
    span_sequence: ClassVar[type["SpanSequenceAssertion"]]
    SpanSet: ClassVar[type["SpanSetAssertion"]]
    span_set: ClassVar[type["SpanSetAssertion"]]
    SpanCount: ClassVar[type["SpanCountAssertion"]]
    span_count: ClassVar[type["SpanCountAssertion"]]
    SpanExists: ClassVar[type["SpanExistsAssertion"]]
    span_exists: ClassVar[type["SpanExistsAssertion"]]
    SpanAttribute: ClassVar[type["SpanAttributeAssertion"]]
    span_attribute: ClassVar[type["SpanAttributeAssertion"]]
    SpanDuration: ClassVar[type["SpanDurationAssertion"]]
    span_duration: ClassVar[type["SpanDurationAssertion"]]
    SpanAggregation: ClassVar[type["SpanAggregationAssertion"]]
    span_aggregation: ClassVar[type["SpanAggregationAssertion"]]
    TraceDuration: ClassVar[type["TraceDurationAssertion"]]
    trace_duration: ClassVar[type["TraceDurationAssertion"]]
    TraceSpanCount: ClassVar[type["TraceSpanCountAssertion"]]
    trace_span_count: ClassVar[type["TraceSpanCountAssertion"]]
    TraceErrorCount: ClassVar[type["TraceErrorCountAssertion"]]
    trace_error_count: ClassVar[type["TraceErrorCountAssertion"]]
    TraceServiceCount: ClassVar[type["TraceServiceCountAssertion"]]
    trace_service_count: ClassVar[type["TraceServiceCountAssertion"]]
    TraceMaxDepth: ClassVar[type["TraceMaxDepthAssertion"]]
    trace_max_depth: ClassVar[type["TraceMaxDepthAssertion"]]
    TraceAttribute: ClassVar[type["TraceAttributeAssertion"]]
    trace_attribute: ClassVar[type["TraceAttributeAssertion"]]
    ModelCallCount: ClassVar[type["ModelCallCountAssertion"]]
    model_call_count: ClassVar[type["ModelCallCountAssertion"]]
    ModelTokens: ClassVar[type["ModelTokensAssertion"]]
    model_tokens: ClassVar[type["ModelTokensAssertion"]]
    ModelCost: ClassVar[type["ModelCostAssertion"]]
    model_cost: ClassVar[type["ModelCostAssertion"]]
    AttributeFilter: ClassVar[type["AttributeFilterAssertion"]]
    attribute_filter: ClassVar[type["AttributeFilterAssertion"]]


class SpanSequenceAssertion(TraceAssertion):
    """True if the names of all spans in time order are exactly these."""

    span_names: Names


class SpanSetAssertion(TraceAssertion):
    """True if there is a span of each of these names, in whatever order, others beside."""

    span_names: Names


class SpanCountAssertion(TraceAssertion):
    """The number of matching spans; for a sequence, the number of its runs."""

    filter: SpanFilter


class SpanExistsAssertion(TraceAssertion):
    """True if at least one span matches."""

    filter: SpanFilter


class SpanAttributeAssertion(TraceAssertion):
    """The attribute's value; of several matching spans a list, in time order."""

    filter: SpanFilter
    attribute_key: str


class SpanDurationAssertion(TraceAssertion):
    """Milliseconds, cut to whole ones; of several matching spans a list."""

    filter: SpanFilter


class SpanAggregationAssertion(TraceAssertion):
    """One value from the attribute's values on the matching spans."""

    filter: SpanFilter
    attribute_key: str
    aggregation: AggregationType


class TraceDurationAssertion(TraceAssertion):
    """Milliseconds from the first start to the last end, cut to whole ones."""


class TraceSpanCountAssertion(TraceAssertion):
    """The number of spans."""


class TraceErrorCountAssertion(TraceAssertion):
    """The number of spans with the status error."""


class TraceServiceCountAssertion(TraceAssertion):
    """The number of services in the trace."""


class TraceMaxDepthAssertion(TraceAssertion):
    """Parents above the deepest span; 0 where there are only roots."""


class TraceAttributeAssertion(TraceAssertion):
    """An attribute of the root span."""

    attribute_key: str


class ModelCallCountAssertion(TraceAssertion):
    """The number of calls of models, of one agent or of all; in any convention, each once."""

    agent: str | None = None


class ModelTokensAssertion(TraceAssertion):
    """The tokens of these calls: those that models read (`input`), wrote (`output`), or all."""

    agent: str | None = None
    part: TokenPart = "total"


class ModelCostAssertion(TraceAssertion):
    """The cost of these calls, as their sender wrote it, else by a list of prices."""

    agent: str | None = None


class AttributeFilterAssertion(TraceAssertion):
    """True if a task passes on the attribute of any, or of all, spans that have it.

    The attribute's value is the task's context; a text that is JSON is parsed first.
    """

    key: str
    task: AttributeFilterTask
    mode: MultiResponseMode


class TraceAssertionTask(TaskBase):
    """Measure something on the spans of the record's trace and compare it.

    Args:
        id: Unique inside one profile; lower-cased.
        assertion: The measure.
        expected_value: The value to compare with; `${path}` inside texts is read from the record.
        operator: The comparison.
        description: For people.
        depends_on: Tasks that run before; their actual values can be read under their ids.
        condition: True makes the task a gate.
        required: True stops a release wherever the task does not pass.
        scope: `session` evaluates all records of a session together, once.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = (
        "id", "assertion", "expected_value", "operator", "description", "depends_on", "condition",
    )  # fmt: skip

    task_type: Literal["TraceAssertion"] = "TraceAssertion"
    assertion: TraceAssertion

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            assertion: TraceAssertion,
            expected_value: object = None,
            operator: ComparisonOperator | str = ...,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            condition: bool | None = None,
            *,
            task_type: Literal["TraceAssertion"] = "TraceAssertion",
            **options: Unpack[TaskOptions],
        ) -> None: ...
