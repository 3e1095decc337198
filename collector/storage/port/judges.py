"""Rows of what is known about judges."""

from dataclasses import dataclass

from scouter.evaluate.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRow:
    """What is known of a judge; of no space, as entries and judges are the collector's."""

    digest: str
    """SHA-256 of the body, in hex."""
    body: str
    """What `Calibration.model_dump_json` wrote."""
    added_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldVerdict:
    """How a judge decided a gold item: one whose right verdict people have given.

    It is about no record: no rate, sheet, total or series of an agent counts it.
    """

    space: str
    alias: str
    task_id: str
    judge: str
    """Digest of what was asked; another judge's verdicts are not held against these."""
    slot: int
    """Which place in the schedule; of one judge each is taken once."""
    item: str
    """Digest of the item."""
    is_good: bool
    """As people say."""
    outcome: Outcome
    reason: str | None
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldQuery:
    """The gold verdicts of one judge."""

    space: str
    alias: str
    task_id: str
    judge: str
    since_slot: int = 0
    """The first slot."""
