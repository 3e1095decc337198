"""Schedules: cron expressions, and the usual ones by name."""

import datetime
import re
from enum import StrEnum
from typing import Final

_FORM: Final = (
    "expected minute, hour, day, month and weekday, such as '0 */6 * * *', or six fields with "
    "the second first, such as '0 0 */6 * * *'"
)
_RANDOM: Final = re.compile(r"(?:^|[\s,])[HRhr](?:$|[\s,(/])")
"""Moments that a library would draw by lot, others at each reading."""


class CommonCrons(StrEnum):
    """The usual schedules. A member is its cron expression; all times are in UTC."""

    Every1Minute = "0 * * * * * *"
    Every5Minutes = "0 0,5,10,15,20,25,30,35,40,45,50,55 * * * * *"
    Every15Minutes = "0 0,15,30,45 * * * * *"
    Every30Minutes = "0 0,30 * * * * *"
    EveryHour = "0 0 * * * *"
    Every6Hours = "0 0 */6 * * *"
    Every12Hours = "0 0 */12 * * *"
    EveryDay = "0 0 0 * * *"
    EveryWeek = "0 0 0 * * SUN"

    @property
    def cron(self) -> str:
        """The cron expression."""
        return self.value

    def get_next(self, now: datetime.datetime | None = None) -> str:
        """Tell when the schedule is due next.

        Args:
            now: With a time zone; the present moment if not given.

        Returns:
            The first due moment after `now`, such as `2026-01-04 00:00:00 UTC`.
        """
        moment = datetime.datetime.now(datetime.UTC) if now is None else now
        return f"{next_due(self.value, moment):%Y-%m-%d %H:%M:%S} UTC"


def next_due(cron: str, now: datetime.datetime) -> datetime.datetime:
    """Find the first due moment after a time.

    Args:
        cron: Five fields, six with the second first, or seven with the year last; in UTC.
        now: With a time zone.

    Raises:
        ValueError: The expression is none, or is never due; says what is expected.
    """
    from croniter import CroniterError, croniter  # few profiles have a schedule

    if not 5 <= len(cron.split()) <= 7 or _RANDOM.search(cron):
        raise ValueError(f"{cron[:100]!r} is no cron expression; {_FORM}")
    try:
        found = croniter(cron, now.astimezone(datetime.UTC), second_at_beginning=True)
        due: datetime.datetime = found.get_next(datetime.datetime)
    except (CroniterError, KeyError) as error:
        raise ValueError(f"{cron[:100]!r} is no cron expression: {error}; {_FORM}") from error
    return due
