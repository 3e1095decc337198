"""Values of earlier tasks that a task reads."""

import re
from collections.abc import Iterator
from typing import Final

from pydantic import JsonValue

from scouter.evaluate.tasks.assertion import AssertionTask
from scouter.evaluate.tasks.code import CodeTask
from scouter.evaluate.tasks.judge import LLMJudgeTask
from scouter.evaluate.tasks.task import Task

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
