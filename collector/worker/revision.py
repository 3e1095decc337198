"""An evaluation of another version of a profile, on its way to the thread that judges."""

from collections.abc import Collection
from dataclasses import dataclass

from collector.store.rows import EvaluationRow, TraceKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """The next evaluation on a record or session, and what it has read."""

    row: EvaluationRow
    trace_ids: Collection[str]
    """Traces whose spans it has seen; none if its tasks read none."""

    @property
    def key(self) -> tuple[str, str]:
        """Space and uid, by which the evaluation before is found."""
        return self.row.space, self.row.record_uid

    @property
    def traces(self) -> list[TraceKey]:
        """The traces with their space."""
        return [(self.row.space, trace_id) for trace_id in self.trace_ids]
