"""Versions of an agent, as evaluations know them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRow:
    """A version of the service behind a profile's records."""

    version: str
    first_ns: int
    """Time at which the first of its records was evaluated."""
    last_ns: int
    records: int
