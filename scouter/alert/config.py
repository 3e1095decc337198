"""Alert settings of a profile: condition, schedule, and the channel to people."""

import datetime
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, cast

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    field_validator,
    model_validator,
)

from scouter.model.positional import by_position

_UNSET: Final = cast(Any, ...)


class AlertThreshold(StrEnum):
    """The bad side of the baseline."""

    Below = "Below"
    Above = "Above"
    Outside = "Outside"

    @staticmethod
    def from_value(value: str) -> "AlertThreshold | None":
        """Find a member by its name, whatever the case; None for an unknown name."""
        known = {member.casefold(): member for member in AlertThreshold}
        return known.get(value.casefold())


class AlertCondition(BaseModel):
    """A baseline, a tolerance and the side that is bad.

    The condition is data. The program that checks it chooses the `value`: the collector compares
    the Wilson bounds of the pass rate, so that an alert needs evidence and not one bad record.

    Args:
        baseline_value: The healthy pass rate, in [0, 1].
        alert_threshold: The side that is bad.
        delta: Distance from the baseline that is still healthy, in [0, 1]; none means 0.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    baseline_value: float = Field(ge=0, le=1)
    alert_threshold: AlertThreshold
    delta: float | None = Field(default=None, ge=0, le=1)

    def __init__(
        self,
        baseline_value: float = _UNSET,
        alert_threshold: AlertThreshold | str = _UNSET,
        delta: float | None = None,
        **extra: object,
    ) -> None:
        given = {"baseline_value": baseline_value, "alert_threshold": alert_threshold}
        given = {name: value for name, value in given.items() if value is not _UNSET}
        super().__init__(delta=delta, **given, **extra)  # a missing one is pydantic's to tell

    def lower_bound(self) -> float:
        """The lowest healthy value: baseline - delta."""
        return self.baseline_value - (self.delta or 0.0)

    def upper_bound(self) -> float:
        """The highest healthy value: baseline + delta."""
        return self.baseline_value + (self.delta or 0.0)

    def should_alert(self, value: float) -> bool:
        """Tell whether one value, taken as exact, lies strictly on the bad side."""
        return self.should_alert_between(value, value)

    def should_alert_between(self, lower: float, upper: float) -> bool:
        """Tell whether every value of an interval lies strictly on the bad side.

        Args:
            lower: Lower bound of an interval for the value.
            upper: Upper bound of it, at least `lower`.
        """
        below, above = upper < self.lower_bound(), lower > self.upper_bound()
        match self.alert_threshold:
            case AlertThreshold.Below:
                return below
            case AlertThreshold.Above:
                return above
            case AlertThreshold.Outside:
                return below or above

    def __str__(self) -> str:
        match self.alert_threshold:
            case AlertThreshold.Below:
                return f"pass rate below {self.lower_bound():.1%}"
            case AlertThreshold.Above:
                return f"pass rate above {self.upper_bound():.1%}"
            case AlertThreshold.Outside:
                return f"pass rate outside {self.lower_bound():.1%} to {self.upper_bound():.1%}"


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


class _Dispatch(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ConsoleDispatchConfig(_Dispatch):
    """The collector's log.

    Args:
        enabled: The original writes it; it has no meaning.
    """

    enabled: bool = True


class SlackDispatchConfig(_Dispatch):
    """The collector's Slack webhook.

    Args:
        channel: For readers of the profile: a webhook has its channel already.
    """

    channel: str = Field(min_length=1, max_length=256)

    def __init__(self, *args: object, **fields: object) -> None:
        super().__init__(**by_position(type(self), ("channel",), args, fields))


class OpsGenieDispatchConfig(_Dispatch):
    """Opsgenie, as profiles of the original name it; the collector tells all of its channels.

    It has none for Opsgenie itself: its Alertmanager or webhook reach it.

    Args:
        team: For readers of the profile: a receiver of Alertmanager has its team already.
        priority: The same.
    """

    team: str = Field(min_length=1, max_length=256)
    priority: str = Field(default="P5", pattern="^P[1-5]$")

    def __init__(self, *args: object, **fields: object) -> None:
        super().__init__(**by_position(type(self), ("team", "priority"), args, fields))


Dispatch = ConsoleDispatchConfig | SlackDispatchConfig | OpsGenieDispatchConfig

_KINDS: Final[dict[str, type[Dispatch]]] = {
    "Console": ConsoleDispatchConfig,
    "Slack": SlackDispatchConfig,
    "OpsGenie": OpsGenieDispatchConfig,
}
_CHANNELS: Final = {"Console": "log", "Slack": "slack"}


def kind_of(dispatch: Dispatch) -> str:
    """The original's name of a kind."""
    return next(name for name, kind in _KINDS.items() if isinstance(dispatch, kind))


