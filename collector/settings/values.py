"""Kinds of settings: times, sizes, addresses, lists, and how each is written as text."""

import ipaddress
import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final, NamedTuple
from urllib.parse import unquote

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError

from scouter.agent.entries import ProviderEntries
from scouter.errors import ConfigError

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
    """Files to talk TLS with."""

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
    return 0 if value == "off" or value is False else parse_bytes(value)


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


def parse_space(text: str) -> str:
    """Read the name of a space: 1 to 128 printable characters.

    Raises:
        ValueError: It is none.
    """
    if not (0 < len(text) <= 128 and text.isprintable()):
        raise ValueError(f"{text[:200]!r} is no space, which has 1 to 128 printable characters")
    return text


def parse_headers(value: object) -> object:
    """Read `name=value,name=value`, as OTEL_EXPORTER_OTLP_HEADERS is written."""
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    if not all(name.strip() and equals for name, equals, _ in pairs):
        raise ValueError("expected name=value,name=value")
    return {unquote(name.strip()): unquote(text.strip()) for name, _, text in pairs}


def parse_providers(value: object) -> object:
    """Read entries by name; a fault says of which entry and field."""
    if value is None or isinstance(value, ProviderEntries):
        return value
    try:
        return ProviderEntries.model_validate({"providers": value})
    except ValidationError as error:
        parts = (
            f"{'.'.join(map(str, each['loc'][1:]))}: {each['msg'].removeprefix('Value error, ')}"
            for each in error.errors(include_url=False, include_input=False)
        )
        raise ValueError("; ".join(parts)) from None  # what was given may hold a key


Seconds = Annotated[float, BeforeValidator(parse_seconds), Field(ge=0, allow_inf_nan=False)]
Space = Annotated[str, AfterValidator(parse_space)]
Bytes = Annotated[int, BeforeValidator(parse_bytes), Field(ge=1024)]
CacheBytes = Annotated[int, BeforeValidator(parse_bytes_or_off), Field(ge=0)]
