"""Silence: an hour without results of a profile that has results at that hour of the week."""

import statistics
from collections import Counter
from collections.abc import Sequence
from typing import Final

from collector.store.rates import SeriesQuery, TaskCounts
from collector.store.store import Store

HOUR_NS: Final = 3_600 * 10**9
WEEK_NS: Final = 7 * 24 * HOUR_NS
WEEKS: Final = 8
"""Weeks before whose same hours say how many results an hour should have."""
FEWEST_WEEKS: Final = 3
"""Weeks of history from which on they say it."""
HOURS: Final = 24
"""Hours before that say it while there is less history."""
USUAL: Final = 20
"""Results that an hour mostly has, from which on a quiet one is told."""
_QUIET: Final = 0.1
"""A silent hour has this share of its usual results at most."""
_SPREADS: Final = 3 * 1.4826
"""Median absolute deviations below the median: three standard deviations of a normal spread."""

_Counts = Counter[tuple[str, int]]
"""Results by alias and the beginning of their hour."""


def silent_hours(store: Store, space: str, end_ns: int) -> dict[str, float]:
    """Find the profiles that were silent in an hour.

    Args:
        store: Has the results.
        space: Of the profiles.
        end_ns: The end of the hour, a whole one.

    Returns:
        The usual number of results in that hour, by alias.

    Raises:
        TransientError: The store cannot be read now.

    Cost: nine questions about whole hours.
    """
    start_ns = end_ns - HOUR_NS
    counts = _results(store, space, start_ns - HOURS * HOUR_NS, end_ns)
    for week in range(1, WEEKS + 1):
        before_ns = start_ns - week * WEEK_NS
        counts |= _results(store, space, before_ns, before_ns + HOUR_NS)
    found: dict[str, float] = {}
    for alias in {alias for alias, _ in counts}:
        weeks = [counts[alias, start_ns - week * WEEK_NS] for week in range(1, WEEKS + 1)]
        hours = [counts[alias, start_ns - hour * HOUR_NS] for hour in range(1, HOURS + 1)]
        usual = usual_if_silent(counts[alias, start_ns], weeks, hours)
        if usual is not None:
            found[alias] = usual
    return found


def usual_if_silent(count: int, weeks: Sequence[int], hours: Sequence[int]) -> float | None:
    """Tell whether an hour was silent.

    Args:
        count: Its results.
        weeks: Results of the same hour of the weeks before, the last week first; zeros at the end
            stand for a time before the first result.
        hours: Results of the hours before, as many as a day has.

    Returns:
        The usual number of results, where the hour was silent; else None. With three weeks of
        history that is their median. A silent hour has a tenth of it at most; it also lies three
        spreads (1.4826 median absolute deviations) below, or no week had fewer than 20. With less
        history every hour of the day before has to have had 20 results: the fewest of them are
        the usual ones.
    """
    known = list(weeks)
    while known and not known[-1]:
        known.pop()
    if len(known) >= FEWEST_WEEKS:
        usual = statistics.median(known)
        spread = statistics.median(abs(each - usual) for each in known)
        is_silent = count < usual - _SPREADS * spread or min(known) >= USUAL
    else:
        usual, is_silent = float(min(hours, default=0)), True
    return usual if usual >= USUAL and count <= _QUIET * usual and is_silent else None


def _results(store: Store, space: str, since_ns: int, until_ns: int) -> _Counts:
    query = SeriesQuery(space=space, since_ns=since_ns, until_ns=until_ns, bucket_ns=HOUR_NS)
    found = _Counts()
    for item in store.task_series(query):
        found[item.counts.alias, item.start_ns] += _decided(item.counts)
    return found


def _decided(counts: TaskCounts) -> int:
    return counts.passed + counts.failed + counts.errored
