"""Labels: what people say of stored records, appended; of one person and task the last counts."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from collector.store.commit import text_hash
from collector.store.reads import Reads

_COLUMNS: Final = """
    space, uid, record_id, alias, task_id, rater, is_good, notes, at_ns, added_by, score, is_blind,
    queue_order, stratum, stratum_size, seq, ordinal
"""
_LATEST: Final = """
    SELECT DISTINCT ON (uid, alias, task_id, rater) {columns} FROM labels
    WHERE space = $1 {condition}
    ORDER BY uid, alias, task_id, rater, seq DESC, ordinal DESC
"""
_CONDITION: Final = """
      AND ($2::TEXT IS NULL OR alias = $2::TEXT) AND ($3::TEXT IS NULL OR task_id = $3::TEXT)
      AND ($4::TEXT IS NULL OR rater = $4::TEXT) AND ($5::TEXT IS NULL OR uid = $5::TEXT)
"""
_LIST: Final = f"""
    SELECT {_COLUMNS} FROM ({_LATEST.format(columns=_COLUMNS, condition=_CONDITION)}) l
    WHERE is_good IS NOT NULL AND (seq, ordinal) < ($6::BIGINT, $7::BIGINT)
    ORDER BY seq DESC, ordinal DESC LIMIT $8::BIGINT
"""
_COUNTED: Final = "alias, task_id, uid, rater, is_good, seq, ordinal"
_LABEL_COUNTS: Final = f"""
    SELECT alias, task_id, count(DISTINCT uid), count(DISTINCT rater)
    FROM ({_LATEST.format(columns=_COUNTED, condition="")}) l
    WHERE is_good IS NOT NULL GROUP BY alias, task_id
"""
_RATERS: Final = """
    SELECT rater FROM (
        SELECT DISTINCT ON (rater) rater, seq, ordinal FROM labels WHERE space = $1
        ORDER BY rater, seq, ordinal
    ) l ORDER BY seq, ordinal
"""
_ERASED: Final = """
    SELECT key_hash FROM erased
    WHERE space = $1 AND kind = 'record' AND key_hash = ANY($2::BIGINT[])
"""
_END: Final = (2**62, 0)


class LabelRow(NamedTuple):
    """Label of one person on one record, for one task."""

    space: str
    uid: str
    """Uid of the record."""
    record_id: str
    alias: str
    """Alias of the profile."""
    task_id: str
    rater: str
    """The person, as they call themselves."""
    is_good: bool | None
    """True if the record is good, as the task asks; None takes an earlier label back.

    Of a score, whether the task passed with it when it was given.
    """
    notes: str
    at_ns: int
    by: str
    """Id of the token that it came with; empty where none was requested."""
    score: float | None = None
    """The person's number on the task's scale, where they gave one."""
    is_blind: bool | None = None
    """False where they had seen the outcome or other labels before; None where nobody said."""
    order: str | None = None
    """Order of the queue that the record came from; None if from none."""
    stratum: str | None = None
    """Records that it was drawn from at random: `passed`, `failed` or `all`."""
    size: int | None = None
    """Number of records in the stratum at that moment."""
    place: tuple[int, int] = (0, 0)
    """Commit and ordinal in it, where it was read from the store."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelQuery:
    """Labels to list; None means any."""

    space: str
    alias: str | None = None
    task_id: str | None = None
    rater: str | None = None
    uid: str | None = None
    limit: int = 1_000
    before: tuple[int, int] | None = None
    """Continue below this place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelCount:
    """Labels that count, on one task."""

    alias: str
    task_id: str
    records: int
    """Records with a label."""
    raters: int
    """People who gave one."""


class Labels(Reads):
    """Labels; they go with their record, whoever takes it out."""

    def append_labels(self, labels: Sequence[LabelRow]) -> int:
        """Store labels; the last one of a person on a task and record counts.

        One on a record that was erased meanwhile is dropped. Returns the commit's number.
        """
        with self.alone():
            erased = {
                (space, number)
                for space in {label.space for label in labels}
                for (number,) in self.read_for_work(
                    _ERASED, [space, [text_hash(label.uid) for label in labels]]
                )
            }
            rows = [
                (at, *row[:-1])
                for at, row in enumerate(map(_stored, labels))
                if (row.space, text_hash(row.uid)) not in erased
            ]
            return self.write({"labels": rows})

    def labels(self, query: LabelQuery) -> list[LabelRow]:
        """Labels that count, the newest first.

        Cost: linear in the labels of the space.
        """
        rows = self.read(
            _LIST,
            [
                query.space, query.alias, query.task_id, query.rater, query.uid,
                *(query.before or _END), query.limit,
            ],
        )  # fmt: skip
        return [_label(row) for row in rows]

    def label_raters(self, space: str) -> list[str]:
        """Names that people labelled under, by their first use.

        Names that differ in case or outer spaces alone are one, as it was spelt first.

        Cost: linear in the labels of the space.
        """
        first: dict[str, str] = {}
        for (name,) in self.read(_RATERS, [space]):
            first.setdefault(name.strip().casefold(), name)
        return list(first.values())

    def label_counts(self, space: str) -> list[LabelCount]:
        """Count the labels on each task that has one, in any order.

        Cost: linear in the labels of the space.
        """
        return [
            LabelCount(alias=alias, task_id=task_id, records=records, raters=raters)
            for alias, task_id, records, raters in self.read(_LABEL_COUNTS, [space])
        ]


def _stored(row: LabelRow) -> LabelRow:
    """A label with numbers for its truth values."""
    flags = {name: getattr(row, name) for name in ("is_good", "is_blind")}
    return row._replace(
        **{name: None if each is None else int(each) for name, each in flags.items()}
    )


def _label(values: Sequence[Any]) -> LabelRow:
    *given, seq, ordinal = values
    row = LabelRow(*given, place=(seq, ordinal))
    is_blind = None if row.is_blind is None else bool(row.is_blind)
    return row._replace(is_good=bool(row.is_good), is_blind=is_blind)
