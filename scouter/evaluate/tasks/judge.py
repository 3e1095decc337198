"""LLMJudgeTask: ask a language model, and compare what it answers."""

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

from pydantic import BeforeValidator, Field, PlainSerializer, PlainValidator

from scouter.evaluate.prompt import Prompt
from scouter.evaluate.tasks.base import Scope, TaskBase
from scouter.evaluate.tasks.prompt_file import read_prompt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scouter.evaluate.operators.comparison import ComparisonOperator

DEFAULT_RETRIES: Final = 3


def _write(prompt: Prompt) -> dict[str, Any]:
    return prompt.model_dump(mode="json")


def _retries(value: object) -> object:
    return DEFAULT_RETRIES if value is None else value


class LLMJudgeTask(TaskBase):
    """Ask a model about the record, and compare its answer with an expected value.

    The prompt's variables read the record's context and, under their ids, what the tasks in
    `depends_on` compared. Tasks that depend on this one read the judge's whole answer under its
    id. Which judge answers is said where the evaluation is started.

    Args:
        id: Unique inside one profile; lower-cased.
        prompt: What the judge is asked. In a file of tasks also `{path: judge.yaml}`.
        expected_value: What to compare with; `${path}` inside texts is read from the record.
        context_path: Where the compared value is in the judge's answer, such as `score`; None
            compares the whole answer.
        operator: How to compare.
        description: For people.
        depends_on: Tasks that run before.
        max_retries: How often to ask again where the provider failed, 0 to 20.
        condition: True makes the task a gate.
        scope: `session` judges all records of a session together, once.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = (
        "id", "prompt", "expected_value", "context_path", "operator", "description", "depends_on",
        "max_retries", "condition",
    )  # fmt: skip

    task_type: Literal["LLMJudge"] = "LLMJudge"
    prompt: Annotated[Prompt, PlainValidator(read_prompt), PlainSerializer(_write)]
    context_path: str | None = None
    max_retries: Annotated[int, BeforeValidator(_retries)] = Field(
        default=DEFAULT_RETRIES, ge=0, le=20
    )

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            prompt: Prompt,
            expected_value: object = None,
            context_path: str | None = None,
            operator: ComparisonOperator | str = ...,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            max_retries: int | None = None,
            condition: bool | None = None,
            *,
            scope: Scope = "record",
            task_type: Literal["LLMJudge"] = "LLMJudge",
        ) -> None: ...
