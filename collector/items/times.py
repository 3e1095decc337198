"""Times at the rim: integer nanoseconds, or RFC 3339; in questions, numbers of any usual unit."""

import datetime
import re
from typing import Final

from scouter.errors import DataError

_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MAX_NS: Final = 2**63 - 1
_RFC3339: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)"
)

_NUMBER: Final = re.compile(r"([0-9]{1,19})(?:\.([0-9]{1,20}))?")
_UNITS: Final = ((10**11, 9), (10**14, 6), (10**17, 3))
"""Numbers below a bound, and the digits from their unit to nanoseconds."""


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
        value = _parse_text(value, "nanoseconds since the epoch")
    if not 0 <= value <= _MAX_NS:
        raise DataError(f"{value} is no time: nanoseconds since 1970 are in [0, 2**63)")
    return value


def parse_query_ns(text: str) -> int:
    """Read a time of a question, in which a person may use any unit.

    Args:
        text: A number since 1970 in decimal digits, or RFC 3339. The unit follows from the size:
            seconds below 10**11, milliseconds below 10**14, microseconds below 10**17, and
            nanoseconds from there. Any time from March 1973 to 5138 is read right in each.

    Returns:
        Nanoseconds since the epoch, in [0, 2**63).

    Raises:
        DataError: It is neither.
    """
    match = _NUMBER.fullmatch(text)
    if match is None:
        return parse_time_ns(_parse_text(text, "a number since 1970 (seconds to nanoseconds)"))
    whole, fraction = int(match[1]), match[2] or ""
    digits = next((digits for bound, digits in _UNITS if whole < bound), 0)
    return parse_time_ns(whole * 10**digits + int(fraction[:digits].ljust(digits, "0") or "0"))


def _parse_text(text: str, number: str) -> int:
    match = _RFC3339.fullmatch(text)
    try:
        if match is None:
            raise ValueError
        day, clock, fraction, zone = match.groups()
        moment = datetime.datetime.fromisoformat(f"{day}T{clock}{zone.upper()}")
    except ValueError:
        shown = text[:60]
        raise DataError(
            f"{shown!r} is no time; expected {number} or RFC 3339, such as 2026-01-31T12:00:00Z"
        ) from None
    return int(moment.timestamp()) * 10**9 + int((fraction or "").ljust(9, "0"))


def time_at(ns: int) -> datetime.datetime:
    """The time of nanoseconds since the epoch in UTC, to the microsecond."""
    return _EPOCH + datetime.timedelta(microseconds=ns // 1000)


def format_time(ns: int) -> str:
    """Write nanoseconds since the epoch as RFC 3339 in UTC, to the microsecond."""
    return f"{time_at(ns):%Y-%m-%dT%H:%M:%S.%f}Z"
