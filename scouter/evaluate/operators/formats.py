"""Texts in a known format: e-mail, URL, UUID, ISO 8601, JSON."""

import datetime
import ipaddress
import json
import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from pydantic import JsonValue

from scouter.evaluate.operators.comparison import ComparisonOperator as Op
from scouter.evaluate.operators.compiled import Comparison
from scouter.evaluate.operators.text import property_of_text
from scouter.evaluate.outcome import Reason, TaskFault

_LOCAL: Final = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\-\u0080-\U0010FFFF.]{1,64}")
_LABEL: Final = re.compile(r"[^\W_](?:[\w\-]{0,61}[^\W_])?")
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_DATE_TIME: Final = re.compile(
    r"(?P<date>\d{4}-?\d\d-?\d\d|\d{4}-?W\d\d(?:-?\d)?)"
    r"(?:[Tt ](?P<time>\d\d(?::?\d\d(?::?\d\d(?:[.,]\d+)?)?)?)"
    r"(?P<zone>[Zz]|[+-]\d\d(?::?\d\d)?)?)?"
)
_SCHEMES: Final = frozenset({"http", "https", "ws", "wss", "ftp", "ftps"})


def is_email(text: str) -> bool:
    """Tell whether a text has the shape of an address: local part, one @, a dotted domain.

    Source: the dot-atom form of RFC 5321, section 4.1.2, letters of any script (RFC 6531);
        quoted local parts and address literals are not accepted.
    """
    local, at, domain = text.rpartition("@")
    if not at or len(text) > 254 or ".." in local or local.startswith(".") or local.endswith("."):
        return False
    labels = domain.split(".")
    return (
        _LOCAL.fullmatch(local) is not None
        and len(labels) > 1
        and all(_LABEL.fullmatch(label) for label in labels)
        and not labels[-1].isdigit()
    )


def is_url(text: str) -> bool:
    """Tell whether a text is an absolute web address with a host.

    Source: RFC 3986, section 3; `localhost`, IP addresses, ports 0 to 65535, queries and
        fragments are accepted, spaces and control characters are not.
    """
    if any(char.isspace() or ord(char) < 32 or ord(char) == 127 for char in text):
        return False
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname, parts.port  # the port raises where it is not one
    except ValueError:
        return False
    return parts.scheme.lower() in _SCHEMES and bool(host) and _is_host(host or "")


def _is_host(host: str) -> bool:
    if ":" in host:
        try:
            ipaddress.IPv6Address(host)
        except ValueError:
            return False
        return True
    labels = host.removesuffix(".").split(".")
    if labels[-1].isdigit():  # then it has to be an IPv4 address (WHATWG URL, "ends in a number")
        try:
            ipaddress.IPv4Address(host)
        except ValueError:
            return False
        return True
    return len(host) <= 253 and all(_LABEL.fullmatch(label) for label in labels)


def is_uuid(text: str) -> bool:
    """Tell whether a text is a UUID with hyphens (RFC 9562, section 4), of any version."""
    return _UUID.fullmatch(text) is not None


def is_iso8601(text: str) -> bool:
    """Tell whether a text is a date, or a date and time, that exists.

    Source: ISO 8601-1:2019 calendar and week dates with optional time and zone, plus RFC 3339's
        space for the T. Times alone, durations, ordinal dates and leap seconds are not accepted.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None or not text.isascii():
        return False
    time, zone = match["time"], (match["zone"] or "").upper()
    try:
        datetime.date.fromisoformat(match["date"])
        if time:
            datetime.time.fromisoformat(time + zone)
    except ValueError:
        return False
    return True


def is_json(text: str) -> bool:
    """Tell whether a text parses as JSON (RFC 8259); NaN and infinities are no JSON.

    Raises:
        TaskFault: It is nested too deeply to be read (`Reason.LIMIT`).
    """
    try:
        json.loads(text, parse_constant=_no_constant, parse_int=len)  # any number of digits
    except ValueError:
        return False
    except RecursionError:
        raise TaskFault(Reason.LIMIT, f"{Op.IsJson}: the text is nested too deeply") from None
    return True


def _no_constant(name: str) -> object:
    raise ValueError(name)


BUILDERS: Final[dict[Op, Callable[[JsonValue], Comparison]]] = {
    Op.IsEmail: property_of_text(Op.IsEmail, is_email),
    Op.IsUrl: property_of_text(Op.IsUrl, is_url),
    Op.IsUuid: property_of_text(Op.IsUuid, is_uuid),
    Op.IsIso8601: property_of_text(Op.IsIso8601, is_iso8601),
    Op.IsJson: property_of_text(Op.IsJson, is_json),
}
