"""A judge's outcomes beside those of people: the four counts and the rates made of them."""

from dataclasses import dataclass

from scouter.evaluate.intervals import Interval, wilson
from scouter.evaluate.statistics.proportion import CONFIDENCE, newcombe_difference


@dataclass(frozen=True, slots=True, kw_only=True)
class Confusion:
    """Items that a person and a judge have both decided.

    People's labels are the truth here; "good" is an item that a person passes.

    Raises:
        ValueError: A count is negative.
    """

    good_passed: int
    good_failed: int
    bad_passed: int
    bad_failed: int

    def __post_init__(self) -> None:
        counts = (self.good_passed, self.good_failed, self.bad_passed, self.bad_failed)
        if min(counts) < 0:
            raise ValueError(f"{counts} are no counts")

    @property
    def good(self) -> int:
        """Items that people pass."""
        return self.good_passed + self.good_failed

    @property
    def bad(self) -> int:
        """Items that people fail."""
        return self.bad_passed + self.bad_failed

    @property
    def total(self) -> int:
        """All items."""
        return self.good + self.bad

    @property
    def passed(self) -> int:
        """Items that the judge passes."""
        return self.good_passed + self.bad_passed

    @property
    def table(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Rows: people pass, people fail; columns: the judge passes, the judge fails."""
        return (self.good_passed, self.good_failed), (self.bad_passed, self.bad_failed)

    @property
    def sensitivity(self) -> float | None:
        """Share of the good items that the judge passes; None without good items."""
        return self.good_passed / self.good if self.good else None

    @property
    def specificity(self) -> float | None:
        """Share of the bad items that the judge fails; None without bad items."""
        return self.bad_failed / self.bad if self.bad else None

    @property
    def accuracy(self) -> float | None:
        """Share of the items of which both say the same; None without items."""
        return (self.good_passed + self.bad_failed) / self.total if self.total else None

    @property
    def youden(self) -> float | None:
        """Youden's J, sensitivity + specificity - 1: 1 for a perfect judge, 0 for a blind one.

        Source: Youden 1950, Cancer 3, 32-35.
        """
        sensitivity, specificity = self.sensitivity, self.specificity
        if sensitivity is None or specificity is None:
            return None
        return sensitivity + specificity - 1

    def sensitivity_interval(self, confidence: float = CONFIDENCE) -> Interval:
        """Wilson's interval; (0, 1) without good items."""
        return wilson(self.good_passed, self.good, confidence)

    def specificity_interval(self, confidence: float = CONFIDENCE) -> Interval:
        """Wilson's interval; (0, 1) without bad items."""
        return wilson(self.bad_failed, self.bad, confidence)

    def accuracy_interval(self, confidence: float = CONFIDENCE) -> Interval:
        """Wilson's interval; (0, 1) without items."""
        return wilson(self.good_passed + self.bad_failed, self.total, confidence)

    def youden_interval(self, confidence: float = CONFIDENCE) -> Interval:
        """Interval of J: the difference of how often the judge passes good items and bad ones.

        Source: Newcombe's hybrid score interval; see `newcombe_difference`.
        """
        return newcombe_difference(
            self.bad_passed, self.bad, self.good_passed, self.good, confidence
        )
