"""Alert settings of a profile."""

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scouter.alert.condition import AlertCondition


class AgentAlertConfig(BaseModel):
    """The alert of one profile: over how many records, from how many on, against what.

    The original's `schedule` (such as `CommonCrons.EveryHour`) and `dispatch_config` are taken and
    left out: a collector watches all the time, and its settings and Alertmanager's routes say who
    is told.

    Args:
        alert_condition: What is bad; without one the profile never alerts.
        window: The last so many evaluated records are looked at.
        min_samples: With fewer records than this nothing is said.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    alert_condition: AlertCondition | None = None
    window: int = Field(default=100, ge=1, le=100_000)
    min_samples: int = Field(default=20, ge=1)

    if TYPE_CHECKING:

        def __init__(
            self,
            schedule: str | None = None,
            dispatch_config: object = None,
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
            taken = {"schedule": schedule, "dispatch_config": dispatch_config}
            super().__init__(alert_condition=alert_condition, **taken, **fields)

    @model_validator(mode="before")
    @classmethod
    def _leave_out_who_is_told_and_when(cls, data: object) -> object:
        if not isinstance(data, Mapping):
            return data
        fields = dict(cast("Mapping[str, object]", data))
        fields.pop("schedule", None)
        told = _told(fields.pop("dispatch_config", None))
        if told:
            warnings.warn(
                f"this profile asks to tell {told}; that part is left out: the collector's "
                "settings (such as alerts_slack_url) and Alertmanager's routes say who is told",
                stacklevel=2,
            )
        return fields

    @model_validator(mode="after")
    def _window_can_hold_the_samples(self) -> "AgentAlertConfig":
        if self.min_samples > self.window:
            raise ValueError(
                f"min_samples {self.min_samples} is more than window {self.window}: "
                "the alert could never fire"
            )
        return self


def _told(dispatch: object) -> str:
    """Whom a dispatch names besides the console, in words; empty for nobody."""
    if dispatch is None:
        return ""
    if isinstance(dispatch, Mapping):
        names = list(cast("Mapping[str, object]", dispatch))
        return "" if set(names) <= {"Console"} else ", ".join(names)
    return type(dispatch).__name__
