"""The profiles of compatibility, and the mean that each of them takes."""

import math
from collections.abc import Iterable
from statistics import fmean
from typing import Final, Literal, TypeAlias

from scouter.errors import ConfigError

Compat: TypeAlias = Literal["sound", "vss", "nat-1.9"]
"""`sound` is right and documented. `nat-1.9` reads datasets and takes means as NeMo Agent Toolkit
1.9 does, and `vss` scores as the evaluators of VSS on it do as well."""

COMPATS: Final = ("sound", "vss", "nat-1.9")


def check_compat(compat: str) -> None:
    """Refuse a profile that there is not.

    Raises:
        ConfigError: Names those there are.
    """
    if compat not in COMPATS:
        raise ConfigError(f"compat {compat!r}: expected one of {', '.join(COMPATS)}")


def mean_score(scores: Iterable[object], compat: Compat) -> float | None:
    """The mean of the scores that there are.

    Args:
        scores: Of all items; None for one without a score.
        compat: In `sound` a number that is not finite counts as no score, and the mean is exact.
            The others round to two decimals, and one NaN makes the mean NaN.

    Returns:
        None where no item has a score.
    """
    numbers = [float(score) for score in scores if isinstance(score, int | float)]
    if compat == "sound":
        numbers = [score for score in numbers if math.isfinite(score)]
        return fmean(numbers) if numbers else None
    return round(sum(numbers) / len(numbers), 2) if numbers else None
