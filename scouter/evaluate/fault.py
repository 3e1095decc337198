"""The one exception by which a check says that it cannot decide."""

from scouter.errors import DataError
from scouter.evaluate.outcome import Reason


class TaskFault(DataError):
    """One task cannot be decided for one record; it becomes that task's `errored` result.

    Args:
        reason: Kind of fault, as results carry it.
        message: What was wrong, where, and what is there instead.
    """

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(reason, message)
        self.reason, self.message = reason, message

    def __str__(self) -> str:
        return self.message


class VacuousFault(TaskFault):
    """The expected value asks nothing: whatever is found would pass, or fail.

    Unlike other expected values that do not fit, it is refused where the task is compiled.
    """
