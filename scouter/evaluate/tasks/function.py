"""FunctionTask: score a record by a function of the running program."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, JsonValue, PlainSerializer, PlainValidator, WithJsonSchema

from scouter.evaluate.judge.prompt import Prompt
from scouter.evaluate.tasks.scored import ScoredTask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.tasks.base import Scope
    from scouter.evaluate.tasks.when import When


def _function(value: object) -> object:
    if not callable(value):
        raise ValueError("a function of the program that made the task; a file cannot hold one")
    return value


def _name(function: Any) -> str:  # noqa: ANN401 - whatever can be called
    name: str = getattr(function, "__qualname__", None) or type(function).__qualname__
    return f"{getattr(function, '__module__', None) or 'builtins'}:{name}"


class FunctionTask(ScoredTask):
    """Score the context by a function; the score compares with `expected_value` by `operator`.

    It is made in code and runs in the process that made it. Where it is stored, its function is a
    name, for people and for comparisons; nobody runs it from there.

    Args:
        id: Unique inside one profile; lower-cased.
        function: From the context to a number, to an object with the number under `score` or the
            task's id, or to None where the record has no score: the task is then skipped
            (`not_applicable`), with a text that the object may have under `reason`. What it raises
            is the task's error.
        prompt: The judge that the function asks, with the words of its question. The function is
            then a coroutine function that asks by a `TaskJudge`.
        max_retries: Most further tries of a question where the provider failed.
        settings: What the function goes by, as plain data. Like its name and the prompt it says
            whether a task is the one of a baseline.
        operator: The comparison of the score.
        expected_value: The value that the score is compared with; without operator and value the
            score must be 1.
        description: For people.
        depends_on: Tasks that run before.
        condition: True makes the task a gate.
        scope: `session` gives the function the context of a session.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "function")

    task_type: Literal["Function"] = "Function"
    function: Annotated[
        Any,
        PlainValidator(_function),
        PlainSerializer(_name, return_type=str),
        WithJsonSchema({"type": "string"}),
    ] = Field()
    prompt: Prompt | None = Field(default=None, exclude_if=lambda value: value is None)
    max_retries: int = Field(default=0, ge=0, le=100, exclude_if=(0).__eq__)
    settings: dict[str, JsonValue] = Field(default_factory=dict, exclude_if=lambda value: not value)

    sample_rate: ClassVar[float] = 1.0
    """It judges every record."""
    most_questions: ClassVar[int] = 1
    """Where it is stored; a function may ask as often as it likes."""

    @property
    def judge_prompt(self) -> Prompt | None:
        """The prompt of the judge that the function asks."""
        return self.prompt

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            function: Callable[[Any], object],
            *,
            prompt: Prompt | None = None,
            max_retries: int = 0,
            settings: Mapping[str, JsonValue] = ...,
            operator: ComparisonOperator | str = ...,
            expected_value: object = ...,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            condition: bool | None = None,
            scope: Scope = "record",
            when: When | Mapping[str, object] | None = None,
            task_type: Literal["Function"] = "Function",
        ) -> None: ...
