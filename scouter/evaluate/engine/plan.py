"""A list of tasks, checked, ordered and compiled once."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.evaluate.engine.asking_task import AskingTask
from scouter.evaluate.engine.compile import compile_task
from scouter.evaluate.engine.compiled_task import CompiledTask, OpenValue, Run
from scouter.evaluate.results.task_result import TaskSpec
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.function import CodeTask, ReliabilityTask
from scouter.evaluate.tasks.journey import JourneyTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.score import ScoreTask
from scouter.evaluate.tasks.task import Task, tasks_digest, when_task
from scouter.evaluate.tasks.trace import TraceAssertionTask
from scouter.evaluate.tasks.trajectory import TrajectoryTask
from scouter.model.visible import visible

_PATHS: Final = ("context_path", "reference", "messages", "tool_schemas")
"""Fields with a path into the task's scope."""
_TEMPLATE: Final = re.compile(r"\$\{([^}]*)\}")


def may_read(task: Task, id: str) -> bool:
    """Tell whether a task may read the value of a task that it depends on.

    A name that stands in a path or template counts, wherever it stands there. A JSONPath, and a
    task on its whole scope, may read every value.
    """
    when = task.when
    if isinstance(task, CodeTask) or (isinstance(task, AssertionTask) and not task.context_path):
        return True
    if when is not None and when.assertion is None and not when.context_path:
        return True
    name = re.compile(rf"(?<!\w){re.escape(id)}(?!\w)", re.IGNORECASE)
    return any(path.startswith("$") or name.search(path) for path in _paths(task))


def _paths(task: Task) -> Iterator[str]:
    wire: dict[str, JsonValue] = task.model_dump(mode="json")
    if isinstance(task, LLMJudgeTask):
        del wire["context_path"]  # it leads into the judge's answer
    for fields in (wire, wire.get("when")):
        if isinstance(fields, dict):
            yield from (path for each in _PATHS if isinstance(path := fields.get(each), str))
    yield from _templates(wire)


def _templates(value: JsonValue) -> Iterator[str]:
    if isinstance(value, str):
        yield from _TEMPLATE.findall(value)
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _templates(each)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Compiled form of a profile's tasks, which `evaluate_record` runs.

    `compile_plan` makes plans; they hold no state. Every field but `digest` and `session` is about
    the tasks of one scope: tasks of records here, tasks of sessions in the plan inside. Scores from
    outside are in the digest alone.
    """

    tasks: tuple[Task, ...]
    """Tasks in the given order, which is that of the results; empty where all are a session's."""
    stages: tuple[tuple[str, ...], ...]
    """Task ids by stage; every task reads only from earlier stages."""
    reads_spans: bool
    """True if a task looks at spans, so that a record has to wait for its trace."""
    digest: str
    """`tasks_digest` of all tasks, whatever their scope."""
    runs: tuple[Run, ...] = field(repr=False)
    """A judge task's says that nobody is there to answer."""
    specs: tuple[TaskSpec, ...] = field(repr=False)
    judges: Mapping[int, AskingTask] = field(repr=False)
    """The judge tasks, by their index."""
    steps: tuple[tuple[int, ...], ...] = field(repr=False)
    """The stages as indexes of tasks; in each the judge tasks come last."""
    dependencies: tuple[tuple[int, ...], ...] = field(repr=False)
    """Indexes of the tasks that each task depends on, in the order of the tasks."""
    doubted_needs: tuple[tuple[tuple[int, OpenValue], ...], ...] = field(repr=False)
    """Of each task, those dependencies whose values it reads and missing evidence may change."""
    is_flat: bool
    """True if no task depends on another."""
    shares_responses: bool
    """True if a task reads responses, so that each is read once, however often it is looked at."""
    session: "Plan | None" = None
    """Plan of the session-scoped tasks, which runs once per session; None without such tasks."""

    @property
    def has_judges(self) -> bool:
        """True if a task asks a judge, so that records take time and may cost money."""
        return bool(self.judges)

    @property
    def asks(self) -> bool:
        """True if a task asks a judge, whatever its scope."""
        return self.has_judges or (self.session is not None and self.session.has_judges)

    @property
    def needs_spans(self) -> bool:
        """True if a task looks at spans, whatever its scope."""
        return self.reads_spans or (self.session is not None and self.session.reads_spans)


