"""Comparisons of two runs, with the ways to save and show them."""

from collections.abc import Collection, Mapping
from typing import Self

from scouter.evaluate.api.shown import Drawn
from scouter.evaluate.compare.data import DEFAULT_THRESHOLD, RecordsComparison, RunComparison
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.run import RunResults


class ComparisonResults(RecordsComparison, Drawn, frozen=True):
    """Two runs of one profile, record by record.

    `regressed` is true if a record's pass rate fell by the threshold or more, if a record errors
    now that did not before, if a record of the baseline is missing, if a task that passed is gone
    from a record or if none of its tasks is there again; `reasons` says which.
    """

    @classmethod
    def of(
        cls,
        baseline: ResultRows,
        new: ResultRows,
        regression_threshold: float = DEFAULT_THRESHOLD,
        accept_changed: Collection[str] = (),
    ) -> Self:
        """Compare two evaluations of one profile; see `scouter.evaluate.compare.runs`."""
        from scouter.evaluate.compare.runs import compare_results  # a stored one needs no test

        found = compare_results(baseline, new, regression_threshold, accept_changed)
        return cls.holding(found)

    @classmethod
    def holding(cls, found: RecordsComparison) -> Self:
        """Take the fields over; they were checked, and there may be one per task result."""
        return cls.model_construct(found.model_fields_set, **dict(found))

    def print_missing_tasks(self) -> None:
        """Print the tasks that one run only has, to standard output."""
        from scouter.evaluate.show.comparison_tables import print_missing_tasks  # rich is slow

        print_missing_tasks(self)

    def as_table(self) -> None:
        """Print the comparison to standard output."""
        from scouter.evaluate.show.comparison_tables import print_comparison  # rich is slow

        print_comparison(self)


class ScenarioComparisonResults(RunComparison, Drawn, frozen=True):
    """Two replays of one set of scenarios.

    `regressed` is true if an alias regressed (see `ComparisonResults`), if a scenario passed and
    fails now, errors now and did not before, lost the threshold or more of its pass rate, lost a
    task that passed or has no task in common with the baseline, or if a scenario or an alias of
    the baseline is missing; `reasons` says which.
    """

    dataset_comparisons: Mapping[str, ComparisonResults]

    @classmethod
    def of(
        cls,
        baseline: RunResults,
        new: RunResults,
        regression_threshold: float = DEFAULT_THRESHOLD,
        accept_changed: Collection[str] = (),
    ) -> Self:
        """Compare two replays; see `scouter.evaluate.compare.runs`."""
        from scouter.evaluate.compare.runs import compare_scenario_results  # as above

        found = compare_scenario_results(baseline, new, regression_threshold, accept_changed)
        parts = {
            alias: ComparisonResults.holding(each)
            for alias, each in found.dataset_comparisons.items()
        }
        fields = {**dict(found), "dataset_comparisons": parts}
        return cls.model_construct(found.model_fields_set, **fields)

    def as_table(self) -> None:
        """Print the comparison to standard output."""
        from scouter.evaluate.show.comparison_tables import print_scenario_comparison  # rich

        print_scenario_comparison(self)
