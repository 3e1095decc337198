"""The cache of judges' answers that a flag or a variable names: a collector's, or a file."""

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from scouter.agent.cache.sqlite import FILE_VARIABLE, is_address
from scouter.client.environment import named_url

if TYPE_CHECKING:
    from scouter.client.judge_cache import CollectorCache


def named_cache(named: str | None) -> "str | CollectorCache | None":
    """The cache that a flag names.

    Args:
        named: The address of a collector, which becomes its cache; all else stays what it is.

    Raises:
        ConfigError: The address cannot be one, or the token in the environment.
    """
    return _of(named) if named is not None and is_address(named) else named


def usual_collector_cache(environ: Mapping[str, str] = os.environ) -> "CollectorCache | None":
    """The collector's cache that is used where no flag names one.

    Returns:
        That of the address in `SCOUTER_JUDGE_CACHE`; where this is not set, of the one in
        `SCOUTER_URL`; else None, which leaves the file of the user's settings.

    Raises:
        ConfigError: The address cannot be one, or the token in the environment.
    """
    named = environ.get(FILE_VARIABLE) or named_url(environ)
    return _of(named) if is_address(named) else None


def _of(address: str) -> "CollectorCache":
    from scouter.client.judge_cache import CollectorCache  # HTTP takes a while to load

    return CollectorCache(address)