def compile_plan(tasks: Iterable[Task]) -> Plan:
    """Check, order and compile tasks.

    Args:
        tasks: At least one.

    Raises:
        ConfigError: No task, an id twice, a dependency that is unknown, the task itself, part of
            a cycle or of another scope, a path, pattern or template that can never work; names
            the task.

    Cost: linear in tasks and dependencies.
    """
    given = tuple(tasks)
    if not given:
        raise ConfigError("there are no tasks; give at least one")
    _, dependencies = _levels(given)
    _check_scopes(given, dependencies)
    digest = tasks_digest(given)
    plan = _part([task for task in given if task.scope == "record"], digest)
    session = [task for task in given if task.scope == "session"]
    return replace(plan, session=_part(session, digest)) if session else plan


def _part(tasks: Sequence[Task], digest: str) -> Plan:
    """Compile the tasks of one scope, which depend on each other only."""
    given = tuple(tasks)
    levels, dependencies = _levels(given)
    compiled = tuple(map(compile_task, given, levels))
    read = [each for task in given for each in _with_condition(task)]
    judges = {at: each for at, each in enumerate(compiled) if isinstance(each, AskingTask)}
    stages: list[list[int]] = [[] for _ in range(max(levels, default=-1) + 1)]
    for at, level in enumerate(levels):
        stages[level].append(at)
    return Plan(
        tasks=given,
        stages=tuple(tuple(given[at].id for at in stage) for stage in stages),
        reads_spans=any(reads_spans(task) for task in given),
        digest=digest,
        runs=tuple(task.run for task in compiled),
        specs=tuple(task.spec for task in compiled),
        judges=judges,
        steps=tuple(tuple(sorted(stage, key=judges.__contains__)) for stage in stages),
        dependencies=dependencies,
        doubted_needs=tuple(
            tuple(_doubted(task, needs, given, compiled))
            for task, needs in zip(given, dependencies, strict=True)
        ),
        is_flat=not any(dependencies),
        shares_responses=any(isinstance(each, AgentAssertionTask) for each in read),
    )


def _doubted(
    task: Task,
    needs: Sequence[int],
    tasks: Sequence[Task],
    compiled: Sequence[CompiledTask | AskingTask],
) -> Iterator[tuple[int, OpenValue]]:
    for need in needs:
        before = compiled[need]
        if (
            isinstance(before, CompiledTask)
            and before.open_value is not None
            and may_read(task, tasks[need].id)
        ):
            yield need, before.open_value


def reads_spans(task: Task) -> bool:
    """Tell whether a task or its condition looks at spans; what it depends on does not matter."""
    return any(map(_reads_spans, _with_condition(task)))


def needs_no_context(task: Task) -> bool:
    """Tell whether a task looks at spans only; a judge reads question and answer elsewhere."""
    if isinstance(task, CodeTask):
        return False
    return task.judge_prompt is None and all(map(_reads_spans, _with_condition(task)))


def _with_condition(task: Task) -> list[Task]:
    return [task] if task.when is None else [task, when_task(task.when)]


def _reads_spans(task: Task) -> bool:
    if isinstance(task, TrajectoryTask | JourneyTask | ReliabilityTask | CodeTask):
        return task.reads_spans
    return isinstance(task, TraceAssertionTask) or (
        isinstance(task, AgentAssertionTask) and task.source == "spans"
    )


