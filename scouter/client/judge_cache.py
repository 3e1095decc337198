"""The cache of a collector, for release checks that repeat questions, and its name."""

import asyncio
import json
import logging
import os
from collections.abc import Mapping
from typing import Final
from weakref import finalize

from scouter.agent.cache import FILE_VARIABLE, MAX_CHARACTERS, is_address, read, write
from scouter.client.environment import named_url
from scouter.client.errors import ApiError
from scouter.errors import ScouterError
from scouter.evaluate.judge.port import JudgeReply

_LOG: Final = logging.getLogger(__name__)
_TIMEOUT_S: Final = 5.0
_NOT_FOUND: Final = 404
_NO_SCOPE: Final = 403
_TOO_LARGE: Final = (400, 413)


class CollectorCache:
    """Keeps answers in a collector, in the space of the token.

    Reads what the collector's own judges answered and what clients have put there. Reading needs a
    token with the scope `read`; writing one with `profile`, without which answers are read only.

    A collector that is away, refuses or answers late is passed over for the rest of the process,
    as if its cache were empty, and a warning is logged once.

    Args:
        url: Base address of the collector. Environment: SCOUTER_URL; else http://127.0.0.1:4318.
        token: Sent as a bearer token. Environment: SCOUTER_AUTH_TOKEN.
        timeout_s: Longest wait for one answer.

    Raises:
        ConfigError: The address or the token cannot be one.
    """

    def __init__(
        self, url: str | None = None, token: str | None = None, timeout_s: float = _TIMEOUT_S
    ) -> None:
        from scouter.client.client import ScouterClient  # HTTP takes a while to load
        from scouter.client.connection import Retry

        retry = Retry(tries=2, longest_pause_s=1.0)
        self._client = ScouterClient(url, token, timeout_s, retry=retry)
        finalize(self, self._client.close)
        self._is_out = self._is_read_only = False

    def __repr__(self) -> str:
        return f"CollectorCache({self._client.url!r})"

    async def get(self, key: bytes) -> JudgeReply | None:
        """Look an answer up."""
        if self._is_out:
            return None
        try:
            found = await asyncio.to_thread(self._client.judge_answer, key.hex())
        except ApiError as error:
            if error.status != _NOT_FOUND:
                self._give_up(error)
            return None
        except ScouterError as error:
            self._give_up(error)
            return None
        return read(f"[{found.response},{json.dumps(found.model)}]")

    async def put(self, key: bytes, reply: JudgeReply) -> None:
        """Keep an answer; not one that is larger than the collector takes."""
        # Only what has the form of a stored answer is sent; a model's name that no text is, is not.
        if self._is_out or self._is_read_only or write(reply) is None:
            return
        try:
            reply.model.encode()
            response = json.dumps(reply.response)
            if len(response) > MAX_CHARACTERS:
                return  # refused while it is sent it would look like a collector that is away
            made = await asyncio.to_thread(
                self._client.keep_judge_answer, key.hex(), response, reply.model
            )
        except UnicodeEncodeError:
            return
        except ApiError as error:
            if error.status == _NO_SCOPE:
                self._is_read_only = True
                _LOG.warning(
                    "judges' answers are read from %s and not stored: %s", self._client.url, error
                )
            elif error.status not in _TOO_LARGE:
                self._give_up(error)
        except ScouterError as error:
            self._give_up(error)
        else:
            if not made.kept:
                self._is_out = True
                _LOG.warning("the collector at %s keeps no answers of judges", self._client.url)

    def _give_up(self, error: Exception) -> None:
        if not self._is_out:
            self._is_out = True
            _LOG.warning(
                "the cache of judges' answers at %s cannot be used, and every question is sent: "
                "%s",
                self._client.url, error,
            )  # fmt: skip

    def close(self) -> None:
        """Nothing: another run may ask again. Connections close with the last reference to this."""


def named_cache(named: str | None) -> str | CollectorCache | None:
    """The cache that a flag names.

    Args:
        named: The address of a collector, which becomes its cache; all else stays what it is.

    Raises:
        ConfigError: The address cannot be one, or the token in the environment.
    """
    return CollectorCache(named) if named is not None and is_address(named) else named


def usual_collector_cache(environ: Mapping[str, str] = os.environ) -> CollectorCache | None:
    """The collector's cache that is used where no flag names one.

    Returns:
        That of the address in `SCOUTER_JUDGE_CACHE`; where this is not set, of the one in
        `SCOUTER_URL`; else None, which leaves the file of the user's settings.

    Raises:
        ConfigError: The address cannot be one, or the token in the environment.
    """
    named = environ.get(FILE_VARIABLE) or named_url(environ)
    return CollectorCache(named) if is_address(named) else None
