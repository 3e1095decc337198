"""The results of some records, without a dataset around them."""

from dataclasses import dataclass

from scouter.evaluate.results.aligned import EvalSet


@dataclass(frozen=True, slots=True)
class EvalResultSet:
    """What `Drifter.compute_drift` gives back."""

    records: tuple[EvalSet, ...]
    """One for each record, in the records' order."""

    def record(self, id: str) -> EvalSet | None:
        """Find the results of a record by its uid; None if there are none.

        Cost: linear.
        """
        return next((found for found in self.records if found.record_uid == id), None)
