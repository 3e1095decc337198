"""Counts beside a list: how many of its items have which value."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Facets:
    """Counts by name of a filter and by value, as far as they were taken."""

    counts: Mapping[str, Mapping[str, int]]
    """An item counts once for each of its values; the empty value is left out."""
    looked_until_ns: int | None
    """Only what was stored from about then on is counted; None where everything is."""
