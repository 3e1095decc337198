"""The period that a view covers, and the length of the buckets in its plots."""

import time
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
        bucket: Length of a bucket, as the API takes it.
        bucket_s: The same in seconds.
        coarse: Length of a bucket of small plots, which have a tenth of the width.
        coarse_s: The same in seconds.
    """

    name: str
    label: str
    seconds: int
    bucket: str
    bucket_s: int
    coarse: str
    coarse_s: int

    def since(self, now_s: float | None = None) -> int:
        """Begin of the period in seconds since 1970: the beginning of a bucket.

        Args:
            now_s: Its end; None for now.
        """
        now = time.time() if now_s is None else now_s
        return int((now - self.seconds) // self.bucket_s) * self.bucket_s


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
    Period(
        name=name, label=label, seconds=hours * _HOUR_S, bucket=bucket, bucket_s=bucket_s,
        coarse=coarse, coarse_s=coarse_s,
    )
    for name, label, hours, bucket, bucket_s, coarse, coarse_s in (
        ("1h", "hour", 1, "1m", 60, "4m", 240),
        ("24h", "day", 24, "1h", _HOUR_S, "2h", 2 * _HOUR_S),
        ("7d", "week", 7 * 24, "4h", 4 * _HOUR_S, "12h", 12 * _HOUR_S),
        ("30d", "month", 30 * 24, "1d", 24 * _HOUR_S, "2d", 48 * _HOUR_S),
    )
)  # fmt: skip
USUAL: Final = PERIODS[1]


def read_period(name: str | None) -> Period:
    """Find a period by its name; the usual one where there is none of that name."""
    return next((each for each in PERIODS if each.name == name), USUAL)
