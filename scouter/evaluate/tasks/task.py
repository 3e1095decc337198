"""All kinds of tasks together, and how lists of them are read."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Final, TypeAlias, cast, overload

from pydantic import BaseModel, Field, TypeAdapter
from typing_extensions import TypeIs

from scouter.errors import ConfigError
from scouter.evaluate.files.read import read_document
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.base import TaskBase, When, prompts_beside
from scouter.evaluate.tasks.function import CodeTask, FunctionTask, ReliabilityTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.judged_answer import AccuracyTask, QATask
from scouter.evaluate.tasks.report import ReportTask
from scouter.evaluate.tasks.score import ScoreTask
from scouter.evaluate.tasks.trace import TraceAssertion, TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.model.agent_work import CallsToldBy

_OfFiles: TypeAlias = (
    AssertionTask
    | LLMJudgeTask
    | TraceAssertionTask
    | AgentAssertionTask
    | TrajectoryTask
    | QATask
    | AccuracyTask
    | JourneyTask
    | ReportTask
    | ReliabilityTask
    | CodeTask
    | ScoreTask
)
Task = Annotated[_OfFiles | FunctionTask, Field(discriminator="task_type")]
"""Closed set: a new kind is one class here and one compiler in `scouter.evaluate.engine`."""


@cache
def task_adapter() -> TypeAdapter[Task]:
    """Reads and writes a task of any kind; made when it is first requested, as that takes long."""
    return TypeAdapter(Task)


@cache
def file_adapter() -> TypeAdapter[_OfFiles]:
    """Describes a task of any kind that a file can hold: of any but `FunctionTask`."""
    return TypeAdapter(Annotated[_OfFiles, Field(discriminator="task_type")])


@cache
def tasks_adapter() -> TypeAdapter[tuple[Task, ...]]:
    """Reads and writes tasks of any kind."""
    return TypeAdapter(tuple[Task, ...])


_BUCKETS: Final = {
    "assertion": "Assertion",
    "judge": "LLMJudge",
    "trace": "TraceAssertion",
    "agent": "AgentAssertion",
    "trajectory": "Trajectory",
    "qa": "QA",
    "accuracy": "Accuracy",
    "journey": "Journey",
    "report": "Report",
    "reliability": "Reliability",
    "code": "Code",
    "score": "Score",
}
"""The bucketed form's keys, and the `task_type` of what is in them."""


def parse_task(obj: object) -> Task:
    """Read one task: a task object, or its wire form.

    Raises:
        ValidationError: Names the field (pydantic's, a ValueError).
    """
    return task_adapter().validate_python(obj)


def parse_tasks(obj: object) -> tuple[Task, ...]:
    """Read tasks in any of the forms that people write.

    Args:
        obj: A list of tasks or of their wire form (flat objects with `task_type`), a `TasksFile`,
            `{"tasks": [...]}`, or the bucketed `{"assertion": [], "judge": [], "trace": [],
            "agent": [], "trajectory": [], "qa": [], "accuracy": [],
            "journey": [], "report": [], "reliability": [], "code": [], "score": []}`.

    Raises:
        ConfigError: None of these forms, or an item that is no task.
        ValidationError: A task is wrong; names its place in the list and the field.
    """
    return (
        obj.tasks
        if isinstance(obj, TasksFile)
        else tasks_adapter().validate_python(task_items(obj))
    )


def with_calls_told_by(tasks: Iterable[Task], by: CallsToldBy | None) -> tuple[Task, ...]:
    """Say of all tasks that read calls from spans who tells of them; those that say it keep it."""
    reported = {"calls_told_by": by}
    found: list[Task] = []
    for task in tasks:
        when, changes = task.when, dict[str, object]()
        if _reads_calls_from_spans(task) and task.calls_told_by is None:
            changes |= reported
        if when is not None and when.source == "spans" and when.calls_told_by is None:
            changes["when"] = when.model_copy(update=reported)
        found.append(task.model_copy(update=changes) if changes else task)
    return tuple(found)


