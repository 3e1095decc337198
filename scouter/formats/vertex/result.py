"""Results of an evaluation: rows, and what they come to."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

from pydantic import JsonValue

from scouter.errors import ConfigError
from scouter.formats.vertex.dataset import Row

Summary: TypeAlias = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalResult:
    """Scores of each row and their means.

    `summary_metrics` has `row_count`, and for each metric `<metric>/mean` and `<metric>/std` (n−1)
    over the rows that have a score, how many these are (`<metric>/n`) and how many have an error
    instead (`<metric>/n_error`). The mean of no row, and the deviation of fewer than two, is NaN.
    """

    summary_metrics: Summary
    rows: list[Row]
    """The dataset's columns, what the agent gave, then the metrics' columns: `<metric>/score`,
    `<metric>/explanation` and others, and `<metric>/error` for a metric that has no score
    somewhere."""
    metadata: dict[str, str] | None = None
    """Always None: there is no experiment elsewhere that knows of it."""

    @property
    def metrics_table(self) -> Any:  # noqa: ANN401 — pandas loads on demand
        """The rows as a DataFrame of pandas.

        Raises:
            ConfigError: pandas is not installed; `rows` needs none.
        """
        try:
            pd: Any = import_module("pandas")
        except ImportError as error:
            raise ConfigError(
                "metrics_table needs pandas, which is not installed: pip install pandas; the same "
                "is in rows"
            ) from error
        return pd.DataFrame(self.rows)


def summarize(name: str, scores: Sequence[JsonValue]) -> Summary:
    """Compute mean and deviation of the scores that there are.

    Args:
        name: Begins the keys.
        scores: Numbers; what is none is left out.

    Returns:
        `<name>/mean` and `<name>/std` (n−1); NaN where there are too few.
    """
    known = [float(score) for score in scores if isinstance(score, int | float)]
    return {
        f"{name}/mean": statistics.fmean(known) if known else math.nan,
        f"{name}/std": statistics.stdev(known) if len(known) > 1 else math.nan,
    }
