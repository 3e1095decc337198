"""Rows of what is known about judges."""

from dataclasses import dataclass

from scouter.evaluate.outcome import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class CalibrationRow:
    """Calibration of a judge; it belongs to no space, as judges are the collector's."""

    digest: str
    """SHA-256 of the body, in hex."""
    body: str
    """Text that `Calibration.model_dump_json` wrote."""
    added_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldOutcome:
    """Evaluation of a judge on a gold item: an item whose right evaluation people have given.

    It is about no record: no rate, sheet, total or series of an agent counts it.
    """

    space: str
    alias: str
    task_id: str
    judge: str
    """Digest of what was asked; another judge's evaluations are not held against these."""
    slot: int
    """Slot of the schedule; a judge has at most one evaluation for each."""
    item: str
    """Digest of the item."""
    is_good: bool
    """As people say."""
    outcome: Outcome
    reason: str | None
    at_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldQuery:
    """The gold outcomes of one judge."""

    space: str
    alias: str
    task_id: str
    judge: str
    since_slot: int = 0
    """The first slot."""
