"""Leftovers of a replay, which must not reach the collector as live traffic."""

from typing import Final

from opentelemetry import baggage

from scouter.model.attributes import SCENARIO_TRY


class Leftovers:
    """Knows whether this process has replayed, so that others pay nothing for the question."""

    def __init__(self) -> None:
        self.may_exist = False
        """Set by the first replay."""

    def is_one(self) -> bool:
        """Tell whether the calling code was started by a replay."""
        return self.may_exist and baggage.get_baggage(SCENARIO_TRY) is not None


LEFTOVERS: Final = Leftovers()
"""The process' own."""
