"""Lists of tasks, as fields of models and sorted by kind."""

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, GetJsonSchemaHandler, PlainSerializer
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from scouter.evaluate.files.field_errors import ReadAs
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.base import TaskBase

if TYPE_CHECKING:
    from scouter.evaluate.tasks.agent import AgentAssertionTask
    from scouter.evaluate.tasks.judge import LLMJudgeTask
    from scouter.evaluate.tasks.task import Task
    from scouter.evaluate.tasks.trace import TraceAssertionTask
else:
    Task = TaskBase  # the other kinds load with the first list of tasks that is read


def _read(value: object) -> object:
    if value is None:
        return ()
    from scouter.evaluate.tasks.task import parse_tasks

    return tuple(parse_tasks(value))


def _write(tasks: tuple[Task, ...]) -> list[dict[str, Any]]:
    return [task.model_dump(mode="json") for task in tasks]


def _any_kinds() -> object:
    from scouter.evaluate.tasks.task import Task

    return tuple[Task, ...]


class _Described:
    """Describes the items of a list as what they are read as."""

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        from scouter.evaluate.tasks.task import file_adapter

        return {**handler(schema), "items": handler(file_adapter().core_schema)}


TaskList = Annotated[
    tuple[Task, ...],
    BeforeValidator(_read),
    PlainSerializer(_write),
    ReadAs(_any_kinds),
    _Described(),
]
"""Tasks as a field of a model: read from tasks, their wire form or a `TasksFile`."""


class TasksByKind:
    """Lists of the tasks of one kind, for everything that has `tasks`."""

    if TYPE_CHECKING:
        tasks: Any
        """A tuple of tasks; `Any`, as a field of a model and an attribute share the name."""

    @property
    def assertion_tasks(self) -> list[AssertionTask]:
        """The tasks that read the context."""
        return self._of("Assertion")

    @property
    def trace_assertion_tasks(self) -> "list[TraceAssertionTask]":
        """The tasks that read spans."""
        return self._of("TraceAssertion")

    @property
    def agent_assertion_tasks(self) -> "list[AgentAssertionTask]":
        """The tasks that read tool calls and responses."""
        return self._of("AgentAssertion")

    @property
    def llm_judge_tasks(self) -> "list[LLMJudgeTask]":
        """The tasks that ask a judge."""
        return self._of("LLMJudge", "QA", "Accuracy")

    def _of(self, *kinds: str) -> list[Any]:
        return [task for task in self.tasks if task.task_type in kinds]
