"""Expected answers of an agent, read from stored records where these tell them."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from pydantic import JsonValue

from scouter.client.carried_tasks import resolved_expected
from scouter.errors import ScouterError
from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task

_KEYS: Final = (
    "expected_outcome", "expected_answer", "expected_output", "expected_response", "expected",
    "reference_answer", "reference", "ground_truth", "golden_answer", "gold_answer",
)  # fmt: skip
"""Keys of a context under which a right answer usually stands, the likeliest first."""
_WHOLE: Final = frozenset({ComparisonOperator.Equals, ComparisonOperator.DeepEquals})
_PART: Final = frozenset({ComparisonOperator.Contains})


def expected_answer(tasks: Sequence[Task], context: JsonValue, answer: str | None) -> str | None:
    """Read the expected answer from the context, a judge's reference, or a task's value.

    Args:
        tasks: Tasks of the profile that evaluated the record.
        context: Context of the record.
        answer: Answer of the agent; it tells which tasks are about the answer.

    Returns:
        The expected answer; None if none of them tells it. The agent's own answer is no expected
        one.
    """
    if isinstance(context, Mapping):
        for key in _KEYS:
            if (text := _text(context.get(key))) is not None:
                return text
    for task in tasks:
        if isinstance(task, LLMJudgeTask) and task.reference is not None:
            text = _text(_at(task.reference, context))
            if text is not None:
                return text
    about = [
        task for task in tasks if isinstance(task, AssertionTask) and _reads(task, context, answer)
    ]
    for operators in (_WHOLE, _PART):
        for task in about:
            if task.operator in operators and (text := _wanted(task, context)) is not None:
                return text
    return None


def _reads(task: AssertionTask, context: JsonValue, answer: str | None) -> bool:
    return bool(answer and task.context_path) and _at(task.context_path, context) == answer


def _wanted(task: AssertionTask, context: JsonValue) -> str | None:
    try:
        return _text(resolved_expected(task, context))
    except (TaskFault, ScouterError):
        return None


def _at(path: str | None, context: JsonValue) -> JsonValue:
    try:
        return Path(path).get(context)
    except (TaskFault, ScouterError):
        return None


def _text(value: JsonValue) -> str | None:
    if isinstance(value, str):
        return value if value.strip() else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return json.dumps(value)
    return None
