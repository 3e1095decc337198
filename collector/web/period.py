"""Periods, traffic, and the moments that part them."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from collector.web.incidents import Incident
from collector.web.source import Shown
from scouter.client.models.answer import written
from scouter.client.models.comparison import VersionItem

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
    def for_api(self) -> dict[str, str]:
        """Parameters of the API."""
        return {"service_version": self.version, "environment": self.environment}

    @property
    def for_page(self) -> dict[str, str]:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The results that a view covers: those of some traffic in a period that ends now."""

    period: Period
    traffic: Traffic
    now_s: float

    @classmethod
    def of(cls, given: Mapping[str, str]) -> Self:
        """Read it of the parameters of an address."""
        names = ("version", "environment")
        return cls(
            period=read_period(given.get("range")),
            traffic=Traffic(**{name: given.get(name, "") for name in names}),
            now_s=time.time(),
        )

    @property
    def since_s(self) -> int:
        """Its begin in seconds since 1970."""
        return self.period.since(self.now_s)

    @property
    def for_api(self) -> dict[str, str | int]:
        """Parameters of the API."""
        return {"since": self.since_s, **self.traffic.for_api}

    @property
    def shown(self) -> Shown:
        """Values that the templates of such views have in common."""
        return {"period": self.period, "periods": PERIODS, "traffic": self.traffic}


def split_of(
    incidents: Sequence[Incident], versions: Sequence[VersionItem], since_s: float
) -> Shown:
    """The moment that parts the failures before from those since, and its words.

    It is the begin of the version that fell, or of the newest one; without another version before
    it, the begin of the fall.

    Args:
        incidents: Those of a profile that are open.
        versions: Of the profile, as the API has them, the one that began last first.
        since_s: Begin of the period; a version that began earlier parts nothing.
    """
    opened = incidents[0] if incidents else None
    newest = versions[0].version if versions else ""
    wanted = (opened and opened.version) or newest
    started = next((each for each in versions[:-1] if each.version == wanted), None)
    if started is not None and started.first_at.timestamp() > since_s:
        return {"at": written(started.first_at), "words": f"version {wanted} began"}
    if opened is not None and opened.since.timestamp() > since_s:
        return {"at": written(opened.since), "words": "the fall began"}
    return {"at": "", "words": ""}
