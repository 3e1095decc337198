"""Questions that a person answers about a record: a task's words with its values, and its scale."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pydantic import JsonValue

from scouter.agent.calibration.asking import scale_of
from scouter.errors import ConfigError
from scouter.evaluate.judge.prompt_text import fill
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.paths.templates import split_templates
from scouter.evaluate.show.definition import definition_of
from scouter.evaluate.show.words import plain
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import Criterion, LLMJudgeTask
from scouter.evaluate.tasks.task import Task

_LINE: Final = 200
"""Characters of a question in a list."""
_VALUE: Final = 300
"""Characters of a record's value in the condition of a check."""


def question_of(task: Task) -> str:
    """The judge's prompt as it was written; of a check its description, or else its condition."""
    if isinstance(task, LLMJudgeTask):
        return "\n\n".join(each.content for each in task.prompt.messages)
    return task.description or plain(definition_of(task.model_dump(mode="json")).passes)


def question_line(task: Task) -> str:
    """A line for lists: the description, or else the begin of the question."""
    return task.description or question_of(task)[:_LINE]


def is_readable(task: Task) -> bool:
    """Tell whether the texts of a record are enough to decide a task: of spans they show none."""
    return isinstance(task, LLMJudgeTask | AssertionTask)


def question_about(task: Task, context: JsonValue) -> str:
    """The question with a record's values in it.

    Args:
        task: Asks it.
        context: Of the record.

    Returns:
        A variable that only another task or the trace can fill stands in it as it was written.
    """
    if isinstance(task, LLMJudgeTask):
        most = task.prompt.max_value_characters
    elif task.description:
        return task.description
    else:
        most = _VALUE
    scope: JsonValue = context if isinstance(context, dict) else {"context": context}

    def put(part: str | Path) -> str:
        if isinstance(part, str):
            return part
        try:
            return fill(part, scope, most)
        except TaskFault:
            return f"${{{part.text}}}"

    return "".join(map(put, split_templates(question_of(task))))


MOST_STEPS: Final = 11
"""Numbers that stand on buttons of their own, each with its key."""
_TENTHS: Final = tuple(each / 10 for each in range(11))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scale:
    """The scale of a judge task, for people."""

    least: float
    most: float
    steps: tuple[float, ...]
    """Numbers to choose from, in order; empty where any number between the ends will do."""
    passes: Callable[[float], bool]
    """Tell whether the task passes with a number."""

    def __contains__(self, score: float) -> bool:
        """Tell whether a number is between the ends."""
        return self.least <= score <= self.most


def scale_for(task: Task) -> Scale | None:
    """Find the scale on which people can score records.

    Returns:
        That of a judge task with a `scale`, or with a rubric whose score it compares. None of any
        other task, and where the number that it compares with stands in the record.
    """
    if not isinstance(task, LLMJudgeTask):
        return None
    is_rubric = task.rubric is not None and task.context_path == "score"
    bounds = (0.0, 1.0) if is_rubric else task.scale
    if bounds is None:
        return None
    least, most = bounds
    passes = scale_of(task)
    try:
        passes(least)
    except ConfigError:
        return None
    steps = _steps(least, most) if task.rubric is None else _parts(task.rubric)
    return Scale(least=least, most=most, steps=steps, passes=passes)


def _steps(least: float, most: float) -> tuple[float, ...]:
    """Whole numbers, of 0 to 1 tenths; none where these would be too many."""
    if (least, most) == (0, 1):
        return _TENTHS
    if not (least.is_integer() and most.is_integer()) or most - least >= MOST_STEPS:
        return ()
    return tuple(map(float, range(int(least), int(most) + 1)))


def _parts(rubric: tuple[Criterion, ...]) -> tuple[float, ...]:
    """Shares of criteria that weigh the same; none where they do not, or are too many."""
    count = len(rubric)
    if count >= MOST_STEPS or len({each.weight for each in rubric}) > 1:
        return ()
    return tuple(each / count for each in range(count + 1))
