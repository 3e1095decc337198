"""ScoredTask: what tasks have in common whose metric gives a number."""

from scouter.evaluate.operators.comparison import ComparisonOperator
from scouter.evaluate.tasks.base import TaskBase
from scouter.evaluate.tasks.json_input import JsonInput


class ScoredTask(TaskBase):
    """A task that measures from 0 to 1; its number compared with `expected_value` is the outcome.

    Without both, a task passes where the number equals 1. Each kind of such tasks is a subclass
    with a `task_type` of its own; `scouter.evaluate.engine.metric` compiles it.
    """

    operator: ComparisonOperator = ComparisonOperator.Equals
    expected_value: JsonInput = 1
