"""When: the condition on which a task is judged."""

from typing import Annotated, Final, Literal, Self, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema, model_validator

from scouter.evaluate.operators.comparison import NEEDS_NO_EXPECTED, ComparisonOperator
from scouter.evaluate.tasks.json_input import JsonInput
from scouter.evaluate.tasks.tagged import Tagged
from scouter.model.agent_work import CallsToldBy

_FAMILIES: Final = ("TraceAssertion", "AgentAssertion")


def _assertion(value: object) -> object:
    """Read an assertion of either family, whose classes stand on top of every task."""
    if value is None or isinstance(value, Tagged):
        return value
    families = [each for each in Tagged.__subclasses__() if each.__name__ in _FAMILIES]
    wire = cast("dict[str, object]", value) if isinstance(value, dict) else {}
    tag = next(iter(wire), "")
    owner = next((each for each in families if tag in each.kinds), None)
    if owner is None:
        known = ", ".join(sorted(kind for each in families for kind in each.kinds))
        raise ValueError(f"expected an object with one key out of {known}")
    return owner.parse(wire)


class When(BaseModel):
    """A comparison with a value of the record, or with what its spans say.

    Args:
        context_path: Path of the value, as of an `AssertionTask`; None reads the whole context.
        assertion: A trace or agent assertion in place of a path.
        source: Where an agent assertion looks, as of an `AgentAssertionTask`.
        operator: The comparison.
        expected_value: The value to compare with; `${path}` inside texts is read from the record.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    context_path: str | None = None
    assertion: Annotated[
        Tagged | None, BeforeValidator(_assertion), WithJsonSchema({"type": "object"})
    ] = None
    source: Literal["context", "spans"] = "context"
    operator: ComparisonOperator
    expected_value: JsonInput = None
    calls_told_by: CallsToldBy | None = Field(default=None, exclude_if=lambda value: value is None)

    @model_validator(mode="after")
    def _expected_is_given(self) -> Self:
        if "expected_value" not in self.model_fields_set and (
            self.operator not in NEEDS_NO_EXPECTED
        ):
            raise ValueError(f"{self.operator} needs an expected_value")
        return self
