"""Counts that grew within an hour: things that could not be used, drops, losses, spent budgets."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from collector.alerts.drift.trouble import Finding, Trouble
from collector.metrics import OVERTAKEN, TotalKey, TotalName, Totals, revision_label
from collector.store.letters import NO_PROFILE
from scouter.evaluate.outcome import Outcome, Reason

FEWEST: Final = 10
"""Things of a kind within an hour from which on they are told."""
SHARE: Final = 0.01
"""Of all that came in that time."""

Counted = Counter[tuple[str, str]]
"""Totals by space and name."""

_REVISED: Final = {
    revision_label(Outcome.PENDING, Reason.BUDGET): Trouble.JUDGE_BUDGET,
    revision_label(Outcome.PENDING, Outcome.ERRORED): Trouble.ERRORED,
}
"""Judges are asked after the first evaluation, so that these are revisions."""
_TASKS: Final = {
    Reason.BUDGET.value: Trouble.JUDGE_BUDGET,
    Outcome.ERRORED.value: Trouble.ERRORED,
}
_IN: Final = "in"
_EVALUATED: Final = "evaluated"
_NAMES: Final = {
    TotalName.DEAD_LETTERS: Trouble.DEAD_LETTERS.value,
    TotalName.DROPPED: Trouble.DROPPED.value,
    TotalName.LOST: Trouble.LOST.value,
    TotalName.INCOMPLETE: Trouble.INCOMPLETE.value,
    TotalName.RECORDS_RECEIVED: _IN,
    TotalName.SPANS_RECEIVED: _IN,
    TotalName.RECORDS: _EVALUATED,
}


def counted(totals: Totals) -> Counted:
    """Sum up the totals that tell of trouble, and those that they are a share of."""
    found = Counted()
    for key, count in totals.items():
        name = _name(key)
        if name is not None:
            found[key.space, name] += count
    return found


def _name(key: TotalKey) -> str | None:
    if key.name is TotalName.TASKS:
        return _TASKS.get(key.label)
    if key.name is TotalName.REVISIONS:
        return _REVISED.get(key.label)
    if key.name is TotalName.DEAD_LETTERS and key.label in NO_PROFILE:
        return Trouble.UNKNOWN_PROFILE.value
    if key.name is TotalName.DROPPED and key.label == OVERTAKEN:
        return Trouble.OVERTAKEN.value
    return _NAMES.get(key.name)


def too_many(space: str, grown: Counted, now_ns: int) -> Iterator[Finding]:
    """Find what grew by too much in a space.

    Args:
        space: Its name.
        grown: Counts of the last hour.
        now_ns: Time of the look.
    """
    for trouble, message in (*_any(space, grown), *_many(space, grown)):
        yield Finding(space=space, trouble=trouble, since_ns=now_ns, message=message)


def _any(space: str, grown: Counted) -> Iterator[tuple[Trouble, str]]:
    """Faults of which one is too many."""
    skipped, lost = grown[space, Trouble.JUDGE_BUDGET.value], grown[space, Trouble.LOST.value]
    overtaken = grown[space, Trouble.OVERTAKEN.value]
    nameless = grown[space, Trouble.UNKNOWN_PROFILE.value]
    if skipped > 0:
        yield (
            Trouble.JUDGE_BUDGET,
            (
                f"{skipped:,} judge tasks were skipped within an hour, as the budget of the "
                "judge is spent; raise judge_daily_budget_usd, or wait for the next day (UTC)"
            ),
        )
    if nameless > 0:
        yield (
            Trouble.UNKNOWN_PROFILE,
            (
                f"{nameless:,} records that were accepted were not evaluated within an hour, as no "
                "profile that can be used has the name in them; scouter letters list --reason "
                "unknown_profile says which: register or activate it, then replay the letters"
            ),
        )
    if overtaken > 0:
        yield (
            Trouble.OVERTAKEN,
            (
                f"{overtaken:,} messages were deleted by their broker within an hour before they "
                "were read, and their records and spans are lost; "
                "scouter_ingest_lost_messages_total and the log name the topic: let it keep its "
                "messages for longer than the collector may be away or behind"
            ),
        )
    if lost > 0 and space:
        yield (
            Trouble.LOST,
            (
                f"{lost:,} records and spans that had been accepted are gone, as was accepted "
                "at the start (--accept-loss); restore a backup if there is one"
            ),
        )


def _many(space: str, grown: Counted) -> Iterator[tuple[Trouble, str]]:
    """Faults that are told where they are ten, and one in a hundred."""
    received, evaluated = grown[space, _IN], grown[space, _EVALUATED]
    for trouble, of, message in (
        (
            Trouble.DEAD_LETTERS,
            received,
            "{0:,} things could not be used within an hour, beside {1:,} records and spans that "
            "were accepted; scouter letters list says why",
        ),
        (
            Trouble.DROPPED,
            received,
            "{0:,} records and spans were given up by senders within an hour, beside {1:,} records "
            "and spans that were accepted; scouter_queue_dropped_total has the reasons; where "
            "queues were full, enlarge them, or see what holds up the senders",
        ),
        (
            Trouble.INCOMPLETE,
            evaluated,
            "the traces of {0:,} of {1:,} records lacked spans within an hour when the deadline "
            "had come; see whether every service of a trace sends its spans here, and whether a "
            "process ended before it had sent all",
        ),
    ):
        count = grown[space, trouble.value]
        whole = of if trouble is Trouble.INCOMPLETE else of + count
        if count >= FEWEST and count >= SHARE * whole:
            yield trouble, message.format(count, of)
