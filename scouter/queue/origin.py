"""The origin of what is made in a replay, and what a replay has left running."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from opentelemetry import baggage

from scouter.model.attributes import (
    SCENARIO_ATTEMPT,
    SCENARIO_ID,
    SCENARIO_ID_MAX_CHARS,
    SCENARIO_TRY,
)

_MAX_DIGITS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The scenario that something was made in; nothing is set where nobody knows."""

    scenario_id: str | None = None
    attempt: int | None = None
    try_key: str | None = None
    source: object | None = None
    """The thread or task that made it, where that has outlived its scenario."""

    @property
    def marks(self) -> dict[str, str | int]:
        """Attributes that name it on spans and events."""
        known = {
            SCENARIO_ID: self.scenario_id,
            SCENARIO_ATTEMPT: self.attempt,
            SCENARIO_TRY: self.try_key,
        }
        return {key: value for key, value in known.items() if value is not None}


NOWHERE: Final = Origin()


def named_in(entries: Mapping[str, object]) -> Origin:
    """The scenario that baggage names; it comes from other processes too, so it may be anything."""
    scenario = entries.get(SCENARIO_ID)
    if not isinstance(scenario, str) or len(scenario) > SCENARIO_ID_MAX_CHARS:
        return NOWHERE
    attempt, key = entries.get(SCENARIO_ATTEMPT), entries.get(SCENARIO_TRY)
    if not (isinstance(attempt, str) and attempt.isdecimal() and len(attempt) < _MAX_DIGITS):
        attempt = None
    if not (isinstance(key, str) and len(key) <= SCENARIO_ID_MAX_CHARS):
        key = None
    return Origin(
        scenario_id=scenario, attempt=None if attempt is None else int(attempt), try_key=key
    )


Resolve: TypeAlias = Callable[[Origin], Origin]


class Origins:
    """Finds the origin of what the calling code makes."""

    def __init__(self) -> None:
        self.resolve: Resolve | None = None
        """Set by a replay, which knows more than the context: from what baggage names to what is
        true. Called in any thread; never raises."""
        self.has_replayed = False
        """Set by the first replay, so that others pay nothing for the question of leftovers."""

    def now(self) -> Origin:
        """The origin of what is made here and now."""
        return self.of(baggage.get_all())

    def of(self, entries: Mapping[str, object]) -> Origin:
        """The origin of what is made here and now in a context with this baggage."""
        named = named_in(entries) if entries else NOWHERE
        return named if self.resolve is None else self.resolve(named)

    def is_leftover(self) -> bool:
        """Tell whether a replay started the calling code, which must not reach the collector."""
        return self.has_replayed and baggage.get_baggage(SCENARIO_TRY) is not None


ORIGINS: Final = Origins()
"""The process' own, as span capture belongs to the process."""
