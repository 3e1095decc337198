"""Counts beside a list."""

import datetime

from scouter.client.models.answer import Answer


class FacetValue(Answer):
    """A value and how many items a list has with it as a further filter."""

    value: str
    count: int


class Facet(Answer):
    """The most frequent values of one parameter of a list."""

    name: str
    values: tuple[FacetValue, ...]
    others: int
    """Further values."""


class FacetList(Answer):
    """Counts beside a list."""

    items: tuple[Facet, ...]
    is_partial: bool
    """The time was up before everything was counted."""
    looked_until: datetime.datetime | None
    """Only what came since about then is counted; None where everything is."""
