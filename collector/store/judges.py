"""Judges: their calibrations, and their outcomes of gold items."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from collector.store.reads import Reads
from scouter.evaluate.outcome import Outcome


class CalibrationRow(NamedTuple):
    """Calibration of a judge; it belongs to no space, as judges are the collector's."""

    digest: str
    """SHA-256 of the body, in hex."""
    body: str
    """Text that `Calibration.model_dump_json` wrote."""
    added_ns: int


class GoldOutcome(NamedTuple):
    """Evaluation of a judge on a gold item: an item whose right evaluation people have given.

    It is about no record: no rate, sheet, total or series of an agent counts it.
    """

    space: str
    alias: str
    task_id: str
    judge: str
    """Digest of the question; another judge's evaluations are not compared with these."""
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


_CALIBRATIONS: Final = """
    SELECT digest, body, added_ns FROM (
        SELECT DISTINCT ON (digest) digest, body, added_ns, seq, ordinal FROM calibrations
        ORDER BY digest, seq, ordinal
    ) c ORDER BY seq, ordinal
"""
_GOLD: Final = f"""
    SELECT DISTINCT ON (slot) {", ".join(GoldOutcome._fields)} FROM gold_outcomes
    WHERE space = $1 AND alias = $2 AND task_id = $3 AND judge = $4 AND slot >= $5
    ORDER BY slot, seq, ordinal
"""


class Judges(Reads):
    """Reads and writes about judges."""

    def append_calibrations(self, calibrations: Sequence[CalibrationRow]) -> int:
        """Store what is known of judges; the same digest again changes nothing.

        Returns the commit's number.
        """
        rows = [(at, *row) for at, row in enumerate(calibrations)]
        return self.write({"calibrations": rows})

    def calibrations(self) -> list[CalibrationRow]:
        """All calibrations, each digest once, in the order in which they came."""
        return [CalibrationRow(*row) for row in self.read(_CALIBRATIONS)]

    def append_gold_outcomes(self, outcomes: Sequence[GoldOutcome]) -> int:
        """Store outcomes of gold items; they are about no record, and no count has them.

        Returns the commit's number.
        """
        rows = [(at, *row._replace(is_good=int(row.is_good))) for at, row in enumerate(outcomes)]
        return self.write({"gold_outcomes": rows})

    def gold_outcomes(self, query: GoldQuery) -> list[GoldOutcome]:
        """Outcomes of gold items by one judge, by slot; of two on one slot the first."""
        rows = self.read(
            _GOLD, [query.space, query.alias, query.task_id, query.judge, query.since_slot]
        )
        found = (GoldOutcome(*row) for row in rows)
        return [
            each._replace(is_good=bool(each.is_good), outcome=Outcome(each.outcome))
            for each in found
        ]
