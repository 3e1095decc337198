"""Alert conditions: pass rates that are bad enough to tell somebody."""

from enum import StrEnum
from typing import Any, Final, cast

from pydantic import BaseModel, ConfigDict, Field

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
