"""FunctionTask: score a record by a function of the running program."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field, PlainSerializer, PlainValidator, WithJsonSchema

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
            (`not_applicable`). What it raises is the task's error.
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

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            function: Callable[[Any], object],
            *,
            operator: ComparisonOperator | str = ...,
            expected_value: object = ...,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            condition: bool | None = None,
            scope: Scope = "record",
            when: When | Mapping[str, object] | None = None,
            task_type: Literal["Function"] = "Function",
        ) -> None: ...
