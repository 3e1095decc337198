"""Labels: what people say of stored records."""

from collections.abc import Sequence
from typing import Protocol

from collector.store.labels import LabelCount, LabelQuery, LabelRow


class LabelStore(Protocol):
    """Labels go with their record, whoever takes it out."""

    def append_labels(self, labels: Sequence[LabelRow]) -> int:
        """Keep labels; the last one of a person on a task and record counts.

        One on a record that was erased meanwhile is dropped.
        """
        ...

    def labels(self, query: LabelQuery) -> Sequence[LabelRow]:
        """Labels that count, the newest first."""
        ...

    def label_raters(self, space: str) -> Sequence[str]:
        """Names that people labelled under, by their first use.

        Names that differ in case or outer spaces alone are one, as it was spelt first.
        """
        ...

    def label_counts(self, space: str) -> Sequence[LabelCount]:
        """Count the labels on each task that has one, in any order."""
        ...
