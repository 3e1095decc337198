"""The common part of all kinds of tasks."""

from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self, TypeAlias, cast

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    field_validator,
    model_validator,
)

from scouter.evaluate.files.read import load_model
from scouter.evaluate.operators.comparison import NEEDS_NO_EXPECTED, ComparisonOperator
from scouter.evaluate.tasks.json_input import JsonInput
from scouter.evaluate.tasks.prompt_file import prompts_beside
from scouter.evaluate.tasks.when import When

if TYPE_CHECKING:
    from scouter.evaluate.judge.prompt import Prompt


class EvaluationTaskType(StrEnum):
    """The kinds of tasks, as `task_type` names them."""

    Assertion = "Assertion"
    LLMJudge = "LLMJudge"
    TraceAssertion = "TraceAssertion"
    AgentAssertion = "AgentAssertion"
    QA = "QA"
    Accuracy = "Accuracy"
    Trajectory = "Trajectory"
    Journey = "Journey"
    Report = "Report"
    Reliability = "Reliability"
    Code = "Code"
    Function = "Function"


Scope: TypeAlias = Literal["record", "session"]
"""Scope of a task: one record, or all records of one session together."""


def _name(value: object) -> object:
    """Names of tasks are compared without regard to case; this is where it is lost."""
    return value.strip().lower() if isinstance(value, str) else value


class TaskBase(BaseModel):
    """A check that is written once and run for every record.

    Ids are lower-cased, here and in `depends_on`, in code and in files alike.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    POSITIONAL: ClassVar[tuple[str, ...]] = ()
    """Arguments that may be given by position, in this order."""

    id: str = Field(min_length=1, max_length=256)
    """Unique inside one profile; results and `depends_on` refer to it."""
    expected_value: JsonInput = None
    """Value to compare with; `${path}` inside its texts is read from the record."""
    operator: ComparisonOperator
    description: str | None = None
    depends_on: list[str] = Field(default_factory=list)
    """Tasks that run before; their actual values can be read under their ids."""
    condition: bool = False
    """True makes the task a gate: where it does not pass, dependents are skipped."""
    when: When | None = Field(default=None, exclude_if=lambda value: value is None)
    """Where this does not hold, the task is `skipped` (`not_applicable`), and in no rate."""
    required: bool = Field(default=False, exclude_if=False.__eq__)
    """True stops a release where the task does not pass; a collector judges by it as ever."""
    scope: Scope = Field(default="record", exclude_if="record".__eq__)
    """`session` runs the task once per session, on all of its records and their traces' spans."""

    def __init__(self, *args: object, **fields: object) -> None:
        if len(args) > len(self.POSITIONAL):
            raise TypeError(
                f"{type(self).__name__} takes {len(self.POSITIONAL)} positional arguments "
                f"({', '.join(self.POSITIONAL)}), got {len(args)}"
            )
        for name, value in zip(self.POSITIONAL, args, strict=False):
            if name in fields:
                raise TypeError(f"{type(self).__name__} got {name!r} twice")
            fields[name] = value
        super().__init__(**fields)

    @model_validator(mode="before")
    @classmethod
    def _nothing_is_default(cls, data: object) -> object:
        """Read None for an optional field as its default, as the original's constructors do."""
        if not isinstance(data, Mapping):
            return data
        fields = cast("Mapping[str, object]", data)
        optional = ("depends_on", "condition", "required", "scope")
        return {k: v for k, v in fields.items() if not (v is None and k in optional)}

    @field_validator("id", mode="before")
    @classmethod
    def _lower_id(cls, value: object) -> object:
        return _name(value)

    @field_validator("depends_on", mode="before")
    @classmethod
    def _lower_ids(cls, value: object) -> object:
        if isinstance(value, Sequence) and not isinstance(value, str):
            return list(map(_name, cast("Sequence[object]", value)))
        return value

    @model_validator(mode="after")
    def _expected_is_given(self) -> Self:
        given = self.model_fields_set  # a kind of task may have defaults for both
        if (
            "expected_value" not in given
            and "operator" in given
            and (self.operator not in NEEDS_NO_EXPECTED)
        ):
            raise ValueError(f"{self.operator} needs an expected_value")
        return self

    @property
    def judge_prompt(self) -> "Prompt | None":
        """The prompt of the judge; None for a task that asks none."""
        return None

    @classmethod
    def from_path(cls, path: str | Path) -> Self:
        """Read one task from a `.json`, `.yaml` or `.yml` file.

        Raises:
            FileFormatError: Names the file, and the line and field where known.
        """
        with prompts_beside(path):
            return load_model(path, cls)
