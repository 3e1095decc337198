"""Alert settings of a profile."""

import datetime
from typing import TYPE_CHECKING, Final

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from scouter.alert.condition import AlertCondition
from scouter.alert.crons import next_due
from scouter.alert.dispatch import DispatchField

if TYPE_CHECKING:
    from scouter.alert.dispatch import Dispatch

_ANY_TIME: Final = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)


class AgentAlertConfig(BaseModel):
    """The alert of one profile: over how many records, from how many on, against what, when.

    Args:
        schedule: Cron expression in UTC, of five fields, or of six with the second first (such as
            `CommonCrons.EveryHour`): the condition is looked at then, and people are told. Without
            one it is looked at after each record, and told if `dispatch_config` names a channel.
        dispatch_config: The one channel of the collector by which people are told; by default all
            at a scheduled time, and none without a schedule.
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
