"""Kinds of settings: times, sizes, addresses, lists, and how each is written as text."""

import ipaddress
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError

from scouter.agent.entries import ProviderEntries
from scouter.errors import ConfigError
from scouter.evaluate.files.json_text import JsonFault
from scouter.evaluate.files.json_text import parse as parse_json

_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES: Final = {
    "b": 1,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "kib": 2**10,
    "mib": 2**20,
    "gib": 2**30,
}
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"([!-~]([ -~]*[!-~])?)?")
_QUANTITY: Final = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([a-zA-Z]*)\s*")


class HostPort(NamedTuple):
    """An address to listen on."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """True if only this machine can reach the address."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


class Tls(NamedTuple):
    """Files for TLS."""

    cert: Path
    key: Path

    def check(self) -> None:
        """Load them.

        Raises:
            ConfigError: They are not there, or do not belong together.
        """
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(self.cert, self.key)
        except OSError as error:
            raise ConfigError(
                f"tls_cert {self.cert}, tls_key {self.key}: {error.strerror or error}"
            ) from error


def parse_seconds(value: object) -> object:
    """Read `500ms`, `7s`, `5m`, `1h`, `1d` or a bare number of seconds."""
    return _parse_quantity(value, _SECONDS, "s", "a time such as 500ms, 7s, 5m or 1h")


def parse_bytes(value: object) -> object:
    """Read `64KiB`, `128MB` or a bare number of bytes."""
    number = _parse_quantity(value, _BYTES, "b", "a size such as 64KiB, 128MB or 1GB")
    return int(number) if isinstance(number, float) else number


def parse_bytes_or_off(value: object) -> object:
    """Read a size, or `off` for nothing."""
    return 0 if value == "off" else parse_bytes(value)


def _parse_quantity(value: object, units: Mapping[str, float], bare: str, want: str) -> object:
    if not isinstance(value, str):
        return value
    match = _QUANTITY.fullmatch(value)
    unit = (match[2].lower() or bare) if match else ""
    if match is None or unit not in units:
        raise ValueError(f"{value!r} is not {want}")
    return float(match[1]) * units[unit]


def parse_listen(value: object) -> object:
    """Read `HOST:PORT`, `[IPV6]:PORT` or `:PORT` (this machine only)."""
    if not isinstance(value, str):
        return value
    host, colon, port = value.rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"{value!r} is not HOST:PORT, such as 127.0.0.1:4318")
    return HostPort(host.strip("[]") or "127.0.0.1", int(port))


def parse_listen_or_off(value: object) -> object:
    """Read `HOST:PORT`, or `off` for nothing."""
    return None if value == "off" else parse_listen(value)


def parse_list(value: object) -> object:
    """Read texts with commas between."""
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


def check_networks(values: tuple[str, ...]) -> tuple[str, ...]:
    """Check addresses and networks, such as `10.0.0.7` and `10.0.0.0/8`.

    Raises:
        ValueError: One is neither.
    """
    for text in values:
        try:
            ipaddress.ip_network(text)
        except ValueError as error:
            raise ValueError(f"{text!r} is no IP address or network: {error}") from error
    return values


def parse_space(text: str) -> str:
    """Read the name of a space: 1 to 128 printable characters.

    Raises:
        ValueError: It is none.
    """
    if not (0 < len(text) <= 128 and text.isprintable()):
        raise ValueError(f"{text[:200]!r} is no space, which has 1 to 128 printable characters")
    return text


def parse_headers(value: object) -> object:
    """Read `name=value,name=value`, as OTEL_EXPORTER_OTLP_HEADERS is written.

    Source: RFC 9110, sections 5.1 and 5.5; of values what gRPC takes, too.
    """
    found = value
    if isinstance(value, str):
        pairs = [part.partition("=") for part in value.split(",") if part.strip()]
        if not all(name.strip() and equals for name, equals, _ in pairs):
            raise ValueError("expected name=value,name=value")
        found = {unquote(name.strip()): unquote(text.strip()) for name, _, text in pairs}
    if isinstance(found, Mapping):
        for name, text in cast(Mapping[object, object], found).items():
            _check_header(name, text)
    return cast(object, found)


