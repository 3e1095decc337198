"""Judge records by a profile, here and now."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from scouter.drift.profile import AgentEvalProfile
from scouter.evaluate.dataset import EvalDataset
from scouter.evaluate.results.row import EvalResultSet
from scouter.model.record import EvalRecord
from scouter.model.span import Span

if TYPE_CHECKING:
    from scouter.evaluate.judge.port import AnyJudge


class Drifter:
    """Judges records by a profile, as a collector would, without a queue or a collector.

    Args:
        judge: Answers the profile's judge tasks; see `EvalDataset.evaluate`.
    """

    def __init__(self, judge: "AnyJudge | None" = None) -> None:
        self._judge = judge

    def compute_drift(
        self,
        data: EvalRecord | Iterable[EvalRecord],
        drift_profile: AgentEvalProfile,
        spans: Iterable[Span] | None = None,
    ) -> EvalResultSet:
        """Run the tasks of a profile over records.

        Args:
            data: One record, or some.
            drift_profile: The tasks.
            spans: Spans of the records' traces.

        Raises:
            TypeError: Something among the records is none.

        Cost: linear in records and spans.
        """
        records = [data] if isinstance(data, EvalRecord) else data
        dataset = EvalDataset(records, drift_profile.tasks, spans)
        results = dataset.evaluate(judge=self._judge)
        return EvalResultSet(tuple(aligned.eval_set for aligned in results))
