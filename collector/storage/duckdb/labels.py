"""Labels: appended; of one person, task and record the last one counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from collector.storage.duckdb.database import Database
from collector.storage.duckdb.job import RowsJob
from collector.storage.duckdb.tombstones import record_tombstone
from collector.storage.duckdb.transaction import Transaction
from collector.store.labels import LabelCount, LabelQuery, LabelRow

# All SQL is put together from this module's own words; values always travel as parameters.
# ruff: noqa: S608

_COLUMNS: Final = (
    "space", "uid", "record_id", "alias", "task_id", "rater", "is_good", "notes", "at_ns", "by",
    "score", "is_blind", "order", "stratum", "size",
)  # fmt: skip
_NAMES: Final = {"by": "added_by", "order": "queue_order", "size": "stratum_size"}
_STORED: Final = ", ".join(_NAMES.get(name, name) for name in _COLUMNS)


@dataclass(slots=True, kw_only=True)
class LabelsJob(RowsJob[LabelRow]):
    """Labels."""

    def apply(self, tx: Transaction) -> int:
        """Add those on records that were not erased."""
        for row in self.rows:
            grave = record_tombstone(row.space, row.uid)
            if grave not in tx.erased and grave not in tx.tombstones:
                tx.add("labels", tx.ordinal("labels"), *(getattr(row, name) for name in _COLUMNS))
        return tx.seq


def read_labels(database: Database, query: LabelQuery) -> Sequence[LabelRow]:
    """Labels that count, the newest first."""
    given = {
        "space": query.space, "alias": query.alias, "task_id": query.task_id,
        "rater": query.rater, "uid": query.uid,
    }  # fmt: skip
    named = {name: value for name, value in given.items() if value is not None}
    where = " AND ".join(f"{name} = ?" for name in named)
    seq, ordinal = query.before or (2**62, 0)
    rows = database.read(
        f"SELECT * FROM (SELECT {_STORED}, seq, ordinal FROM labels WHERE {where}"
        " QUALIFY row_number() OVER (PARTITION BY uid, alias, task_id, rater"
        " ORDER BY seq DESC, ordinal DESC) = 1)"
        " WHERE is_good IS NOT NULL AND (seq < ? OR (seq = ? AND ordinal < ?))"
        " ORDER BY seq DESC, ordinal DESC LIMIT ?",
        [*named.values(), seq, seq, ordinal, query.limit],
    )
    return [
        LabelRow(**dict(zip(_COLUMNS, row[:-2], strict=True)), place=(row[-2], row[-1]))
        for row in rows
    ]


def read_label_raters(database: Database, space: str) -> Sequence[str]:
    """Names of people by their first use, each as it was spelt first.

    Cost: linear in the labels of the space.
    """
    rows = database.read(
        "SELECT arg_min(rater, (seq, ordinal)) FROM labels WHERE space = ?"
        " GROUP BY lower(trim(rater)) ORDER BY min((seq, ordinal))",
        [space],
    )
    return [name for (name,) in rows]


def read_label_counts(database: Database, space: str) -> Sequence[LabelCount]:
    """Count labels by task.

    Cost: linear in the labels of the space.
    """
    rows = database.read(
        "SELECT alias, task_id, count(DISTINCT uid), count(DISTINCT rater) FROM"
        " (SELECT alias, task_id, uid, rater FROM labels WHERE space = ?"
        " GROUP BY alias, task_id, uid, rater"
        " HAVING arg_max(is_good IS NOT NULL, (seq, ordinal)))"
        " GROUP BY alias, task_id",
        [space],
    )
    names = ("alias", "task_id", "records", "raters")
    return [LabelCount(**dict(zip(names, row, strict=True))) for row in rows]
