"""The question that a person answers about a record: a task's, with the record's values in it."""

from typing import Final

from pydantic import JsonValue

from scouter.evaluate.judge.prompt_text import fill, split_variables
from scouter.evaluate.outcome import TaskFault
from scouter.evaluate.paths.path import Path
from scouter.evaluate.show.definition import definition_of
from scouter.evaluate.show.words import plain
from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
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

    return "".join(map(put, split_variables(question_of(task))))
