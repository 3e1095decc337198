"""Rules of trouble: counts that grew within an hour, tasks that err, hours without results."""

import statistics
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from collector.alerts.alert import Finding, Trouble
from collector.alerts.evidence import error_of
from collector.metrics import OVERTAKEN, TotalName, Totals, revision_label
from collector.store.evaluation_queries import EvaluationQuery
from collector.store.letters import NO_PROFILE
from collector.store.rates import SeriesQuery, TaskCounts, TaskQuery
from collector.store.rows import EvaluationRow
from collector.store.store import Store
from scouter.evaluate.outcome import Outcome, Reason

FEWEST: Final = 10
"""Things of a kind within an hour from which on they are reported."""
SHARE: Final = 0.01
"""Of all that came in that time."""

Counted = Counter[tuple[str, str]]
"""Totals by space and name."""

_IN: Final = "in"
_EVALUATED: Final = "evaluated"
_NAMES: Final[Mapping[tuple[TotalName, str], str]] = {
    (TotalName.TASKS, Reason.BUDGET.value): Trouble.JUDGE_BUDGET,
    (TotalName.TASKS, Outcome.ERRORED.value): Trouble.ERRORED,
    # Judges are called after the first evaluation, so that these are revisions.
    (TotalName.REVISIONS, revision_label(Outcome.PENDING, Reason.BUDGET)): Trouble.JUDGE_BUDGET,
    (TotalName.REVISIONS, revision_label(Outcome.PENDING, Outcome.ERRORED)): Trouble.ERRORED,
    **{(TotalName.DEAD_LETTERS, label): Trouble.UNKNOWN_PROFILE for label in NO_PROFILE},
    (TotalName.DROPPED, OVERTAKEN): Trouble.OVERTAKEN,
}
"""Names of totals that have a label."""
_OTHERS: Final[Mapping[TotalName, str]] = {
    TotalName.DEAD_LETTERS: Trouble.DEAD_LETTERS,
    TotalName.DROPPED: Trouble.DROPPED,
    TotalName.LOST: Trouble.LOST,
    TotalName.INCOMPLETE: Trouble.INCOMPLETE,
    TotalName.RECORDS_RECEIVED: _IN,
    TotalName.SPANS_RECEIVED: _IN,
    TotalName.RECORDS: _EVALUATED,
}
"""Names of totals whatever other label they have."""


class _Rule(NamedTuple):
    """A count that is trouble once it has increased within an hour."""

    trouble: Trouble
    message: str
    """`{0}` is the count, `{1}` what it is compared with."""
    of: str = ""
    """Ten, and one in a hundred of this, are too many; one is where nothing is named."""
    is_part: bool = False
    """The reference that it is compared with includes it."""


_RULES: Final = (
    _Rule(
        Trouble.JUDGE_BUDGET,
        "{0:,} judge tasks were skipped in the last hour, as the budget of the judge is spent; "
        "raise judge_daily_budget_usd, or wait for the next day (UTC)",
    ),
    _Rule(
        Trouble.UNKNOWN_PROFILE,
        "{0:,} records became dead letters in the last hour, as no profile that can be used has "
        "the name in them; scouter letters list --reason unknown_profile says which: register or "
        "activate it, then replay the letters",
    ),
    _Rule(
        Trouble.OVERTAKEN,
        "{0:,} messages were deleted by their broker in the last hour before they were read, and "
        "their records and spans are lost; scouter_ingest_lost_messages_total and the log name the "
        "topic: let it keep its messages for longer than the collector may be away or behind",
    ),
    _Rule(
        Trouble.LOST,
        "{0:,} records and spans that had been accepted are gone, as was accepted at the start "
        "(--accept-loss); restore a backup if there is one",
    ),
    _Rule(
        Trouble.DEAD_LETTERS,
        "{0:,} things could not be used in the last hour, beside {1:,} records and spans that were "
        "accepted; scouter letters list says why",
        of=_IN,
    ),
    _Rule(
        Trouble.DROPPED,
        "{0:,} records and spans were given up by senders in the last hour, beside {1:,} records "
        "and spans that were accepted; scouter_queue_dropped_total has the reasons; where queues "
        "were full, enlarge them, or see what holds up the senders",
        of=_IN,
    ),
    _Rule(
        Trouble.INCOMPLETE,
        "the traces of {0:,} of {1:,} records of the last hour lacked spans when the deadline had "
        "come; see whether every service of a trace sends its spans here, and whether a process "
        "ended before it had sent all",
        of=_EVALUATED,
        is_part=True,
    ),
)