def _check_header(name: object, text: object) -> None:
    """Refuse what a client would stumble over with each request; the value is a secret."""
    if isinstance(name, str) and not _HEADER_NAME.fullmatch(name):
        raise ValueError(f"{name!r} is no name of a header: letters, digits and - as a rule")
    if isinstance(text, str) and not _HEADER_VALUE.fullmatch(text):
        raise ValueError(
            f"the value of {name!r} cannot be sent: it has a line break, a blank at an end, or "
            "what is not ASCII"
        )


def parse_otlp_address(value: object) -> object:
    """Read `http://HOST[:PORT][/PATH]`, `https://…`, `grpc://HOST:PORT` or `grpcs://…`."""
    if not isinstance(value, str):
        return value
    fault = _address_fault(value)
    if fault is None:
        return value
    given = "the address" if set(value) & {"@", "?", "#"} else repr(value)  # may hold a secret
    raise ValueError(
        f"{given} {fault}; expected http://HOST:PORT or https://… for OTLP/HTTP, grpc://HOST:PORT "
        "or grpcs://… (TLS) for OTLP/gRPC, such as https://otel.example:4318 or "
        "grpc://127.0.0.1:4317, and credentials in results_otlp_headers only"
    )


def parse_base(value: object) -> object:
    """Read `http://HOST[:PORT][/PATH]` or `https://…`; a slash at its end is left out."""
    if not isinstance(value, str):
        return value
    fault = _address_fault(value) or _scheme_fault(value)
    if fault is None:
        return value.rstrip("/")
    given = "the address" if set(value) & {"@", "?", "#"} else repr(value)  # may hold a secret
    raise ValueError(f"{given} {fault}; expected such as https://scouter.example")


def check_secret_url(value: SecretStr) -> SecretStr:
    """Check an address that is a secret, and so stands in no message.

    Raises:
        ValueError: It is none.
    """
    text = value.get_secret_value()
    fault = _address_fault(text.partition("?")[0]) or _scheme_fault(text)
    if fault is not None:
        raise ValueError(f"the address {fault.partition(' (')[0]}; expected https://HOST/PATH")
    return value


def check_routing_key(value: SecretStr) -> SecretStr:
    """Check the form of a key of PagerDuty's Events API v2.

    Raises:
        ValueError: It has another one.
    """
    if not re.fullmatch(r"[0-9A-Za-z]{32}", value.get_secret_value()):
        raise ValueError("not a routing key, which has 32 letters and digits")
    return value


def _scheme_fault(value: str) -> str | None:
    ok = value.startswith(("http://", "https://"))
    return None if ok else "does not begin with http:// or https://"


def _address_fault(value: str) -> str | None:
    """Describe the fault of an OTLP endpoint's address, in words that continue it."""
    if any(each.isspace() or not each.isprintable() for each in value):
        return "has a blank or a control character in it"
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError as error:
        return f"cannot be read ({error})" if "@" not in value else "cannot be read"
    if parts.scheme not in ("http", "https", "grpc", "grpcs") or "://" not in value:
        return "does not begin with http://, https://, grpc:// or grpcs://"
    if "@" in parts.netloc:
        return "has credentials in it"
    if not host or port == 0:
        return "has no host" if not host else "has port 0"
    if "?" in value or "#" in value:
        return "has a query or a fragment"
    if parts.scheme.startswith("grpc"):
        if port is None:
            return "has no port, which is 4317 as a rule"
        if parts.path not in ("", "/"):
            return "has a path, which gRPC does not know"
    return None


def parse_providers(value: object) -> object:
    """Read entries by name, as JSON where they are text; a fault says of which entry and field."""
    if value is None or isinstance(value, ProviderEntries):
        return value
    if isinstance(value, str):
        try:
            value = parse_json(value)
        except JsonFault as fault:
            raise ValueError(f"the value is not JSON: {fault.problem}") from None
    try:
        return ProviderEntries.model_validate({"providers": value})
    except ValidationError as error:
        parts = (
            f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg'].removeprefix('Value error, ')}"
            for each in error.errors(include_url=False, include_input=False)
        )
        raise ValueError("; ".join(parts)) from None  # what was given may hold a key


Seconds = Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, allow_inf_nan=False)]
BaseUrl = Annotated[str, BeforeValidator(parse_base)]
SecretUrl = Annotated[SecretStr, AfterValidator(check_secret_url)]
Space = Annotated[str, AfterValidator(parse_space)]
Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=1024)]
CacheBytes = Annotated[int, BeforeValidator(parse_bytes_or_off), Field(ge=0)]
