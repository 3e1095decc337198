"""The `format` keyword of JSON schemas: what is checked, and how."""

import datetime
import ipaddress
import re
from collections.abc import Callable
from typing import Final

from scouter.errors import ConfigError
from scouter.evaluate.operators.formats import is_email, is_uuid
from scouter.evaluate.patterns import compile_pattern

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME: Final = re.compile(
    r"(?P<clock>[0-9]{2}:[0-9]{2}:[0-9]{2})(?:\.[0-9]+)?(?P<zone>[Zz]|[+-][0-9]{2}:[0-9]{2})"
)


def is_date(text: str) -> bool:
    """Tell whether a text is a `full-date` of RFC 3339 that exists."""
    if _DATE.fullmatch(text) is None:
        return False
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        return False
    return True


def is_time(text: str) -> bool:
    """Tell whether a text is a `full-time` of RFC 3339; leap seconds are not accepted."""
    match = _TIME.fullmatch(text)
    if match is None:
        return False
    try:
        datetime.time.fromisoformat(match["clock"] + match["zone"].upper())
    except ValueError:
        return False
    return True


def is_date_time(text: str) -> bool:
    """Tell whether a text is a `date-time` of RFC 3339; leap seconds are not accepted."""
    return text[10:11] in ("T", "t") and is_date(text[:10]) and is_time(text[11:])


def is_pattern(text: str) -> bool:
    """Tell whether a text is a regular expression of RE2's syntax."""
    try:
        compile_pattern.__wrapped__(text)  # the texts of records have no place in its cache
    except ConfigError:
        return False
    return True


def _is_address(kind: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            kind(text)
        except ValueError:
            return False
        return "%" not in text  # a zone is no part of the address

    return check


FORMATS: Final[dict[str, Callable[[str], bool]]] = {
    "date": is_date,
    "time": is_time,
    "date-time": is_date_time,
    "email": is_email,
    "idn-email": is_email,
    "ipv4": _is_address(ipaddress.IPv4Address),
    "ipv6": _is_address(ipaddress.IPv6Address),
    "uuid": is_uuid,
    "regex": is_pattern,
}
"""The formats that are checked; any other is a note to the reader, as the standard says."""
