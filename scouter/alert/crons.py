"""Schedules by name, as cron expressions with seconds first."""

import datetime
from enum import StrEnum
from typing import Final

_MINUTE: Final = 60
_DAY: Final = 86_400
_FIRST_SUNDAY: Final = 3 * _DAY
"""1970-01-04, in seconds after the epoch."""


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
        period, first = _PERIODS[self]
        past = int(moment.timestamp() // 1) - first
        due = first + (past // period + 1) * period
        return f"{datetime.datetime.fromtimestamp(due, datetime.UTC):%Y-%m-%d %H:%M:%S} UTC"


_PERIODS: Final = {
    CommonCrons.Every1Minute: (_MINUTE, 0),
    CommonCrons.Every5Minutes: (5 * _MINUTE, 0),
    CommonCrons.Every15Minutes: (15 * _MINUTE, 0),
    CommonCrons.Every30Minutes: (30 * _MINUTE, 0),
    CommonCrons.EveryHour: (60 * _MINUTE, 0),
    CommonCrons.Every6Hours: (_DAY // 4, 0),
    CommonCrons.Every12Hours: (_DAY // 2, 0),
    CommonCrons.EveryDay: (_DAY, 0),
    CommonCrons.EveryWeek: (7 * _DAY, _FIRST_SUNDAY),
}
"""Period of each schedule in seconds, and one due moment in seconds after the epoch."""
