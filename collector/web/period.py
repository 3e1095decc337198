"""The period and the traffic that a view covers."""

from dataclasses import dataclass
from typing import Final

_HOUR_S: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A period that ends now.

    Args:
        name: As the address has it.
        label: As a person reads it.
        seconds: Its length.
        step_s: It begins at a multiple of that.
    """

    name: str
    label: str
    seconds: int
    step_s: int

    def since(self, now_s: float) -> int:
        """Begin of the period in seconds since 1970.

        Args:
            now_s: Its end.
        """
        return int((now_s - self.seconds) // self.step_s) * self.step_s


@dataclass(frozen=True, slots=True, kw_only=True)
class Traffic:
    """Part of the results that a view covers; empty for all.

    Args:
        version: Of the service.
        environment: Of the service.
    """

    version: str
    environment: str

    @property
    def asked(self) -> dict[str, str]:
        """Parameters of the API."""
        return {"service_version": self.version, "environment": self.environment}

    @property
    def kept(self) -> dict[str, str]:
        """Parameters of the page's addresses."""
        return {"version": self.version, "environment": self.environment}


PERIODS: Final = tuple(
    Period(name=name, label=label, seconds=hours * _HOUR_S, step_s=step_s)
    for name, label, hours, step_s in (
        ("1h", "hour", 1, 60),
        ("24h", "day", 24, _HOUR_S),
        ("7d", "week", 7 * 24, _HOUR_S),
        ("30d", "month", 30 * 24, _HOUR_S),
    )
)
USUAL: Final = PERIODS[1]


def read_period(name: str | None) -> Period:
    """Find a period by its name; the usual one where there is none of that name."""
    return next((each for each in PERIODS if each.name == name), USUAL)