def _check_scopes(tasks: Sequence[Task], dependencies: Sequence[tuple[int, ...]]) -> None:
    """Refuse what no session can answer.

    A session has one result where its records have one each, so neither can stand for the other.
    """
    for task, needs in zip(tasks, dependencies, strict=True):
        for need in needs:
            if tasks[need].scope != task.scope:
                raise ConfigError(
                    f"task {task.id!r}: its scope is {task.scope}, that of {tasks[need].id!r} in "
                    f"its depends_on is {tasks[need].scope}; tasks can depend on those of their "
                    "own scope only"
                )
        if task.scope == "score" and not isinstance(task, ScoreTask):
            raise ConfigError(f"task {task.id!r}: the scope score is that of Score tasks only")
        if task.scope == "session" and any(
            isinstance(each, AgentAssertionTask)
            and each.source == "context"
            and not each.context_path
            for each in _with_condition(task)
        ):
            raise ConfigError(
                f"task {task.id!r}: a session's context is no response; give the context_path of "
                "one, such as 'records[-1].context.response', or say source: spans"
            )


def _index(tasks: Sequence[Task]) -> dict[str, int]:
    index: dict[str, int] = {}
    for at, task in enumerate(tasks):
        if task.id in index:
            raise ConfigError(
                f"tasks[{at}]: the id {task.id!r} is taken by tasks[{index[task.id]}] "
                "(ids are compared in lower case)"
            )
        index[task.id] = at
    return index


def _dependencies(task: Task, index: dict[str, int]) -> tuple[int, ...]:
    found: list[int] = []
    for name in dict.fromkeys(task.depends_on):
        if name == task.id:
            raise ConfigError(f"task {task.id!r}: depends_on names the task itself")
        if name not in index:
            known = ", ".join(map(repr, index))
            raise ConfigError(
                f"task {task.id!r}: depends_on names {name!r}, which is no task; there are {known}"
            )
        found.append(index[name])
    return tuple(found)


def _levels(tasks: Sequence[Task]) -> tuple[list[int], tuple[tuple[int, ...], ...]]:
    """Give every task the length of its longest way to a task without dependencies.

    Returns:
        The lengths, and the indexes of the tasks that each task depends on.
    """
    index = _index(tasks)
    dependencies = tuple(_dependencies(task, index) for task in tasks)
    waiting = [len(needs) for needs in dependencies]
    dependents: list[list[int]] = [[] for _ in tasks]
    for at, needs in enumerate(dependencies):
        for need in needs:
            dependents[need].append(at)
    levels = [0] * len(tasks)
    ready = [at for at, count in enumerate(waiting) if count == 0]
    for at in ready:  # grows while it is read
        for dependent in dependents[at]:
            levels[dependent] = max(levels[dependent], levels[at] + 1)
            waiting[dependent] -= 1
            if waiting[dependent] == 0:
                ready.append(dependent)
    if len(ready) < len(tasks):
        cycle = _cycle(dependencies, {at for at, count in enumerate(waiting) if count})
        names = " → ".join(repr(tasks[at].id) for at in cycle)
        raise ConfigError(f"task {tasks[cycle[0]].id!r}: depends_on goes in a circle: {names}")
    return levels, dependencies


def _cycle(dependencies: Sequence[tuple[int, ...]], stuck: set[int]) -> list[int]:
    """Walk from a stuck task to stuck dependencies until one repeats."""
    way = [min(stuck)]
    while True:
        need = next(need for need in dependencies[way[-1]] if need in stuck)
        if need in way:
            return [*way[way.index(need) :], need]
        way.append(need)


def plan_text(plan: Plan) -> str:
    """Write the stages of a plan, one task a line, with gates, dependencies and what is required.

    Those of sessions stand behind those of records.
    """
    lines = _stages(plan, "")
    if plan.session is not None:
        lines += _stages(plan.session, "session, ")
    return "\n".join(map(visible, lines))


def _stages(plan: Plan, scope: str) -> list[str]:
    tasks = {task.id: task for task in plan.tasks}
    lines: list[str] = []
    for at, stage in enumerate(plan.stages):
        lines.append(f"{scope}stage {at}")
        for task_id in stage:
            task = tasks[task_id]
            gate = ", gate" * task.condition + ", required" * task.required
            after = f", after {', '.join(task.depends_on)}" if task.depends_on else ""
            lines.append(f"  {task_id} ({task.task_type} {task.operator}{gate}{after})")
    return lines
