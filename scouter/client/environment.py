"""Variables that clients read, and what holds without them."""

from typing import Final

DEFAULT_URL: Final = "http://127.0.0.1:4318"
URL_VARIABLE: Final = "SCOUTER_URL"
TOKEN_VARIABLE: Final = "SCOUTER_AUTH_TOKEN"  # noqa: S105 the name of a variable