def counted(totals: Totals) -> Counted:
    """Sum up the totals that tell of trouble, and those that they are a share of."""
    found = Counted()
    for key, count in totals.items():
        name = _NAMES.get((key.name, key.label)) or _OTHERS.get(key.name)
        if name is not None:
            found[key.space, name] += count
    return found


def too_many(space: str, increased: Counted, now_ns: int) -> Iterator[Finding]:
    """Find what grew by too much in a space.

    Args:
        space: Its name.
        increased: Counts of the last hour.
        now_ns: Time of the look.
    """
    for rule in _RULES:
        count, of = increased[space, rule.trouble], increased[space, rule.of]
        whole = of if rule.is_part else of + count
        is_too_many = count >= FEWEST and count >= SHARE * whole if rule.of else count > 0
        # A loss of no space is one that nobody could count (`UNCOUNTED`).
        if is_too_many and (space or rule.trouble is not Trouble.LOST):
            message = rule.message.format(count, of)
            yield Finding(space=space, trouble=rule.trouble, since_ns=now_ns, message=message)


MOST: Final = 0.5
"""Of the results of a task, those that may err."""


def errored_profiles(
    store: Store, space: str, since_ns: int, now_ns: int, *, is_incomplete_reported: bool = False
) -> Iterator[Finding]:
    """Find the profiles of a space with a task of which half of the results erred, and ten.

    Args:
        store: Has the results.
        space: Of the profiles.
        since_ns: Results from then on.
        now_ns: Time of the look.
        is_incomplete_reported: Traces that lack spans are reported; errors for want of them have
            the same cause, and are left out.

    Returns:
        One finding for each alias: the task that erred most.

    Raises:
        TransientError: The store cannot be read now.
    """
    worst: dict[str, TaskCounts] = {}
    for each in store.task_counts(TaskQuery(space=space, since_ns=since_ns)):
        whole = each.passed + each.failed + each.errored
        if each.errored < FEWEST or each.errored < MOST * whole:
            continue
        if each.alias not in worst or each.errored > worst[each.alias].errored:
            worst[each.alias] = each
    for alias, counts in sorted(worst.items()):
        row = _example(store, space, counts)
        reason = "" if row is None else error_of(row, counts.task_id)
        if is_incomplete_reported and reason == Reason.INCOMPLETE:
            continue
        yield Finding(
            space=space, trouble=Trouble.ERRORED, subject=alias, since_ns=now_ns,
            message=_message(counts, reason, row),
        )  # fmt: skip


def _example(store: Store, space: str, counts: TaskCounts) -> EvaluationRow | None:
    query = EvaluationQuery(
        space=space, profile=counts.profile_uid, task_id=counts.task_id,
        task_outcome=Outcome.ERRORED, limit=1,
    )  # fmt: skip
    return next(iter(store.evaluations(query).items), None)


def _message(counts: TaskCounts, reason: str, row: EvaluationRow | None) -> str:
    whole = counts.passed + counts.failed + counts.errored
    what = f"{counts.errored:,} of {whole:,} results of task {counts.task_id!r}"
    said = f"{what} erred in the last hour"
    if row is None:  # erased meanwhile
        return said
    return f"{said} ({reason}); scouter results record {row.record_uid} says why"


HOUR_NS: Final = 3_600 * 10**9
WEEK_NS: Final = 7 * 24 * HOUR_NS
WEEKS: Final = 8
"""Weeks before whose same hours say how many results an hour should have."""
FEWEST_WEEKS: Final = 3
"""Weeks of history from which on they say it."""
HOURS: Final = 24
"""Hours before that say it while there is less history."""
USUAL: Final = 20
"""Results that an hour mostly has, from which on a quiet one is reported."""
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
