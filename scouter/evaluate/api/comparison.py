"""Comparisons of two runs, with the ways to save and show them."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Self

from scouter.evaluate.compare.data import DEFAULT_THRESHOLD, RecordsComparison, RunComparison
from scouter.evaluate.results.rows import ResultRows
from scouter.evaluate.results.run import RunResults

if TYPE_CHECKING:
    from scouter.evaluate.show.notebook import Picture


class ComparisonResults(RecordsComparison, frozen=True):
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

    def to_dataframe(self, polars: bool = False) -> Any:  # noqa: ANN401 — pandas or polars
        """Make a data frame with one row per rate; see `scouter.evaluate.show.notebook`.

        Args:
            polars: A polars frame instead of a pandas one.

        Raises:
            TypeError: `polars` is neither True nor False.
            ConfigError: The library is not installed; says how to install it.
        """
        from scouter.evaluate.show.notebook import rates_frame  # pandas loads on demand

        return rates_frame(self, polars)

    def plot(self) -> "Picture":
        """Draw the change of each rate with its interval; a notebook shows the picture."""
        from scouter.evaluate.show.notebook import comparison_picture  # few are drawn

        return comparison_picture(self)

    def _repr_html_(self) -> str:
        """Show the decision and one row per rate in a notebook."""
        from scouter.evaluate.show.notebook import comparison_html  # only in a notebook

        return comparison_html(self)

    def as_table(self) -> None:
        """Print the comparison to standard output."""
        from scouter.evaluate.show.comparison_tables import print_comparison  # rich is slow

        print_comparison(self)


class ScenarioComparisonResults(RunComparison, frozen=True):
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

    def to_dataframe(self, polars: bool = False) -> Any:  # noqa: ANN401 — pandas or polars
        """Make a data frame with one row per rate; see `scouter.evaluate.show.notebook`.

        Args:
            polars: A polars frame instead of a pandas one.

        Raises:
            TypeError: `polars` is neither True nor False.
            ConfigError: The library is not installed; says how to install it.
        """
        from scouter.evaluate.show.notebook import rates_frame  # pandas loads on demand

        return rates_frame(self, polars)

    def plot(self) -> "Picture":
        """Draw the change of each rate with its interval; a notebook shows the picture."""
        from scouter.evaluate.show.notebook import comparison_picture  # few are drawn

        return comparison_picture(self)

    def _repr_html_(self) -> str:
        """Show the decision and one row per rate in a notebook."""
        from scouter.evaluate.show.notebook import comparison_html  # only in a notebook

        return comparison_html(self)

    def as_table(self) -> None:
        """Print the comparison to standard output."""
        from scouter.evaluate.show.comparison_tables import print_scenario_comparison  # rich

        print_scenario_comparison(self)
