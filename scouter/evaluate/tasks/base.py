"""The common parts of all kinds of tasks."""

import math
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from enum import StrEnum
from functools import cache
from inspect import Parameter, Signature
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeAlias,
    TypedDict,
    cast,
)

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    JsonValue,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    WithJsonSchema,
    create_model,
    field_validator,
    model_serializer,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema
from typing_extensions import dataclass_transform

from scouter.errors import ConfigError
from scouter.evaluate.files.read import load_model
from scouter.evaluate.operators.comparison import NEEDS_NO_EXPECTED, ComparisonOperator
from scouter.model.agent_work import CallsToldBy
from scouter.model.json_value import to_json_value
from scouter.model.positional import by_position

if TYPE_CHECKING:
    from scouter.evaluate.judge.prompt import Prompt


def is_none(value: object) -> bool:
    """Tell whether a field is left out of a file."""
    return value is None


def _constant(value: object) -> JsonValue:
    """Take what the rule takes, but no number that JSON lacks: it would turn into null unseen."""
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{value} cannot be compared with: JSON has no such number")
    return to_json_value(value)


JsonInput = Annotated[JsonValue, BeforeValidator(_constant)]
"""Anything that `to_json_value` takes: tuples, enums, pydantic models and so on."""
if TYPE_CHECKING:
    Names: TypeAlias = Sequence[str]
else:
    Names = list[str]
"""Texts in order, given as any sequence."""
_DESCRIBED: Final[ContextVar[tuple[type, ...]]] = ContextVar("scouter_described", default=())
"""Families whose JSON schema is being made."""
_LAST_WORD: Final = re.compile("(?:Assertion|Filter)$")
_WORD: Final = re.compile("(?<!^)(?=[A-Z])")


if TYPE_CHECKING:

    @dataclass_transform(field_specifiers=(Field, PrivateAttr))
    class _Model:
        """A model for type checkers: arguments by name, or by position in the fields' order."""

        model_fields: ClassVar[dict[str, FieldInfo]]

        @classmethod
        def model_validate(cls, obj: object) -> Self: ...
        def model_dump(self, *, mode: str = "python") -> dict[str, Any]: ...

else:

    class _Model(BaseModel):
        def __init__(self, *args: object, **fields: object) -> None:
            if args:
                kind = type(self)
                fields = by_position(kind, tuple(kind.model_fields), args, fields)
            super().__init__(**fields)


