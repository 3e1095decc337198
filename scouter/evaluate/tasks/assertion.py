"""AssertionTask: compare one value of the record with an expected one."""

from typing import TYPE_CHECKING, ClassVar, Literal, Unpack

from scouter.evaluate.tasks.base import TaskBase, TaskOptions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from scouter.evaluate.operators.comparison import ComparisonOperator


class AssertionTask(TaskBase):
    """Compare one value of the record's context with an expected one. No network, no clock.

    Args:
        id: Unique inside one profile; lower-cased.
        context_path: Path of the value, such as `response.items[0].sku`; None reads the whole
            context. See `scouter.evaluate.paths.path`.
        expected_value: The value to compare with; `${path}` inside texts is read from the record.
        operator: The comparison.
        item_context_path: Read this path from every item of a list first. The found values are
            compared one by one or as a list, as the operator does.
        description: For people.
        depends_on: Tasks that run before; their actual values can be read under their ids.
        condition: True makes the task a gate.
        required: True stops a release wherever the task does not pass.
        scope: `session` evaluates all records of a session together, once.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = (
        "id", "context_path", "expected_value", "operator", "item_context_path", "description",
        "depends_on", "condition",
    )  # fmt: skip

    task_type: Literal["Assertion"] = "Assertion"
    context_path: str | None = None
    item_context_path: str | None = None

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            context_path: str | None = None,
            expected_value: object = None,
            operator: ComparisonOperator | str = ...,
            item_context_path: str | None = None,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            condition: bool | None = None,
            *,
            task_type: Literal["Assertion"] = "Assertion",
            **options: Unpack[TaskOptions],
        ) -> None: ...
