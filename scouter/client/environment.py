"""Variables that clients and agents read, and what holds without them."""

from collections.abc import Mapping
from typing import Final

DEFAULT_URL: Final = "http://127.0.0.1:4318"
URL_VARIABLE: Final = "SCOUTER_URL"
_ORIGINAL: Final = "SCOUTER_SERVER_URI"
"""The original's name of the same."""
TOKEN_VARIABLE: Final = "SCOUTER_AUTH_TOKEN"  # noqa: S105 the name of a variable


def named_url(environ: Mapping[str, str]) -> str:
    """The collector's address that the environment names; empty if it names none."""
    return environ.get(URL_VARIABLE) or environ.get(_ORIGINAL) or ""