class Tagged(_Model):
    """One of several kinds of a thing, each a subclass with arguments of its own.

    A direct subclass is a family (`SpanFilter`), and its subclasses are its members. The tag of a
    member is its name without the last word (`ByName` of `ByNameFilter`). It is an attribute of
    the family under its tag and, where the family declares that, under the tag as a function is
    written (`SpanFilter.by_name`). A field annotated with the family takes any of them, or their
    wire form.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    kind: ClassVar[str] = ""
    """The tag; empty for the family itself."""
    kinds: ClassVar[dict[str, type[Any]]] = {}
    """The family's members by tag."""

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        if Tagged in cls.__bases__:
            cls.kinds = {}
            return
        family, cls.kind = cls.__bases__[0], _LAST_WORD.sub("", cls.__name__)
        cls.kinds[cls.kind] = cls
        setattr(family, cls.kind, cls)
        function = _WORD.sub("_", cls.kind).lower()
        if function in family.__annotations__:
            setattr(family, function, cls)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        """Say in the signature, which `help` shows, that arguments may be given by position."""
        places = [
            Parameter(
                name,
                Parameter.POSITIONAL_OR_KEYWORD,
                default=Parameter.empty if each.is_required() else each.get_default(),
                annotation=each.annotation,
            )
            for name, each in cls.model_fields.items()
        ]
        cls.__signature__ = Signature(places)

    @classmethod
    def __pydantic_on_complete__(cls) -> None:
        """Say it again: pydantic makes a signature of its own at the first use."""
        cls.__pydantic_init_subclass__()

    @classmethod
    def __get_pydantic_core_schema__(
        cls, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        if cls.kind:
            return handler(source)
        return core_schema.no_info_plain_validator_function(
            cls.parse,
            serialization=core_schema.plain_serializer_function_ser_schema(cls.to_wire),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe a family as an object with one of its tags; inside of itself by tags alone."""
        if cls.kind:
            return handler(schema)
        described, bounds = _DESCRIBED.get(), {"minProperties": 1, "maxProperties": 1}
        if cls in described:
            return {"type": "object", "propertyNames": {"enum": [*cls.kinds]}, **bounds}
        token = _DESCRIBED.set((*described, cls))
        try:
            wire = handler.resolve_ref_schema(handler(_wire_model(cls).__pydantic_core_schema__))
        finally:
            _DESCRIBED.reset(token)
        return {**wire, "additionalProperties": False, **bounds}

    @classmethod
    def parse(cls, value: object) -> Self:
        """Read a member of the family, or its wire form.

        Raises:
            ValidationError: Another tag, more than one, or wrong arguments (pydantic's).
            ValueError: Not an object with exactly one key.
        """
        if isinstance(value, cls):
            return value
        tags = ", ".join(cls.kinds)
        if isinstance(value, str) and value in cls.kinds:
            raise ValueError(f"write {{{value}: {{}}}}, with its arguments if it takes some")
        if not isinstance(value, Mapping):
            raise ValueError(f"expected an object with one key out of {tags}")
        fields = cast("Mapping[str, object]", value)
        if len(fields) != 1:
            raise ValueError(f"expected exactly one key out of {tags}, got {len(fields)}")
        (tag,) = fields
        if tag not in cls.kinds:
            raise ValueError(f"unknown kind {tag!r}; expected one of {tags}")
        return getattr(_wire_model(cls).model_validate(fields), tag)

    @model_serializer(mode="wrap")
    def _tag(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {self.kind: handler(self)}

    def to_wire(self) -> dict[str, JsonValue]:
        """Write the value in its wire form."""
        return self.model_dump(mode="json")


@cache
def _wire_model(family: type[Tagged]) -> type[BaseModel]:
    """A model with one optional field per tag, so that errors name the tag in their place."""
    fields: dict[str, Any] = {tag: (member, None) for tag, member in family.kinds.items()}
    return create_model(f"{family.__name__}Wire", **fields)


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
    calls_told_by: CallsToldBy | None = Field(default=None, exclude_if=is_none)

    @model_validator(mode="after")
    def _expected_is_given(self) -> Self:
        if "expected_value" not in self.model_fields_set and (
            self.operator not in NEEDS_NO_EXPECTED
        ):
            raise ValueError(f"{self.operator} needs an expected_value")
        return self


_FOLDER: Final[ContextVar[Path | None]] = ContextVar("scouter_prompt_folder", default=None)


@contextmanager
def prompts_beside(path: str | Path) -> Generator[None]:
    """While a file of tasks is read, let its prompts be files too, named relative to it.

    Outside of it a prompt that is only a path is refused, so that a profile that came over the
    network makes nobody read files.

    Args:
        path: The file that is being read.
    """
    token = _FOLDER.set(Path(path).parent)
    try:
        yield
    finally:
        _FOLDER.reset(token)


def read_prompt(value: object) -> "Prompt":
    """Read a prompt as a task holds it: a prompt, its wire form, or `{"path": "judge.yaml"}`.

    The path is relative to the file that names it or, where there is no such file, to the working
    folder.

    Raises:
        pydantic.ValidationError: A field of the prompt is wrong.
        ConfigError: A path outside of `prompts_beside`.
        FileFormatError: The prompt's file is missing or wrong; names it, line and field.
    """
    from scouter.evaluate.judge.prompt import Prompt  # only tasks that ask a judge need it

    path = _path_alone(value)
    if path is None:
        return Prompt.model_validate(value)
    folder = _FOLDER.get()
    if not isinstance(path, str):
        raise ConfigError(f"a prompt's path is a text, got {type(path).__name__}")
    if folder is None:
        raise ConfigError(
            f"the prompt is the path {path!r}, which only a file of tasks can name; write the "
            "prompt itself, or use Prompt.from_path"
        )
    beside = folder / path
    return Prompt.from_path(beside if beside.exists() else path)


def _path_alone(value: object) -> object:
    """The path where a value is `{"path": …}` and nothing else, else None."""
    if not isinstance(value, Mapping):
        return None
    fields = cast("Mapping[object, object]", value)
    return fields["path"] if set(fields) == {"path"} else None


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
    Score = "Score"


Scope: TypeAlias = Literal["record", "session", "score"]
"""Scope of a task: one record, all records of one session together, or a score from outside."""


class TaskOptions(TypedDict, total=False):
    """Arguments by name that every task takes."""

    scope: Scope
    when: When | Mapping[str, object] | None
    required: bool


class ScoredOptions(TaskOptions, total=False):
    """Arguments by name of a task whose own ones come first."""

    operator: ComparisonOperator | str
    expected_value: object
    description: str | None
    depends_on: Sequence[str] | None
    condition: bool | None


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

    SHORT: ClassVar[tuple[str, ...]] = ()
    """Texts that a file may have in the place of a prompt."""

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
    when: When | None = Field(default=None, exclude_if=is_none)
    """Where this does not hold, the task is `skipped` (`not_applicable`), and in no rate."""
    required: bool = Field(default=False, exclude_if=False.__eq__)
    """True stops a release where the task does not pass; a collector judges by it as ever."""
    scope: Scope = Field(default="record", exclude_if="record".__eq__)
    """`session` runs the task once per session, on all of its records and their traces' spans."""

    def __init__(self, *args: object, **fields: object) -> None:
        super().__init__(**by_position(type(self), self.POSITIONAL, args, fields))

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Describe the task as files have it; the kind is never left out there."""
        found = handler.resolve_ref_schema(handler(schema))
        found["properties"] |= {name: {"type": "string"} for name in cls.SHORT}
        made = {"prompt", "operator"} if cls.SHORT else set[str]()
        found["required"] = ["task_type", *(n for n in found["required"] if n not in made)]
        return found

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


class ScoredTask(TaskBase):
    """A task that measures from 0 to 1; its number compared with `expected_value` is the outcome.

    Without both, a task passes where the number equals 1. Each kind of such tasks is a subclass
    with a `task_type` of its own; `scouter.evaluate.engine.compiled_task` compiles it.
    """

    operator: ComparisonOperator = ComparisonOperator.Equals
    expected_value: JsonInput = 1
