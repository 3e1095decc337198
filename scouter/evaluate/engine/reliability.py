"""Reliability tasks, compiled: the names of called tools against those that have to be called."""

from pydantic import JsonValue

from scouter.errors import DataError
from scouter.evaluate.accuracy.reliability import ReliabilityEvaluator
from scouter.evaluate.engine.calls_motion import CallsScore
from scouter.evaluate.engine.compiled_task import CompiledTask, Subject
from scouter.evaluate.engine.metric import Measured, compile_metric
from scouter.evaluate.outcome import Reason, TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.responses.read import work_of_spans
from scouter.evaluate.spans.tree import SpanTree
from scouter.evaluate.tasks.reliability import ReliabilityTask
from scouter.evaluate.trajectory.call import read_trajectory


def compile_reliability(task: ReliabilityTask, subject: Subject) -> CompiledTask:
    """Turn a reliability task into a function from record to result.

    Args:
        task: The task.
        subject: Fields that its results share.

    Raises:
        ConfigError: A path or a template that can never work.
    """
    evaluator = ReliabilityEvaluator(task.expected_tool_calls, task.order_matters, task.exact_match)
    path = None if task.predicted is None else Path(task.predicted)

    def measure(scope: JsonValue, spans: SpanTree | None, base: JsonValue) -> Measured:
        if path is None:
            names = [call.name for call in work_of_spans(spans).tool_calls]
        else:
            names = _names_at(path, base)
        found = evaluator.check(names)
        return Measured(score=float(found.passed), told=found.summary)

    compiled = compile_metric(subject, measure)
    if path is not None:
        return compiled
    moves = CallsScore(
        is_flag=True,
        only_rises=not task.exact_match,
        minds_order=task.order_matters,
        minds_arguments=False,
    )
    return moves.doubt(compiled, task.operator, task.calls_told_by)


def _names_at(path: Path, base: JsonValue) -> list[str]:
    try:
        return [call.name for call in read_trajectory(path.get(base), "the calls")]
    except TaskFault:
        raise
    except DataError as error:
        raise TaskFault(Reason.TYPE, str(error)) from error
