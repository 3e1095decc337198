"""Credentials from the environment, and the form of addresses, tokens and headers.

An HTTP client shows unsendable headers in its error, and the address in all its errors. So both are
checked here, before a secret in them can reach a log.
"""

import os
import re
from typing import Annotated, Final

from pydantic import AfterValidator, SecretStr, StringConstraints

_TOKEN: Final = re.compile(r"[!-~]+")
_HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_HEADER_VALUE: Final = re.compile(r"([!-~]([ -~]*[!-~])?)?")


def env_text(name: str) -> str | None:
    """A text of the environment without the white space around it, None where it is not set."""
    return os.environ.get(name, "").strip() or None


def env_secret(name: str) -> SecretStr | None:
    """A secret of the environment; one that came from a file often ends with a line break."""
    text = env_text(name)
    return None if text is None else SecretStr(text)


def _checked_token(token: SecretStr) -> SecretStr:
    if not _TOKEN.fullmatch(token.get_secret_value()):
        raise ValueError("the token has letters that no token has; was all of it copied?")
    return token


def _checked_headers(headers: dict[str, SecretStr]) -> dict[str, SecretStr]:
    for name, value in headers.items():
        if not _HEADER_NAME.fullmatch(name):
            raise ValueError("the name of a header has letters that none has")
        if not _HEADER_VALUE.fullmatch(value.get_secret_value()):
            raise ValueError(
                f"the value of {name!r} cannot be sent: it has a line break, a blank at an end, "
                "or what is not ASCII"
            )
    return headers


WebAddress = Annotated[str, StringConstraints(pattern=r"^https?://[^@/\s]+(/[^@\s]*)?$")]
"""`http://HOST:PORT` or `https://…`, perhaps with a path; no credentials."""
Token = Annotated[SecretStr, AfterValidator(_checked_token)]
"""A bearer token: visible ASCII."""
Headers = Annotated[dict[str, SecretStr], AfterValidator(_checked_headers)]
"""Headers that HTTP and gRPC can send.

Source: RFC 9110, sections 5.1 and 5.5; of values what gRPC takes, too.
"""
