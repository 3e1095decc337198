"""Posting JSON to the far side of a channel, with nothing secret in answers and errors."""

import json
from collections.abc import Mapping, Sequence
from typing import Final

import httpx
from pydantic import SecretStr

from scouter.errors import DataError, TransientError
from scouter.transport.http_client import posting_client, retry_after_s

TIMEOUT_S: Final = 10.0
"""Longest time for one request and its answer."""
_LONGEST: Final = 300
"""Characters of an answer that are stored."""
_THROTTLED: Final = 429
_SHORTEST: Final = 4
"""Characters of what is taken out; less, such as `v2` of a path, is no secret."""


class Poster:
    """A connection pool to one far side.

    Args:
        name: Of the channel; stands in errors in place of the address.
        secrets: Texts that are taken out of everything that is said.
        headers: Sent with each request.
    """

    def __init__(
        self,
        name: str,
        *,
        secrets: Sequence[SecretStr] = (),
        headers: Mapping[str, SecretStr] | None = None,
    ) -> None:
        given = headers or {}
        self.name: Final = name
        self._secrets = _parts([*secrets, *given.values()])
        sent = {key: value.get_secret_value() for key, value in given.items()}
        self._client = posting_client({"User-Agent": "scouter-collector", **sent}, TIMEOUT_S)

    def post(self, url: str, body: object, headers: Mapping[str, str] | None = None) -> str:
        """Send a body as JSON; see `Channel.send`."""
        try:
            answer = self._client.post(
                url,
                content=to_bytes(body),
                headers={"Content-Type": "application/json", **(headers or {})},
            )
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            said = self._clean(f"{self.name}: {type(error).__name__}: {error}")
            raise TransientError(said) from None  # the request in the chain has the address
        said = self._clean(f"status {answer.status_code}: {answer.text.strip()}")
        if answer.is_success:
            return said
        if answer.status_code == _THROTTLED or answer.is_server_error:
            again_s = retry_after_s(answer.headers.get("Retry-After"))
            raise TransientError(f"{self.name}: {said}", again_s)
        raise DataError(f"{self.name}: {said}")

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text[:_LONGEST]


def to_bytes(body: object) -> bytes:
    """A body as it is sent."""
    return json.dumps(body, ensure_ascii=False, allow_nan=False).encode()


def _parts(secrets: Sequence[SecretStr]) -> list[str]:
    """The secrets and their parts, as a far side may repeat them.

    Of an address: its path, each part of the path and each tail, the values of its query, its user
    and password. Of a header: its words, such as a token without `Bearer`.
    """
    found: set[str] = set()
    for secret in secrets:
        text = secret.get_secret_value()
        found |= {text, *text.split()}
        if "://" in text:
            url = httpx.URL(text)
            parts = url.path.strip("/").split("/")
            tails = ["/".join(parts[at:]) for at in range(len(parts))]
            found |= {url.raw_path.decode(), url.path, *parts, *tails, url.username, url.password}
            found |= {value for _, value in url.params.multi_items()}
    return sorted((text for text in found if len(text) >= _SHORTEST), key=len, reverse=True)
