"""How a profile wants to be watched."""

from pydantic import BaseModel, ConfigDict, Field, model_validator

from scouter.alert.condition import AlertCondition


class AgentAlertConfig(BaseModel):
    """The alert of one profile: over how many records, from how many on, against what.

    Args:
        alert_condition: What is bad; without one the profile never alerts.
        window: The last so many evaluated records are looked at.
        min_samples: With fewer records than this nothing is said.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    alert_condition: AlertCondition | None = None
    window: int = Field(default=100, ge=1, le=100_000)
    min_samples: int = Field(default=20, ge=1)

    @model_validator(mode="after")
    def _window_can_hold_the_samples(self) -> "AgentAlertConfig":
        if self.min_samples > self.window:
            raise ValueError(
                f"min_samples {self.min_samples} is more than window {self.window}: "
                "the alert could never fire"
            )
        return self
