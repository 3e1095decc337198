"""Calibrations of judges, and their outcomes of gold items, in the store."""

from dataclasses import dataclass

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.job import RowsJob
from collector.storage.duckdb.transaction import Transaction
from collector.store.judges import CalibrationRow, GoldOutcome, GoldQuery
from scouter.evaluate.outcome import Outcome


@dataclass(slots=True, kw_only=True)
class CalibrationsJob(RowsJob[CalibrationRow]):
    """Calibrations."""

    def apply(self, tx: Transaction) -> int:
        """Add the calibrations."""
        for row in self.rows:
            tx.add("calibrations", tx.ordinal("calibrations"), row.digest, row.body, row.added_ns)
        return tx.seq


@dataclass(slots=True, kw_only=True)
class GoldJob(RowsJob[GoldOutcome]):
    """Outcomes of gold items."""

    def apply(self, tx: Transaction) -> int:
        """Add the evaluations."""
        for row in self.rows:
            tx.add(
                "gold_verdicts", tx.ordinal("gold_verdicts"), row.space, row.alias, row.task_id,
                row.judge, row.slot, row.item, row.is_good, row.outcome.value, row.reason,
                row.at_ns,
            )  # fmt: skip
        return tx.seq


def read_calibrations(database: Database) -> list[CalibrationRow]:
    """All calibrations, each once, in the order in which they came."""
    rows = database.read("SELECT digest, body, added_ns FROM calibrations ORDER BY seq, ordinal")
    found: dict[str, CalibrationRow] = {}
    for digest, body, added_ns in rows:
        found.setdefault(digest, CalibrationRow(digest=digest, body=body, added_ns=added_ns))
    return list(found.values())


def read_gold(database: Database, query: GoldQuery) -> list[GoldOutcome]:
    """The evaluations of one judge by slot; of two on one slot the first."""
    rows = database.read(
        "SELECT slot, item, is_good, outcome, reason, at_ns FROM gold_verdicts"
        " WHERE space = ? AND alias = ? AND task_id = ? AND judge = ? AND slot >= ?"
        " ORDER BY slot, seq, ordinal",
        [query.space, query.alias, query.task_id, query.judge, query.since_slot],
    )
    found: dict[int, GoldOutcome] = {}
    for slot, item, is_good, outcome, reason, at_ns in rows:
        if slot not in found:
            found[slot] = GoldOutcome(
                space=query.space, alias=query.alias, task_id=query.task_id, judge=query.judge,
                slot=slot, item=item, is_good=is_good, outcome=Outcome(outcome), reason=reason,
                at_ns=at_ns,
            )  # fmt: skip
    return list(found.values())