def when_task(when: When) -> AssertionTask | TraceAssertionTask | AgentAssertionTask:
    """Make the task that tells whether a condition holds.

    Raises:
        ConfigError: It says where to look for what is not looked for there.
    """
    fields: dict[str, object] = {
        "id": "when", "operator": when.operator, "expected_value": when.expected_value,
    }  # fmt: skip
    assertion, path, source = when.assertion, when.context_path, when.source
    if assertion is None:
        if source == "spans":
            raise ConfigError("when: source: spans needs an assertion")
        return AssertionTask.model_validate({**fields, "context_path": path})
    fields["assertion"] = assertion
    if isinstance(assertion, TraceAssertion):
        if path is not None:
            raise ConfigError(f"when: {assertion.kind} reads spans; leave out the context_path")
        return TraceAssertionTask.model_validate(fields)
    where = {"context_path": path, "source": source, "calls_told_by": when.calls_told_by}
    return AgentAssertionTask.model_validate({**fields, **where})


def _reads_calls_from_spans(
    task: Task,
) -> TypeIs[AgentAssertionTask | TrajectoryTask | ReliabilityTask]:
    if isinstance(task, AgentAssertionTask):
        return task.source == "spans"
    return isinstance(task, TrajectoryTask | ReliabilityTask) and task.reads_spans


def task_items(obj: object) -> tuple[object, ...]:
    """Take apart what `parse_tasks` reads, without reading the tasks themselves.

    Raises:
        ConfigError: None of the forms, or an item that can be no task.
    """
    if isinstance(obj, Mapping):
        fields = cast("Mapping[str, object]", obj)
        if set(fields) == {"tasks"}:
            return task_items(fields["tasks"])
        return tuple(_from_buckets(fields))
    if isinstance(obj, str | bytes | BaseModel) or not isinstance(obj, Iterable):
        raise ConfigError(f"tasks: expected a list of tasks, got {type(obj).__name__}")
    items = tuple(cast("Iterable[object]", obj))
    for at, item in enumerate(items):
        if not isinstance(item, TaskBase | Mapping):
            raise ConfigError(f"tasks[{at}]: expected a task, got {type(item).__name__}")
    return items


def _from_buckets(fields: Mapping[str, object]) -> list[object]:
    unknown = [key for key in fields if key not in _BUCKETS]
    if unknown:
        raise ConfigError(
            f"tasks: expected a list, or an object with {', '.join(_BUCKETS)}; got the keys "
            f"{', '.join(map(repr, fields))}"
        )
    tasks: list[object] = []
    for bucket, task_type in _BUCKETS.items():
        items = fields.get(bucket) or ()
        if not isinstance(items, Sequence) or isinstance(items, str):
            raise ConfigError(f"tasks.{bucket}: expected a list, got {type(items).__name__}")
        for item in cast("Sequence[object]", items):
            plain = isinstance(item, Mapping)
            tasks.append(
                {"task_type": task_type, **cast("dict[str, object]", item)} if plain else item
            )
    return tasks


def tasks_digest(tasks: Iterable[Task]) -> str:
    """Name the content of a list of tasks.

    Returns:
        64 lower-case hex digits: SHA-256 of the tasks' wire form as JSON with sorted keys, no
        spaces, descriptions left out (they change nothing that is evaluated).
    """
    wire = [task.model_dump(mode="json", exclude={"description"}) for task in tasks]
    text = json.dumps(wire, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


class TasksFile(Sequence[Task]):
    """A list of tasks that came from a file; can be iterated as often as needed.

    Args:
        tasks: The tasks, in the file's order.
    """

    def __init__(self, tasks: Iterable[Task]) -> None:
        self.tasks: tuple[Task, ...] = tuple(tasks)

    @staticmethod
    def from_path(path: str | Path) -> "TasksFile":
        """Read `.json`, `.yaml` or `.yml`: a list of tasks, or `{tasks: [...]}`.

        A judge task's prompt may be a file of its own: `prompt: {path: judge.yaml}`, relative to
        this one.

        Raises:
            FileFormatError: Names the file, and the line and field where known.
        """
        document = read_document(path)
        _, loc = document.inside("tasks")
        try:
            with prompts_beside(path):
                return TasksFile(parse_tasks(document.value))
        except ValueError as error:
            raise document.wrap(error, loc, tuple[Task, ...]) from error

    @overload
    def __getitem__(self, index: int) -> Task: ...
    @overload
    def __getitem__(self, index: slice) -> list[Task]: ...
    def __getitem__(self, index: int | slice) -> Task | list[Task]:
        return list(self.tasks[index]) if isinstance(index, slice) else self.tasks[index]

    def __len__(self) -> int:
        return len(self.tasks)

    def __iter__(self) -> Iterator[Task]:
        return iter(self.tasks)

    def __repr__(self) -> str:
        return f"TasksFile({len(self.tasks)} tasks)"
