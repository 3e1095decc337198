"""CodeTask: let a function in Python check a record."""

from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import Field

from scouter.evaluate.tasks.scored import ScoredTask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from scouter.evaluate.operators.comparison import ComparisonOperator
    from scouter.evaluate.tasks.base import Scope
    from scouter.evaluate.tasks.when import When


class CodeTask(ScoredTask):
    """Run a check that an installed package has, in a process of its own.

    The check returns true, false or a number; true is 1, false is 0. Without `operator` and
    `expected_value` the task passes where that is 1.

    Args:
        id: Unique inside one profile; lower-cased.
        check: Name of the check, never a place in a program: an entry point of the group
            `scouter.checks`, or offline a function of the module that `--checks` names.
        source: `context` gives the check the record's context, `spans` the spans of the trace,
            too.
        timeout_s: Seconds after which the check is killed and the task is errored.
        operator: The comparison of the score.
        expected_value: The value that the score is compared with.
        description: For people.
        depends_on: Tasks that run before; the check finds their values in the context, by id.
        condition: True makes the task a gate.
        scope: `session` gives the check all records of a session and the spans of their traces.
    """

    POSITIONAL: ClassVar[tuple[str, ...]] = ("id", "check")

    task_type: Literal["Code"] = "Code"
    check: str = Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$", max_length=128)
    source: Literal["context", "spans"] = "context"
    timeout_s: float = Field(default=2.0, gt=0, le=10)

    if TYPE_CHECKING:

        def __init__(
            self,
            id: str,
            check: str,
            *,
            source: Literal["context", "spans"] = "context",
            timeout_s: float = 2.0,
            operator: ComparisonOperator | str = ...,
            expected_value: object = ...,
            description: str | None = None,
            depends_on: Sequence[str] | None = None,
            condition: bool | None = None,
            scope: Scope = "record",
            when: When | Mapping[str, object] | None = None,
            required: bool = False,
            task_type: Literal["Code"] = "Code",
        ) -> None: ...

    @property
    def reads_spans(self) -> bool:
        """True if the check is given the spans of the trace."""
        return self.source == "spans"
