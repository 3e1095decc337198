"""Times at the rim: integer nanoseconds, or RFC 3339."""

import datetime
import re
from typing import Final

from scouter.errors import DataError

_MAX_NS: Final = 2**63 - 1
_RFC3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)"
)


def parse_time_ns(value: int | str) -> int:
    """Read a time.

    Args:
        value: Nanoseconds since the epoch, as a number or its digits, or RFC 3339 text.

    Returns:
        Nanoseconds since the epoch, in [0, 2**63).

    Raises:
        DataError: It is neither.

    Source: RFC 3339, section 5.6; digits beyond the nanosecond are cut off.
    """
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 20:
        value = int(value)
    if isinstance(value, str):
        value = _parse_text(value)
    if not 0 <= value <= _MAX_NS:
        raise DataError(f"{value} is no time: nanoseconds since 1970 are in [0, 2**63)")
    return value


def _parse_text(text: str) -> int:
    match = _RFC3339.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        day, clock, fraction, zone = match.groups()
        moment = datetime.datetime.fromisoformat(f"{day}T{clock}{zone.upper()}")
    except ValueError:
        shown = text[:60]
        raise DataError(
            f"{shown!r} is no time; expected nanoseconds since the epoch or RFC 3339, such as "
            "2026-01-31T12:00:00Z"
        ) from None
    return int(moment.timestamp()) * 10**9 + int((fraction or "").ljust(9, "0"))


def format_time(ns: int) -> str:
    """Write nanoseconds since the epoch as RFC 3339 in UTC, to the microsecond."""
    seconds, rest = divmod(ns, 10**9)
    moment = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest // 1000:06d}Z"