def channel_of(dispatch: Dispatch) -> str:
    """The collector's channel of a kind; an empty text if it has none."""
    return _CHANNELS.get(kind_of(dispatch), "")


def _read(value: object) -> object:
    """Read the original's form, `{"Slack": {"channel": …}}`; one key says the kind."""
    if value is None or isinstance(value, tuple(_KINDS.values())):
        return value
    if isinstance(value, dict):
        given = list(cast("dict[object, object]", value).items())
        name, fields = given[0] if len(given) == 1 else (None, None)
        if isinstance(name, str) and name in _KINDS:
            return _KINDS[name].model_validate(fields)
    kinds = ", ".join(_KINDS)
    raise ValueError(f"expected one of {kinds} with its settings, such as {{'Console': {{}}}}")


def _write(dispatch: Dispatch | None) -> dict[str, dict[str, object]] | None:
    return None if dispatch is None else {kind_of(dispatch): dispatch.model_dump()}


DispatchField = Annotated[Dispatch | None, BeforeValidator(_read), PlainSerializer(_write)]
"""As a profile's file has it."""


_ANY_TIME: Final = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class AgentAlertConfig(BaseModel):
    """The alert of one profile: over how many records, from how many on, against what, when.

    Args:
        schedule: Cron expression in UTC, of five fields, or of six with the second first (such as
            `CommonCrons.EveryHour`): the condition is looked at then, and people are notified.
            Without one it is looked at after each record, and people are notified if
            `dispatch_config` names a channel.
        dispatch_config: The one channel of the collector by which people are notified; by default
            all at a scheduled time, and none without a schedule.
        alert_condition: Condition of an alert; without one the profile never alerts.
        window: The last so many evaluated records are looked at.
        min_samples: With fewer records than this the alert never fires.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    schedule: str | None = Field(default=None, exclude_if=lambda value: value is None)
    dispatch_config: DispatchField = Field(default=None, exclude_if=lambda value: value is None)
    alert_condition: AlertCondition | None = None
    window: int = Field(default=100, ge=1, le=100_000)
    min_samples: int = Field(default=20, ge=1)

    if TYPE_CHECKING:

        def __init__(
            self,
            schedule: str | None = None,
            dispatch_config: Dispatch | None = None,
            alert_condition: AlertCondition | None = None,
            *,
            window: int = 100,
            min_samples: int = 20,
        ) -> None: ...

    else:

        def __init__(
            self,
            schedule: object = None,
            dispatch_config: object = None,
            alert_condition: object = None,
            **fields: object,
        ) -> None:
            given = {"schedule": schedule, "dispatch_config": dispatch_config}
            super().__init__(alert_condition=alert_condition, **given, **fields)

    @field_validator("schedule", mode="after")
    @classmethod
    def _schedule_can_be_read(cls, schedule: str | None) -> str | None:
        if schedule is not None:
            next_due(schedule, _ANY_TIME)
        return None if schedule is None else str(schedule)

    @model_validator(mode="after")
    def _window_can_hold_the_samples(self) -> "AgentAlertConfig":
        if self.min_samples > self.window:
            raise ValueError(
                f"min_samples {self.min_samples} is more than window {self.window}: "
                "the alert could never fire"
            )
        return self
