"""Run trace or agent assertions at once, without a record."""

from collections.abc import ItemsView, Iterable, Iterator, Mapping

from scouter.errors import ConfigError
from scouter.evaluate.engine.execute import evaluate_record
from scouter.evaluate.engine.plan import compile_plan
from scouter.evaluate.results.record_result import MissingKeyError
from scouter.evaluate.results.task_result import EvalTaskResult
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.agent import AgentAssertionTask
from scouter.evaluate.tasks.task import Task
from scouter.evaluate.tasks.trace import TraceAssertionTask
from scouter.model.record import EvalRecord
from scouter.model.span import Span


class AssertionResults:
    """Results by task id.

    Args:
        results: One per task.
    """

    def __init__(self, results: Iterable[EvalTaskResult]) -> None:
        self.results: Mapping[str, EvalTaskResult] = {r.task_id: r for r in results}

    def __getitem__(self, task_id: str) -> EvalTaskResult:
        result = self.results.get(task_id.lower())
        if result is None:
            known = ", ".join(map(repr, self.results))
            raise MissingKeyError(f"Key not found: {task_id}; the tasks are {known}")
        return result

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def items(self) -> ItemsView[str, EvalTaskResult]:
        """Pairs of task id and result."""
        return self.results.items()


def execute_trace_assertion_tasks(
    tasks: Iterable[TraceAssertionTask], spans: Iterable[Span]
) -> AssertionResults:
    """Run trace assertions on spans.

    Raises:
        ConfigError: The tasks do not form a plan; names the task.
    """
    return _run(tasks, EvalRecord(), SpanTree(spans))


def execute_agent_assertion_tasks(
    tasks: Iterable[AgentAssertionTask], context: object
) -> AssertionResults:
    """Run agent assertions on a response, or on a context that holds one under `response`.

    Raises:
        ConfigError: The tasks do not form a plan; names the task.
    """
    return _run(tasks, EvalRecord(context), None)


def _run(tasks: Iterable[Task], record: EvalRecord, spans: SpanTree | None) -> AssertionResults:
    plan = compile_plan(tasks)
    if plan.session is not None:
        raise ConfigError(
            f"task {plan.session.tasks[0].id!r} has the scope session; there is no session here, "
            "leave the scope out"
        )
    return AssertionResults(evaluate_record(plan, record, spans).tasks)
